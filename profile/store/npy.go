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

// array is one .npy array, of a type that numpy gives numbers and text by itself, or int8.
// Numbers are held as float64, which is
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
	reShape = regexp.MustCompile(`'shape'\s*:\s*\(([0-9, ]*)\)`)
	reText  = regexp.MustCompile(`^<U([1-9][0-9]{0,5})$`)
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
	if string(order[1]) == "True" {
		return array{}, fmt.Errorf("fortran order is not read: save it in C order")
	}
	return a, a.decodeData(data, n)
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
		if f = strings.TrimSpace(f); f == "" {
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
	width := 8
	switch text := reText.FindStringSubmatch(a.descr); {
	case a.descr == "<f8", a.descr == "<i8":
	case a.descr == "|i1":
		width = 1
	case text != nil:
		runes, err := strconv.Atoi(text[1])
		if err != nil {
			return fmt.Errorf("unsupported dtype %.20q", a.descr)
		}
		width = 4 * runes // UTF-32
	case strings.HasSuffix(a.descr, "O"):
		return fmt.Errorf("dtype object holds pickled Python objects, which are not read: save the column as numbers or text")
	default:
		return fmt.Errorf("unsupported dtype %.20q: want int64, float64 or unicode text, little-endian", a.descr)
	}
	if want := int64(n) * int64(width); int64(len(data)) != want {
		return fmt.Errorf("holds %d bytes of data where dtype %s and shape %v need %d", len(data), a.descr, a.shape, want)
	}
	if a.descr[1] == 'U' {
		a.text = decodeText(data, n, width)
		return nil
	}
	a.nums = make([]float64, n)
	for i := range n {
		switch b := data[i*width:]; a.descr {
		case "<f8":
			a.nums[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
		case "|i1":
			a.nums[i] = float64(int8(b[0]))
		default:
			v := int64(binary.LittleEndian.Uint64(b))
			if v < -(1<<53) || v > 1<<53 {
				return fmt.Errorf("holds %d, which is beyond 2^53", v)
			}
			a.nums[i] = float64(v)
		}
	}
	return nil
}

// decodeText reads UTF-32 of a fixed width, padded with zeros.
func decodeText(data []byte, n, width int) []string {
	out := make([]string, n)
	for i := range out {
		var b []byte
		for c := range slices.Chunk(data[i*width:(i+1)*width], 4) {
			r := rune(binary.LittleEndian.Uint32(c))
			if r < 0 || !utf8.ValidRune(r) {
				r = utf8.RuneError
			}
			b = utf8.AppendRune(b, r)
		}
		out[i] = string(bytes.TrimRight(b, "\x00"))
	}
	return out
}
