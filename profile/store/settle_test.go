package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A file under way is waited for, and none is begun after that.
func TestSettleWaitsForFilesUnderWay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	writing.RLock()
	settled := make(chan struct{})
	go func() { Settle(); close(settled) }()
	select {
	case <-settled:
		t.Fatal("settled while a file was being written")
	default:
	}
	writing.RUnlock()
	<-settled
	written := make(chan error, 1)
	go func() { written <- WriteFile(file, []byte("a")) }()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) || writing.TryRLock() {
		t.Errorf("a file was begun: %v", err)
	}
	writing.Unlock()
	if err := <-written; err != nil {
		t.Error(err)
	}
}
