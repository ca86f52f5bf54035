// Package free finds ports that nobody listens on.
package free

import (
	"net"
	"testing"
)

// Address is a free one of 127.0.0.1.
func Address(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
