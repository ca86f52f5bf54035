package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sbinet/npyio/npy"
)

// The .npy format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html:
// magic, version, header length, a Python dict, padding to 64 bytes, the data.
//
// npyio writes; reading is our own, because files that we read come from
// anywhere, and npyio's reader panics on a header without a newline, allocates
// what a length asks for, and takes a short read for a whole element.

const npyMagic = "\x93NUMPY"

// array is one .npy array in C order. Numbers are held as float64, which is
// exact for every token count (|n| ≤ 2^53, checked on reading).
type array struct {
	descr string // of the file; what encode writes
	shape []int
	nums  []float64 // numbers, nil for text
	text  []string  // text, nil for numbers
}

func int64s(v ...float64) array   { return array{descr: "<i8", shape: []int{len(v)}, nums: v} }
func float64s(v ...float64) array { return array{descr: "<f8", shape: []int{len(v)}, nums: v} }
func int8s(v ...float64) array    { return array{descr: "|i1", shape: []int{len(v)}, nums: v} }

// encodeNPY writes one of the three types made above. (npyio's own archive
// writer deflates, which the contract forbids, so only its arrays are used.)
func encodeNPY(a array) ([]byte, error) {
	var out bytes.Buffer
	var err error
	switch a.descr {
	case "<f8":
		err = npy.Write(&out, a.nums)
	case "<i8":
		err = npy.Write(&out, cast[int64](a.nums))
	case "|i1":
		err = npy.Write(&out, cast[int8](a.nums))
	default:
		err = fmt.Errorf("type %q", a.descr)
	}
	return out.Bytes(), err
}

func cast[T int8 | int64](v []float64) []T {
	out := make([]T, len(v))
	for i, x := range v {
		out[i] = T(x)
	}
	return out
}

var (
	reDescr = regexp.MustCompile(`'descr'\s*:\s*'([^']*)'`)
	reOrder = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	reShape = regexp.MustCompile(`'shape'\s*:\s*\(([0-9L, ]*)\)`)
	reDType = regexp.MustCompile(`^([<>|=]?)([fiuU])([1-9][0-9]{0,5})$`)
)

// decodeNPY reads versions 1 to 3; b is the whole member, so that lengths can
// be held against it before anything is allocated.
func decodeNPY(b []byte) (array, error) {
	dict, data, err := splitNPY(b)
	if err != nil {
		return array{}, err
	}
	descr, order, shape := reDescr.FindSubmatch(dict), reOrder.FindSubmatch(dict), reShape.FindSubmatch(dict)
	if descr == nil || order == nil || shape == nil {
		return array{}, fmt.Errorf("unsupported .npy header %.100q: want a plain array of numbers or text", dict)
	}
	a := array{descr: string(descr[1])}
	n, err := a.setShape(string(shape[1]))
	if err != nil {
		return array{}, err
	}
	if err := a.decodeData(data, n); err != nil {
		return array{}, err
	}
	if string(order[1]) == "True" {
		if err := a.toCOrder(); err != nil {
			return array{}, err
		}
	}
	return a, nil
}

func splitNPY(b []byte) (dict, data []byte, err error) {
	if len(b) < 10 || string(b[:6]) != npyMagic {
		return nil, nil, fmt.Errorf("not a .npy array")
	}
	var length, at int
	switch major := b[6]; major {
	case 1:
		length, at = int(binary.LittleEndian.Uint16(b[8:])), 10
	case 2, 3:
		if len(b) < 12 {
			return nil, nil, fmt.Errorf("truncated .npy header")
		}
		length, at = int(binary.LittleEndian.Uint32(b[8:])), 12
	default:
		return nil, nil, fmt.Errorf(".npy version %d: want 1, 2 or 3", major)
	}
	if length > len(b)-at {
		return nil, nil, fmt.Errorf("truncated .npy header")
	}
	return b[at : at+length], b[at+length:], nil
}

