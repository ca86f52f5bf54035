package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"plimsoll/profile"
)

// The keys of a surface, in NPZ and in JSON: upstream's names and units.
const (
	keyISL         = "prefill_isl"          // tokens, int64
	keyTTFT        = "prefill_ttft"         // ms
	keyPrefillRate = "prefill_thpt_per_gpu" // prompt tokens/s/GPU
	keyKVUsage     = "x_kv_usage"           // 0..1
	keyContext     = "y_context_length"     // tokens
	keyITL         = "z_itl"                // ms
	keyDecodeRate  = "z_thpt_per_gpu"       // output tokens/s/GPU
	keyMaxKV       = "max_kv_tokens"        // int64 of shape (1,) in NPZ, a number in JSON
	// keyProvenance is this project's own: int8 of shape (1,) in NPZ, like
	// max_kv_tokens, so that whatever reads by key or stacks rows (upstream's
	// pre-swept tools do) is not disturbed; a word in JSON.
	keyProvenance = "provenance"
)

// surfaceFile is the NPZ's name in its folder.
const surfaceFile = "raw_data.npz"

// surfaceDir is the folder of a phase's NPZ, relative to the output folder.
func surfaceDir(p profile.Phase) string { return "selected_" + string(p) + "_interpolation" }

// SurfaceNPZ is the path of a phase's NPZ, relative to the output folder.
func SurfaceNPZ(p profile.Phase) string { return filepath.Join(surfaceDir(p), surfaceFile) }

// SurfaceJSON is the path of a phase's JSON twin, relative to the output folder.
func SurfaceJSON(p profile.Phase) string { return string(p) + "_raw_data.json" }

// LoadOptions supplies what a surface file may leave out; what the file says wins.
type LoadOptions struct {
	// Provenance is taken for a file that names none, as upstream's do. Nil
	// means Published, the weakest: what is unknown was not measured.
	Provenance *profile.Provenance
	// MaxKVTokens is taken for a decode file older than that key; 0 refuses it.
	MaxKVTokens int
}

// WritePrefill writes the NPZ and its JSON twin below dir.
func WritePrefill(dir string, s profile.PrefillSurface) error {
	c, err := prefillColumns(s)
	if err != nil {
		return fmt.Errorf("prefill surface: %w", err)
	}
	return writeSurface(dir, profile.Prefill, c)
}

// WriteDecode writes the NPZ and its JSON twin below dir.
func WriteDecode(dir string, s profile.DecodeSurface) error {
	c, err := decodeColumns(s)
	if err != nil {
		return fmt.Errorf("decode surface: %w", err)
	}
	return writeSurface(dir, profile.Decode, c)
}

func writeSurface(dir string, p profile.Phase, c surfaceColumns) error {
	b, err := encodeNPZ(c.members())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, surfaceDir(p)), dirPerm); err != nil {
		return err
	}
	if err := WriteFile(filepath.Join(dir, SurfaceNPZ(p)), b); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, SurfaceJSON(p)), c.json())
}

// LoadPrefill reads a profile folder's prefill surface, this program's or
// upstream's: the NPZ, or the JSON twin where there is no NPZ.
func LoadPrefill(dir string, o LoadOptions) (profile.PrefillSurface, error) {
	return ReadPrefill(surfacePath(dir, profile.Prefill), o)
}

// LoadDecode reads a profile folder's decode surface as LoadPrefill does.
func LoadDecode(dir string, o LoadOptions) (profile.DecodeSurface, error) {
	return ReadDecode(surfacePath(dir, profile.Decode), o)
}

func surfacePath(dir string, p profile.Phase) string {
	npz, twin := filepath.Join(dir, SurfaceNPZ(p)), filepath.Join(dir, SurfaceJSON(p))
	if _, err := os.Stat(npz); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(twin); err == nil {
			return twin
		}
	}
	return npz
}

// ReadPrefill reads one prefill surface file; a name that ends in .json is read
// as JSON, any other as NPZ.
func ReadPrefill(path string, o LoadOptions) (profile.PrefillSurface, error) {
	return readSurface(path, o, columns.prefill)
}

// ReadDecode reads one decode surface file as ReadPrefill does.
func ReadDecode(path string, o LoadOptions) (profile.DecodeSurface, error) {
	return readSurface(path, o, columns.decode)
}

func readSurface[S any](path string, o LoadOptions, of func(columns, LoadOptions) (S, error)) (none S, err error) {
	c, err := readColumns(path)
	if err != nil {
		return none, err
	}
	s, err := of(c, o)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// ms is a latency as the files hold it. A nanosecond survives the round trip
// for latencies below 52 days.
