package simserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
)

// newConnGrace is how long a connection without a request yet may stay when
// the server stops: enough for bytes on their way.
const newConnGrace = 100 * time.Millisecond

// DefaultDrainTimeout bounds how long a server waits for requests in flight.
const DefaultDrainTimeout = 30 * time.Second

// bodyTimeout bounds how long a request may take to arrive.
const bodyTimeout = time.Minute

// Serving is how a server takes requests; zero values are the defaults.
type Serving struct {
	// DrainTimeout bounds the wait for requests in flight when the server is
	// told to stop; 0 = DefaultDrainTimeout.
	DrainTimeout time.Duration
	// BodyTimeout is how long a request may take to arrive; 0 = a minute.
	BodyTimeout time.Duration
	// Hosts are the names under which a client may reach the server, as engine.OwnHost
	// has it. Without any, a server on a loopback address has none, and one on another
	// address, which clients know by names that it cannot know, has all.
	Hosts []string
}

// ServeHTTP answers requests on ln until ctx is done, then stops accepting, lets
// the requests in flight finish, and returns nil; an error where they had to
// be cut off after the drain time, or where ln fails. It closes ln.
func ServeHTTP(ctx context.Context, ln net.Listener, h http.Handler, s Serving, l *log.Logger) error {
	if a, ok := ln.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() || len(s.Hosts) > 0 {
		h = s.guard(h)
	}
	drain := cmp.Or(s.DrainTimeout, DefaultDrainTimeout)
	fresh := newConns{}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       cmp.Or(s.BodyTimeout, bodyTimeout), // not of the answer: net/http lifts it at the body's end
		IdleTimeout:       -1,
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

// guard refuses requests under names that are not ours.
func (s Serving) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !engine.OwnHost(r.Host, s.Hosts) {
			WriteError(w, http.StatusForbidden, fmt.Sprintf("the host name %q is not allowed. Use the server's address, or allow the name: %s", r.Host, field.AllowHost))
			return
		}
		h.ServeHTTP(w, r)
	})
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
