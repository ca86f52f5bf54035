package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// clock gives monotonic instants since its epoch.
type clock struct{ epoch time.Time }

func (k clock) now() time.Duration { return time.Since(k.epoch) }

// stampedConn notes when it was last read from and written to. Instants taken
// here hold no wait for a goroutine to be scheduled, which on a busy machine is
// the larger part of a client's own error.
type stampedConn struct {
	net.Conn
	clock clock
	early bool // dialled before it was needed, so the server may have dropped it

	readAt  atomic.Int64 // clock, as the last Read that brought bytes returned
	writeAt atomic.Int64 // clock, as the last Write began
}

func (c *stampedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.readAt.Store(int64(c.clock.now()))
	}
	return n, err
}

// Write notes its beginning, not its end: the answer may be read before this
// thread runs again, and an answer must not come before its question.
func (c *stampedConn) Write(p []byte) (int, error) {
	c.writeAt.Store(int64(c.clock.now()))
	return c.Conn.Write(p)
}

// stamps finds the stampedConn under what net/http calls the connection.
func stamps(c net.Conn) *stampedConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, _ := c.(*stampedConn)
	return s
}

// dialTimeout bounds one connection attempt, TLS included.
const dialTimeout = 30 * time.Second

// dialer makes stamped connections and keeps those that were made early.
type dialer struct {
	clock clock
	roots *x509.CertPool // nil: the system's
	ready chan net.Conn  // dialled early, not yet used
}

func (d *dialer) dial(ctx context.Context, network, addr string, secure, early bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn := &stampedConn{Conn: raw, clock: d.clock, early: early}
	if !secure {
		return conn, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	t := tls.Client(conn, &tls.Config{ServerName: host, RootCAs: d.roots, MinVersion: tls.VersionTLS12})
	if err := t.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one to tell
		return nil, err
	}
	return t, nil
}

// take gives a connection that was dialled early, or dials one.
func (d *dialer) take(ctx context.Context, network, addr string, secure bool) (net.Conn, error) {
	select {
	case c := <-d.ready:
		return c, nil
	default:
		return d.fresh(ctx, network, addr, secure)
	}
}

// prepareTimeout bounds the dialling of all early connections.
const prepareTimeout = 5 * time.Second

// prepare dials n connections, at most 64 at once. One that fails is left to
// its request, which then reports why.
func (d *dialer) prepare(ctx context.Context, addr string, secure bool, n int) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	d.ready = make(chan net.Conn, n)
	slots := make(chan struct{}, 64)
	var wg sync.WaitGroup
	for range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c, err := d.dial(ctx, "tcp", addr, secure, true)
			if err == nil {
				d.ready <- c
			}
		})
	}
	wg.Wait()
}

// close drops the early connections that no request took.
func (d *dialer) close() {
	for {
		select {
		case c := <-d.ready:
			_ = c.Close() // nothing was ever sent on it
		default:
			return
		}
	}
}

// idleTimeout is below the 5 s after which uvicorn (vLLM, SGLang) and
// cpp-httplib (llama.cpp) drop an idle connection by default (2026-08).
const idleTimeout = 4 * time.Second

// dialFunc makes one connection; secure asks for TLS.
type dialFunc func(ctx context.Context, network, addr string, secure bool) (net.Conn, error)

// fresh dials, whatever is ready.
func (d *dialer) fresh(ctx context.Context, network, addr string, secure bool) (net.Conn, error) {
	return d.dial(ctx, network, addr, secure, false)
}

// transport is HTTP/1.1 over dial without limits on connections. writeBuffer
// holds a whole request, so that it goes out in one system call.
func transport(dial dialFunc, writeBuffer int, reuse bool) *http.Transport {
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dial(ctx, network, addr, false)
		},
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dial(ctx, network, addr, true)
		},
		DisableCompression:     true,
		DisableKeepAlives:      !reuse,
		MaxIdleConnsPerHost:    1 << 20,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: 1 << 20,
		ReadBufferSize:         16 << 10,
		WriteBufferSize:        min(max(writeBuffer, 4<<10), 1<<20),
		Protocols:              &http1,
	}
}
