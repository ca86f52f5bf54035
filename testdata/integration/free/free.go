// Package free finds ports that nobody listens on.
package free

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports that the system gives to outgoing connections begin at 32768: a server that
// is stopped and started again would now and then find one of those in its place.
const first, last = 15_000, 32_000

// Address is a free one of 127.0.0.1.
func Address(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first)) //nolint:gosec // any will do
		l, err := config.Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
	t.Fatal("no port of 127.0.0.1 is free")
	return ""
}
