package virtual_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
)

// way is a way to etcd that can lose the answers of one kind of request.
type way struct {
	url  string
	mark atomic.Pointer[string] // a request with these bytes is the last that is answered
	lost atomic.Bool
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	w := &way{url: "http://" + l.Addr().String()}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			t.Cleanup(func() { _, _ = from.Close(), there.Close() })
			go w.requests(from, there)
			go w.answers(there, from)
		}
	}()
	return w
}

// loseAnswersOf passes a request that holds text on, and nothing back after.
func (w *way) loseAnswersOf(text string) { w.mark.Store(&text) }

func (w *way) heal() {
	w.mark.Store(nil)
	w.lost.Store(false)
}

func (w *way) requests(from, to net.Conn) {
	defer func() { _ = to.Close() }()
	pass(from, func(b []byte) error {
		if mark := w.mark.Load(); mark != nil && bytes.Contains(b, []byte(*mark)) {
			w.lost.Store(true)
		}
		_, err := to.Write(b)
		return err
	})
}

// answers keeps the way open while answers are lost, or etcd would drop the request; then it
// closes it: what came after would make no sense.
func (w *way) answers(from, to net.Conn) {
	defer func() { _ = to.Close() }()
	lost := false
	pass(from, func(b []byte) error {
		switch {
		case w.lost.Load():
			lost = true
			return nil
		case lost:
			return net.ErrClosed
		}
		_, err := to.Write(b)
		return err
	})
}

func pass(from net.Conn, each func([]byte) error) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || each(buffer[:n]) != nil {
			return
		}
	}
}
