// Package store keeps what a profile run leaves in its output folder: raw
// request records, the journal, interpolation surfaces as NPZ and JSON, run.json
// and recommendation.json.
//
// It takes the words of packages engine and profile and gives files, and back.
// Every file is written whole or not at all: beside its place, synced, renamed,
// and the folder synced; the journal alone grows, one synced line at a time.
// Every file carries its schema's version. Files that it reads are not trusted:
// what is missing, broken, out of range or of another version is refused with
// the file and the field named.
package store
