package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Ports that FreePort tries first. Linux gives outgoing connections those from 32768 on
// (ip(7), ip_local_port_range): such a connection could take the port before the engine
// listens.
const firstPort, lastPort = 15_000, 32_000

// FreePort is a TCP port of 127.0.0.1 that nobody listens on at this moment.
func FreePort() (int, error) {
	for range 20 {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // any will do
		if l, err := listen(context.Background(), port); err == nil {
			return port, l.Close()
		}
	}
	l, err := listen(context.Background(), 0)
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port // a TCP listener has a TCP address
	return port, l.Close()
}

// checkPort makes sure that nobody listens on port.
func checkPort(ctx context.Context, port int) error {
	l, err := listen(ctx, port)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: %d: choose another port", ErrPortInUse, port)
	case err != nil:
		return fmt.Errorf("checking port %d: %w", port, err)
	}
	return l.Close()
}

func listen(ctx context.Context, port int) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
