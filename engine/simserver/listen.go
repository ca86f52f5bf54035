package simserver

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// newConnGrace is how long a connection without a request yet may stay when
// the server stops: enough for bytes on their way.
const newConnGrace = 100 * time.Millisecond

// ServeHTTP answers requests on ln until ctx is done, then stops accepting, lets
// the requests in flight finish, and returns nil; an error where they had to
// be cut off after the drain time, or where ln fails. It closes ln.
func ServeHTTP(ctx context.Context, ln net.Listener, h http.Handler, drain time.Duration, l *log.Logger) error {
	fresh := newConns{}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 30 * time.Second,
		ConnState:         fresh.track,
		ErrorLog:          l,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serving on %s: %w", ln.Addr(), err), srv.Close())
	case <-ctx.Done():
	}
	l.Printf("stopping: waiting up to %v for the requests in flight", drain)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	// Shutdown would wait 5 s for connections that clients opened ahead of need.
	defer time.AfterFunc(newConnGrace, fresh.close).Stop()
	err := srv.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("requests still in flight %v after the stop were cut off", drain)
		l.Print(err)
		return errors.Join(err, srv.Close())
	}
	l.Print("stopped")
	return err
}

// newConns holds the connections that have not brought a request yet.
type newConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (n *newConns) track(c net.Conn, st http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if st != http.StateNew {
		delete(n.conns, c)
		return
	}
	if n.conns == nil {
		n.conns = map[net.Conn]struct{}{}
	}
	n.conns[c] = struct{}{}
}

func (n *newConns) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_ = c.Close() // the server stops: nothing is lost that could be told to anyone
	}
}