// setShape parses "41," or "2, 7" or "" (a scalar) and returns the number of elements.
func (a *array) setShape(s string) (int, error) {
	n := 1
	a.shape = []int{}
	for f := range strings.SplitSeq(s, ",") {
		f = strings.TrimSuffix(strings.TrimSpace(f), "L") // Python 2 wrote 41L
		if f == "" {
			continue
		}
		d, err := strconv.Atoi(f)
		if err != nil || d < 0 || d > maxNPZ || (d > 0 && n > maxNPZ/d) {
			return 0, fmt.Errorf("unsupported .npy shape (%.60s)", s)
		}
		n *= d
		a.shape = append(a.shape, d)
	}
	return n, nil
}

func (a *array) decodeData(data []byte, n int) error {
	m := reDType.FindStringSubmatch(a.descr)
	if m == nil {
		if strings.HasSuffix(a.descr, "O") {
			return fmt.Errorf("dtype object holds pickled Python objects, which are not read: save the column as numbers or text")
		}
		return fmt.Errorf("unsupported dtype %.20q: want int, float or unicode text", a.descr)
	}
	size, err := strconv.Atoi(m[3])
	if err != nil {
		return fmt.Errorf("unsupported dtype %.20q", a.descr)
	}
	width := size
	if m[2] == "U" {
		width = 4 * size // UTF-32
	}
	if want := int64(n) * int64(width); int64(len(data)) != want {
		return fmt.Errorf("holds %d bytes of data where dtype %s and shape %v need %d", len(data), a.descr, a.shape, want)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if m[1] == ">" {
		order = binary.BigEndian
	}
	if m[2] == "U" {
		a.text = decodeText(data, n, width, order)
		return nil
	}
	a.nums = make([]float64, n)
	for i := range n {
		v, ok := number(data[i*width:(i+1)*width], m[2], order)
		if !ok {
			return fmt.Errorf("unsupported dtype %.20q or a value beyond 2^53", a.descr)
		}
		a.nums[i] = v
	}
	return nil
}

// number widens one element to float64; not ok for a type it does not know and
// for integers that float64 cannot hold exactly.
func number(b []byte, kind string, order binary.ByteOrder) (float64, bool) {
	var u uint64
	switch len(b) {
	case 1:
		u = uint64(b[0])
	case 2:
		u = uint64(order.Uint16(b))
	case 4:
		u = uint64(order.Uint32(b))
	case 8:
		u = order.Uint64(b)
	default:
		return 0, false
	}
	switch {
	case kind == "f" && len(b) == 8:
		return math.Float64frombits(u), true
	case kind == "f" && len(b) == 4:
		return float64(math.Float32frombits(uint32(u))), true
	case kind == "f":
		return 0, false
	case kind == "u":
		return float64(u), u <= 1<<53
	default:
		shift := 64 - 8*len(b)
		v := int64(u<<shift) >> shift // sign of the narrow type
		return float64(v), v >= -(1<<53) && v <= 1<<53
	}
}

// decodeText reads UTF-32 of a fixed width, padded with zeros.
func decodeText(data []byte, n, width int, order binary.ByteOrder) []string {
	out := make([]string, n)
	for i := range out {
		var b []byte
		for c := range slices.Chunk(data[i*width:(i+1)*width], 4) {
			r := rune(order.Uint32(c))
			if r < 0 || !utf8.ValidRune(r) {
				r = utf8.RuneError
			}
			b = utf8.AppendRune(b, r)
		}
		out[i] = string(bytes.TrimRight(b, "\x00"))
	}
	return out
}

// toCOrder turns the data of a Fortran-order array around; one dimension reads
// the same both ways.
func (a *array) toCOrder() error {
	if len(a.shape) < 2 {
		return nil
	}
	if len(a.shape) > 2 {
		return fmt.Errorf("fortran order with %d dimensions is not read", len(a.shape))
	}
	rows, cols := a.shape[0], a.shape[1]
	if a.nums != nil {
		a.nums = transpose(a.nums, rows, cols)
	} else {
		a.text = transpose(a.text, rows, cols)
	}
	return nil
}

func transpose[T any](v []T, rows, cols int) []T {
	out := make([]T, len(v))
	for r := range rows {
		for c := range cols {
			out[r*cols+c] = v[c*rows+r]
		}
	}
	return out
}
