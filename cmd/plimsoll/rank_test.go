package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/profile/store"
)

// journalWith puts other inputs at the head of a folder's journal.
func journalWith(t *testing.T, dir string, change func(store.Inputs)) {
	t.Helper()
	file := filepath.Join(dir, store.JournalFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	var entry store.Entry
	if err := json.Unmarshal([]byte(first), &entry); err != nil {
		t.Fatal(err)
	}
	change(entry.Header.Inputs)
	head, err := json.Marshal(store.HeaderEntry(store.NewHeader(entry.Header.Inputs, entry.Header.Version, entry.Header.Started)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(string(head)+"\n"+rest), 0o644); err != nil {
		t.Fatal(err)
	}
}
