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

// stampedConn notes when what is read from it came, and when it was last
// written to. Where the kernel stamps what it receives, that stamp counts: it
// holds no wait for a goroutine or a thread to be scheduled, which on a busy
// machine is the larger part of a client's own error. Elsewhere it is the
// instant after the read. TCP is a stream of bytes: of what one read brings, the
// kernel tells when the last segment came, and all events in it share that.
type stampedConn struct {
	net.Conn
	clock  clock
	early  bool      // dialled before it was needed, so the server may have dropped it
	kernel *receiver // nil: it is read as any connection

	arrived atomic.Int64 // clock: when the bytes of the last Read came; never falls
	readAt  atomic.Int64 // clock, as the last Read that brought bytes returned
	writeAt atomic.Int64 // clock, as the last Write began
}

func newStampedConn(c net.Conn, k clock, early, ordinary bool) *stampedConn {
	return &stampedConn{Conn: c, clock: k, early: early, kernel: newReceiver(c, ordinary)}
}

func (c *stampedConn) Read(p []byte) (int, error) {
	if c.kernel == nil {
		n, err := c.Conn.Read(p)
		if n > 0 {
			c.note(0)
		}
		return n, err
	}
	n, stamp, err := c.kernel.read(p)
	if n > 0 {
		c.note(stamp)
	}
	return n, err
}

// note takes the instants of a read that just returned; stamp is the kernel's,
// 0 for none.
func (c *stampedConn) note(stamp int64) {
	now, wall := c.clock.both()
	at := now
	if stamp != 0 {
		low := time.Duration(max(c.arrived.Load(), c.writeAt.Load()))
		at = arrival(now, low, time.Duration(wall-stamp))
	}
	c.readAt.Store(int64(max(now, at))) // a write may have begun since
	c.arrived.Store(int64(at))
}

// last gives the instants of the last read.
func (c *stampedConn) last() stamp {
	return stamp{at: time.Duration(c.arrived.Load()), read: time.Duration(c.readAt.Load())}
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
	clock    clock
	roots    *x509.CertPool // nil: the system's
	ready    chan net.Conn  // dialled early, not yet used
	ordinary bool           // connections acknowledge as those of other clients do
}

func (d *dialer) dial(ctx context.Context, network, addr string, secure, early bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn := newStampedConn(raw, d.clock, early, d.ordinary)
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
