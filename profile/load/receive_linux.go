package load

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// quickAcks says that this system lets a client acknowledge at once (TCP_QUICKACK).
const quickAcks = true

// receiver reads from a socket of which the kernel tells when it received what
// is read, if it can. Only one goroutine may read at a time.
type receiver struct {
	conn     net.Conn
	raw      syscall.RawConn
	ordinary bool                  // acknowledges when the kernel sees fit, as other clients do
	recv     func(fd uintptr) bool // r.receive, bound once: bound for each read it would allocate

	head    unix.Msghdr // of every recvmsg: made anew it would allocate, as unix.Recvmsg does
	body    unix.Iovec
	control [64]byte
	n       int
	stamp   int64 // Unix time in nanoseconds; 0 = the kernel does not say
	err     error
}

// newReceiver is nil where c is no socket.
func newReceiver(c net.Conn, ordinary bool) *receiver {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	err = raw.Control(func(fd uintptr) {
		// Where it refuses (before Linux 5.1, in some sandboxes) there are no stamps.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1)
	})
	if err != nil {
		return nil
	}
	r := &receiver{conn: c, raw: raw, ordinary: ordinary}
	r.recv = r.receive
	r.head.Iov, r.head.Control = &r.body, &r.control[0]
	r.head.SetIovlen(1)
	return r
}

// read reads once and gives the kernel's stamp of the last segment read.
func (r *receiver) read(p []byte) (n int, stamp int64, err error) {
	if len(p) == 0 {
		return 0, 0, nil
	}
	r.body.Base = &p[0]
	r.body.SetLen(len(p))
	err = r.raw.Read(r.recv)
	r.body.Base = nil
	switch {
	case err != nil: // closed, or a deadline
		return 0, 0, err
	case r.err != nil:
		return 0, 0, &net.OpError{
			Op: "read", Net: "tcp", Source: r.conn.LocalAddr(), Addr: r.conn.RemoteAddr(),
			Err: os.NewSyscallError("recvmsg", r.err),
		}
	case r.n == 0:
		return 0, 0, io.EOF
	}
	return r.n, r.stamp, nil
}

// receive tries one recvmsg and reports whether that is the read's end. The
// socket does not block, so that Go's scheduler need not hear of the system call.
func (r *receiver) receive(fd uintptr) bool {
	var errno syscall.Errno
	for {
		r.head.SetControllen(len(r.control))
		var n uintptr
		n, _, errno = unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.head)), 0)
		if r.n = int(n); errno != unix.EINTR { //nolint:gosec // bytes of one buffer
			break
		}
	}
	switch errno {
	case unix.EAGAIN:
		return false
	case 0:
		acquire(fd)
		r.err, r.stamp = nil, stampOf(r.control[:r.head.Controllen])
		r.acknowledge(fd)
	default:
		r.err = errno
	}
	return true
}

// acknowledge makes the kernel acknowledge now. On a busy connection it otherwise
// waits up to 40 ms (TCP_DELACK_MIN), and a server that sent its header without
// TCP_NODELAY holds the first tokens back until then. The option does not last, so
// it is set after every read (tcp(7)).
func (r *receiver) acknowledge(fd uintptr) {
	if r.ordinary {
		return
	}
	on := int32(1)
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, uintptr(unsafe.Pointer(&on)), 4, 0)
}

// stampOf finds the kernel's stamp among control messages: two 64-bit words,
// seconds and nanoseconds, in the machine's byte order. 0 = there is none.
func stampOf(control []byte) int64 {
	for len(control) >= unix.CmsgLen(0) {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPNS_NEW && len(data) >= 16 {
			return int64(binary.NativeEndian.Uint64(data))*1e9 + int64(binary.NativeEndian.Uint64(data[8:])) //nolint:gosec // nanoseconds since 1970 fit
		}
		control = rest
	}
	return 0
}
