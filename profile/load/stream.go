package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds one line and one event of a stream, in bytes.
const maxEvent = 4 << 20

// errEventTooLong means that a stream holds an event beyond maxEvent.
var errEventTooLong = errors.New("an event of the stream is too long")

// events reads server-sent events (WHATWG HTML §9.2) and gives the data of
// each with the instant at which its last line came. Unlike the standard it
// also gives an event that the end of the stream cuts short of its blank line.
type events struct {
	src   io.Reader
	stamp func() stamp // instants of the last read

	buf        []byte // buf[begin:end] is read but not looked at
	begin, end int
	scanned    int // bytes after begin known to hold no line end
	skipLF     bool
	first      bool // no line was seen yet: a byte order mark may come
	err        error

	data []byte // of the event being put together
	any  bool   // it has a data line
	at   stamp  // when its last data line came
	read stamp  // when the last bytes came
}

// reset starts on another stream and keeps the buffers.
func (e *events) reset(src io.Reader, stamp func() stamp) {
	if e.buf == nil {
		e.buf = make([]byte, 16<<10)
	}
	*e = events{src: src, stamp: stamp, buf: e.buf, data: e.data[:0], first: true}
}

// next gives the data of the next event, which is valid until the next call.
// At the end of the stream the error is io.EOF.
func (e *events) next() (data []byte, at stamp, err error) {
	e.data, e.any = e.data[:0], false
	for {
		line, err := e.line()
		if err != nil {
			if errors.Is(err, io.EOF) && e.any {
				return e.data, e.at, nil
			}
			return nil, stamp{}, err
		}
		if len(line) == 0 {
			if e.any {
				return e.data, e.at, nil
			}
			continue
		}
		if err := e.field(line); err != nil {
			return nil, stamp{}, err
		}
	}
}

var (
	byteOrderMark = []byte("\xef\xbb\xbf")
	dataField     = []byte("data")
)

// field takes in one line; comments and other fields than data are dropped.
func (e *events) field(line []byte) error {
	rest, ok := bytes.CutPrefix(line, dataField)
	if !ok || len(rest) > 0 && rest[0] != ':' {
		return nil
	}
	if len(rest) > 0 {
		rest = rest[1:]
	}
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	if len(e.data)+len(rest) > maxEvent {
		return fmt.Errorf("%w: more than %d bytes", errEventTooLong, maxEvent)
	}
	if e.any {
		e.data = append(e.data, '\n')
	}
	e.data = append(e.data, rest...)
	e.any, e.at = true, e.read
	return nil
}

// line gives the next line without its end, which is LF, CRLF, CR or the end
// of the stream. It is valid until the next call.
func (e *events) line() ([]byte, error) {
	for {
		if e.skipLF && e.begin < e.end {
			if e.buf[e.begin] == '\n' {
				e.begin++
			}
			e.skipLF = false
		}
		have := e.buf[e.begin:e.end]
		if i := lineEnd(have[e.scanned:]); i >= 0 {
			i += e.scanned
			e.skipLF = have[i] == '\r'
			e.begin += i + 1
			return e.cut(have[:i]), nil
		}
		e.scanned = len(have)
		if e.err != nil {
			e.begin = e.end
			if len(have) > 0 && errors.Is(e.err, io.EOF) {
				return e.cut(have), nil
			}
			return nil, e.err
		}
		if err := e.fill(); err != nil {
			return nil, err
		}
	}
}

// cut ends the search for one line and takes a leading byte order mark off.
func (e *events) cut(line []byte) []byte {
	e.scanned = 0
	if e.first {
		e.first = false
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return line
}

// lineEnd is the index of the first LF or CR in b, or -1. Two IndexByte beat
// one IndexAny: the CR's search ends at the LF.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// fill reads once and notes when.
func (e *events) fill() error {
	if e.begin > 0 {
		e.end = copy(e.buf, e.buf[e.begin:e.end])
		e.begin = 0
	}
	if e.end == len(e.buf) {
		if len(e.buf) >= maxEvent {
			return fmt.Errorf("%w: a line of more than %d bytes", errEventTooLong, maxEvent)
		}
		e.buf = append(e.buf, make([]byte, len(e.buf))...)
	}
	n, err := e.src.Read(e.buf[e.end:])
	if n > 0 {
		e.read = e.stamp()
		e.end += n
	}
	e.err = err
	return nil
}
