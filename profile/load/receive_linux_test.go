package load

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// socket gives both ends of a connection, ours stamped.
func socket(t *testing.T) (ours *stampedConn, theirs net.Conn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = theirs.Close() })
	return newStampedConn(c, clock{epoch: time.Now()}, false, false), theirs
}

// stamping waits until the kernel stamps: where no socket asked for it before, it
// begins a moment after it was asked, and says when bytes were read until then.
func stamping(t *testing.T, ours *stampedConn, theirs net.Conn) {
	t.Helper()
	for range 1000 {
		say(theirs, ".")
		time.Sleep(2 * time.Millisecond)
		if _, err := ours.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if at := ours.last(); at.read-at.at > time.Millisecond {
			return
		}
	}
	t.Fatal("the kernel does not stamp")
}

// What waits in the socket keeps the instant at which it came.
func TestReceiveStampIsOfTheArrival(t *testing.T) {
	ours, theirs := socket(t)
	stamping(t, ours, theirs)
	before := ours.clock.now()
	say(theirs, "hello")
	after := ours.clock.now()
	time.Sleep(30 * time.Millisecond)
	b := make([]byte, 16)
	n, err := ours.Read(b)
	if err != nil || string(b[:n]) != "hello" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	at := ours.last()
	if at.at < before || at.at > after+10*time.Millisecond || at.read-at.at < 15*time.Millisecond {
		t.Errorf("came between %v and %v; stamped %v, read %v", before, after, at.at, at.read)
	}
}

func TestReceiveEndsAsAnyRead(t *testing.T) {
	ours, theirs := socket(t)
	if n, err := ours.Read(nil); n != 0 || err != nil {
		t.Errorf("an empty read: %d, %v", n, err)
	}
	_ = theirs.Close()
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v, want EOF", err)
	}
	ours, theirs = socket(t)
	if err := theirs.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	if _, err := ours.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "recvmsg: connection reset") {
		t.Errorf("after a reset: %v", err)
	}
	ours, _ = socket(t)
	if err := ours.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := ours.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("after a deadline: %v", err)
	}
	_ = ours.Close()
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after closing: %v", err)
	}
}

// Where data goes to and fro the kernel begins to delay acknowledgements: not after a read.
func TestReceiveAcknowledgesAtOnce(t *testing.T) {
	ours, theirs := socket(t)
	for range 3 {
		say(theirs, "a token")
		if _, err := ours.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		quick, err := 0, error(nil)
		if failed := ours.kernel.raw.Control(func(fd uintptr) {
			quick, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK)
		}); failed != nil || err != nil || quick == 0 {
			t.Fatalf("TCP_QUICKACK is %d after a read: %v, %v", quick, failed, err)
		}
		if _, err := ours.Write([]byte("a request")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReceiveAllocatesNothing(t *testing.T) {
	ours, theirs := socket(t)
	b := make([]byte, 16)
	n := testing.AllocsPerRun(100, func() {
		if _, err := theirs.Write(b[:1]); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Read(b); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations for each read", n)
	}
}

func TestStampOfForeignControlMessages(t *testing.T) {
	for _, b := range [][]byte{nil, make([]byte, 3), make([]byte, 64), []byte(strings.Repeat("\xff", 64))} {
		if got := stampOf(b); got != 0 {
			t.Errorf("%x: %d", b, got)
		}
	}
}
