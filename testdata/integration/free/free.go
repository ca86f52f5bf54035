// Package free finds ports that nobody listens on.
package free

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports that the system gives to outgoing connections begin at 32768: a server that
// is stopped and started again would now and then find one of those in its place.
const first, last = 15_000, 32_000

// given are the ports of this process' tests, none of which is given twice: tests
// that run beside each other listen some time after they ask.
var given struct {
	mu    sync.Mutex
	ports map[int]bool
}

// Address is a free one of 127.0.0.1, another at each call.
func Address(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := first + rand.IntN(last-first) //nolint:gosec // any will do
		if address := fmt.Sprintf("127.0.0.1:%d", port); isNew(port) && isFree(t, address) {
			return address
		}
	}
	t.Fatal("no port of 127.0.0.1 is free")
	return ""
}

func isNew(port int) bool {
	given.mu.Lock()
	defer given.mu.Unlock()
	if given.ports[port] {
		return false
	}
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	given.ports[port] = true
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
