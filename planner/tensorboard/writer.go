// Package tensorboard writes scalars into an event file that TensorBoard reads.
//
// A file is a row of records: the length of the data in 8 bytes, a checksum of
// these, the data, a checksum of it; all little-endian. The data is a protocol
// buffer of tensorflow.Event with wall_time = 1, step = 2, file_version = 3,
// summary = 5; a summary's value = 1 has tag = 1 and simple_value = 2
// (tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.h;
// unchanged since 2016).
package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Scalar is one value under a tag.
type Scalar struct {
	Tag   string
	Value float64 // kept as a 32-bit float, as TensorBoard does
}

// Writer appends to one event file. It is not safe for concurrent use.
type Writer struct{ f *os.File }

// Create begins an event file in dir, which is made where it is absent. Its name
// holds the time and the process, so that two never write the same.
func Create(dir string, at time.Time) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the TensorBoard folder: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	path := filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.%s.%d.0", at.Unix(), filepath.Base(host), os.Getpid()))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the TensorBoard file: %w", err)
	}
	w := &Writer{f}
	version := protowire.AppendTag(event(at, 0), 3, protowire.BytesType)
	if err := w.write(protowire.AppendString(version, "brain.Event:2")); err != nil {
		return nil, err
	}
	return w, nil
}

// Add appends the scalars of one step. What is not finite is left out: TensorBoard
// draws a gap.
func (w *Writer) Add(at time.Time, step int64, scalars ...Scalar) error {
	var summary []byte
	for _, s := range scalars {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			continue
		}
		value := protowire.AppendTag(nil, 1, protowire.BytesType)
		value = protowire.AppendString(value, s.Tag)
		value = protowire.AppendTag(value, 2, protowire.Fixed32Type)
		value = protowire.AppendFixed32(value, math.Float32bits(float32(s.Value)))
		summary = protowire.AppendTag(summary, 1, protowire.BytesType)
		summary = protowire.AppendBytes(summary, value)
	}
	if len(summary) == 0 {
		return nil
	}
	return w.write(protowire.AppendBytes(protowire.AppendTag(event(at, step), 5, protowire.BytesType), summary))
}

// event begins an Event.
func event(at time.Time, step int64) []byte {
	b := protowire.AppendTag(nil, 1, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(float64(at.UnixNano())/1e9))
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(step)) //nolint:gosec // the encoding of an int64
}

// write appends one record in one call, so that a reader sees it whole or torn
// at the file's end, where readers wait for more.
func (w *Writer) write(data []byte) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, masked(b))
	b = append(b, data...)
	b = binary.LittleEndian.AppendUint32(b, masked(data))
	if _, err := w.f.Write(b); err != nil {
		return fmt.Errorf("the TensorBoard file: %w", err)
	}
	return nil
}

// masked is the checksum of a record: CRC-32C, rotated and shifted so that a
// record within a record does not look like one.
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// Close ends the file.
func (w *Writer) Close() error { return w.f.Close() }
