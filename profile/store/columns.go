package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// maxLatency bounds a latency in a file: a day is a broken file, and far below
// what time.Duration holds.
const maxLatency = 24 * time.Hour

// maxTokens bounds a token count in a file, so that sums and products of it
// stay exact in int and float64.
const maxTokens = 1 << 40

// surfaceColumns is a surface on its way out, in the order of the file.
type surfaceColumns struct {
	floats     []member
	maxKV      int // 0 in a prefill surface
	provenance profile.Provenance
}

func (c surfaceColumns) members() []member {
	m := slices.Clone(c.floats)
	if c.maxKV > 0 {
		m = append(m, member{keyMaxKV, int64s(float64(c.maxKV))})
	}
	return append(m, member{keyProvenance, int8s(float64(c.provenance))})
}

func (c surfaceColumns) json() map[string]any {
	m := map[string]any{keyProvenance: c.provenance}
	for _, f := range c.floats {
		m[f.name] = f.data.nums
	}
	if c.maxKV > 0 {
		m[keyMaxKV] = c.maxKV
	}
	return m
}

func prefillColumns(s profile.PrefillSurface) (surfaceColumns, error) {
	var isl, ttft, rate []float64
	for _, p := range s.Samples {
		isl = append(isl, float64(p.ISL))
		ttft = append(ttft, profile.Milliseconds(p.TTFT))
		rate = append(rate, p.ThroughputPerGPU)
	}
	c := surfaceColumns{provenance: s.Provenance, floats: []member{
		{keyISL, int64s(isl...)}, {keyTTFT, float64s(ttft...)}, {keyPrefillRate, float64s(rate...)},
	}}
	return c, roundTrip(c, func(r columns) error { _, err := r.prefill(LoadOptions{}); return err })
}

func decodeColumns(s profile.DecodeSurface) (surfaceColumns, error) {
	var kv, context, itl, rate []float64
	for _, p := range s.Samples {
		kv = append(kv, p.KVUsage)
		context = append(context, p.Context)
		itl = append(itl, profile.Milliseconds(p.ITL))
		rate = append(rate, p.ThroughputPerGPU)
	}
	c := surfaceColumns{maxKV: s.MaxKVTokens, provenance: s.Provenance, floats: []member{
		{keyKVUsage, float64s(kv...)},
		{keyContext, float64s(context...)},
		{keyITL, float64s(itl...)},
		{keyDecodeRate, float64s(rate...)},
	}}
	return c, roundTrip(c, func(r columns) error { _, err := r.decode(LoadOptions{}); return err })
}

// roundTrip refuses to write what could not be read back.
func roundTrip(c surfaceColumns, read func(columns) error) error {
	r := columns{num: map[string][]float64{}}
	for _, m := range c.members() {
		r.num[m.name] = m.data.nums
	}
	return read(r)
}

// columns is one configuration's surface on its way in, wherever it came from.
type columns struct {
	num  map[string][]float64
	text map[string][]string
}

