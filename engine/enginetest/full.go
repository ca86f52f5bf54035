//go:build full

package enginetest

// Full says that tests run at full length: the build has the tag full.
const Full = true
