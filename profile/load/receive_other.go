//go:build !linux

package load

import "net"

// receiver is where the kernel tells when it received what is read: not here.
type receiver struct{}

func newReceiver(net.Conn) *receiver { return nil }

func (*receiver) read([]byte) (n int, stamp int64, err error) { return 0, 0, net.ErrClosed }