func readColumns(path string) (columns, error) {
	b, err := readFile(path)
	if err != nil {
		return columns{}, err
	}
	var c columns
	if strings.EqualFold(filepath.Ext(path), ".json") {
		c, err = jsonColumns(b)
	} else {
		c, err = npzColumns(b)
	}
	if err != nil {
		return columns{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func npzColumns(b []byte) (columns, error) {
	arrays, err := decodeNPZ(b)
	if err != nil {
		return columns{}, err
	}
	c := columns{num: map[string][]float64{}, text: map[string][]string{}}
	for name, a := range arrays {
		if len(a.shape) > 1 {
			return columns{}, fmt.Errorf("%s has shape %v, want one dimension: a file of several configurations is imported, not loaded", name, a.shape)
		}
		c.set(name, a)
	}
	return c, nil
}

func (c columns) set(name string, a array) {
	if a.text != nil {
		c.text[name] = a.text
	} else {
		c.num[name] = a.nums
	}
}

// jsonColumns reads an object of arrays; a bare number or word counts as an
// array of one.
func jsonColumns(b []byte) (columns, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return columns{}, fmt.Errorf("not a JSON surface: %w", engine.PlainJSON("the file", err))
	}
	c := columns{num: map[string][]float64{}, text: map[string][]string{}}
	for name, v := range raw {
		var word string
		if json.Unmarshal(v, &word) == nil && !bytes.Equal(v, []byte("null")) {
			c.text[name] = []string{word}
			continue
		}
		if !bytes.HasPrefix(v, []byte("[")) {
			v = slices.Concat([]byte("["), v, []byte("]"))
		}
		var nums []*float64 // a null would otherwise read as 0
		if err := json.Unmarshal(v, &nums); err != nil {
			return columns{}, fmt.Errorf("%s: want numbers: %w", name, engine.PlainJSON("the list", err))
		}
		c.num[name] = []float64{}
		for i, n := range nums {
			if n == nil {
				return columns{}, fmt.Errorf("%s[%d] is null", name, i)
			}
			c.num[name] = append(c.num[name], *n)
		}
	}
	return c, nil
}

// same returns the columns of the keys and their common length, and refuses
// what is missing, not of numbers, empty, of another length, or not a finite
// number ≥ 0.
func (c columns) same(keys ...string) (cols [][]float64, n int, err error) {
	if missing := slices.DeleteFunc(slices.Clone(keys), c.has); len(missing) > 0 {
		return nil, 0, fmt.Errorf("missing %s", strings.Join(missing, ", "))
	}
	n = len(c.num[keys[0]])
	for _, k := range keys {
		v := c.num[k]
		switch {
		case c.text[k] != nil:
			return nil, 0, fmt.Errorf("%s holds text, want numbers", k)
		case len(v) == 0:
			return nil, 0, fmt.Errorf("%s is empty", k)
		case len(v) != n:
			return nil, 0, fmt.Errorf("%s has %d values where %s has %d", k, len(v), keys[0], n)
		}
		for i, x := range v {
			if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
				return nil, 0, fmt.Errorf("%s[%d] is %v, want a finite number that is not negative", k, i, x)
			}
		}
		cols = append(cols, v)
	}
	return cols, n, nil
}

func (c columns) has(key string) bool { return c.num[key] != nil || c.text[key] != nil }

func (c columns) prefill(o LoadOptions) (profile.PrefillSurface, error) {
	cols, n, err := c.same(keyISL, keyTTFT, keyPrefillRate)
	if err != nil {
		return profile.PrefillSurface{}, err
	}
	s := profile.PrefillSurface{Samples: make([]profile.PrefillSample, n)}
	for i := range s.Samples {
		isl, err := tokens(keyISL, i, cols[0][i])
		if err != nil {
			return profile.PrefillSurface{}, err
		}
		ttft, err := latency(keyTTFT, i, cols[1][i])
		if err != nil {
			return profile.PrefillSurface{}, err
		}
		s.Samples[i] = profile.PrefillSample{ISL: isl, TTFT: ttft, ThroughputPerGPU: cols[2][i]}
	}
	slices.SortStableFunc(s.Samples, func(a, b profile.PrefillSample) int { return cmp.Compare(a.ISL, b.ISL) })
	for i := 1; i < n; i++ {
		if s.Samples[i].ISL == s.Samples[i-1].ISL {
			return profile.PrefillSurface{}, fmt.Errorf("%s holds %d twice", keyISL, s.Samples[i].ISL)
		}
	}
	s.Provenance, err = c.provenance(o)
	return s, err
}

func (c columns) decode(o LoadOptions) (profile.DecodeSurface, error) {
	cols, n, err := c.same(keyKVUsage, keyContext, keyITL, keyDecodeRate)
	if err != nil {
		return profile.DecodeSurface{}, err
	}
	s := profile.DecodeSurface{Samples: make([]profile.DecodeSample, n), MaxKVTokens: o.MaxKVTokens}
	for i := range s.Samples {
		itl, err := latency(keyITL, i, cols[2][i])
		if err != nil {
			return profile.DecodeSurface{}, err
		}
		context := cols[1][i]
		if context == 0 || context > maxTokens {
			return profile.DecodeSurface{}, fmt.Errorf("%s[%d] is %v, want tokens above 0", keyContext, i, context)
		}
		s.Samples[i] = profile.DecodeSample{KVUsage: cols[0][i], Context: context, ITL: itl, ThroughputPerGPU: cols[3][i]}
	}
	if c.has(keyMaxKV) {
		one, m, err := c.same(keyMaxKV)
		if err != nil {
			return profile.DecodeSurface{}, err
		}
		if m != 1 {
			return profile.DecodeSurface{}, fmt.Errorf("%s has %d values, want 1", keyMaxKV, m)
		}
		if s.MaxKVTokens, err = tokens(keyMaxKV, 0, one[0][0]); err != nil {
			return profile.DecodeSurface{}, err
		}
	}
	if s.MaxKVTokens <= 0 {
		return profile.DecodeSurface{}, fmt.Errorf("missing %s", keyMaxKV)
	}
	s.Provenance, err = c.provenance(o)
	return s, err
}

// provenance is what the file says, else what the caller assumes, else the weakest.
func (c columns) provenance(o LoadOptions) (profile.Provenance, error) {
	switch num, word := c.num[keyProvenance], c.text[keyProvenance]; {
	case len(word) == 1:
		return profile.ParseProvenance(word[0])
	case len(num) == 1 && num[0] == math.Trunc(num[0]) && num[0] >= float64(profile.Measured) && num[0] <= float64(profile.Published):
		return profile.Provenance(num[0]), nil
	case c.has(keyProvenance):
		return 0, fmt.Errorf("%s is not one of 0 (measured) to 3 (published)", keyProvenance)
	case o.Provenance != nil:
		return *o.Provenance, nil
	default:
		return profile.Published, nil
	}
}

func tokens(key string, i int, v float64) (int, error) {
	if v < 1 || v > maxTokens || v != math.Trunc(v) {
		return 0, fmt.Errorf("%s[%d] is %v, want a whole number of tokens above 0", key, i, v)
	}
	return int(v), nil
}

func latency(key string, i int, v float64) (time.Duration, error) {
	if v <= 0 || v > profile.Milliseconds(maxLatency) {
		return 0, fmt.Errorf("%s[%d] is %v ms, want more than 0 and at most a day", key, i, v)
	}
	d := time.Duration(math.Round(v * float64(time.Millisecond)))
	if d == 0 {
		return 0, fmt.Errorf("%s[%d] is %v ms, which is less than a nanosecond", key, i, v)
	}
	return d, nil
}
