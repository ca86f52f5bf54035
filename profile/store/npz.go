package store

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// maxNPZ bounds what an archive may unpack to, and the elements of an array: a
// million operating points stay below it.
const maxNPZ = 64 << 20

// member is one array of an NPZ archive, in writing order.
type member struct {
	name string
	data array
}

// encodeNPZ is what numpy.savez writes: a zip of stored (uncompressed) .npy
// members with their sizes up front. The same arrays give the same bytes.
func encodeNPZ(members []member) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, m := range members {
		b, err := encodeNPY(m.data)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", m.name, err)
		}
		w, err := z.CreateRaw(&zip.FileHeader{
			Name: m.name + ".npy", Method: zip.Store, CRC32: crc32.ChecksumIEEE(b),
			CompressedSize64: uint64(len(b)), UncompressedSize64: uint64(len(b)),
		})
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", m.name, err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decodeNPZ reads every array of an archive, stored or deflated. What is
// unpacked is bounded, so that a small file cannot fill the memory.
func decodeNPZ(b []byte) (map[string]array, error) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, fmt.Errorf("not a whole NPZ file: %w", err)
	}
	arrays := make(map[string]array, len(z.File))
	left := int64(maxNPZ)
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			continue
		}
		if _, twice := arrays[name]; twice {
			return nil, fmt.Errorf("%s is in the file twice", name)
		}
		raw, err := unpack(f, left)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		left -= int64(len(raw))
		if arrays[name], err = decodeNPY(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return arrays, nil
}

func unpack(f *zip.File, limit int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("unpacks to more than %d MiB", maxNPZ>>20)
	}
	return b, nil
}
