//go:build !unix

package load

// allowFiles: there is no limit here that a process could raise.
func allowFiles(int) error { return nil }
