// Package free finds ports that nobody listens on.
package free

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// Ports that the system gives to outgoing connections begin at 32768: a server that
// is stopped and started again would now and then find one of those in its place.
const first, last = 15_000, 32_000

// given are the locked files of the ports that this process gave, one for each. Tests
// listen some time after they ask, and other processes ask meanwhile: a lock lasts as
// long as its process, and nobody else gets the port.
var given struct {
	mu    sync.Mutex
	files []*os.File
}

// Address is a free one of 127.0.0.1, another at each call.
func Address(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := first + rand.IntN(last-first) //nolint:gosec // any will do
		if address := fmt.Sprintf("127.0.0.1:%d", port); isNew(t, port) && isFree(t, address) {
			return address
		}
	}
	t.Fatal("no port of 127.0.0.1 is free")
	return ""
}

// isNew locks the port for this process, and says whether nobody had.
func isNew(t testing.TB, port int) bool {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "plimsoll-test-ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // a descriptor is small
		_ = f.Close() // it is another's
		return false
	}
	given.mu.Lock()
	defer given.mu.Unlock()
	given.files = append(given.files, f)
	return true
}

func isFree(t testing.TB, address string) bool {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		return false
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}
