package argv

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/field"
)

// Table is what the arguments of an engine's own program mean.
type Table []Row

// Row is what some arguments mean.
type Row struct {
	Names string // with - for _ and spaces between; x=y is x with that value, x* all that begin so
	Of    string // the field that they say (engine/field), or one of the words below; empty: memory or speed, in no plan
	Stays bool   // the engine is told the argument itself, too: the field says less
}

// What arguments may be of beside fields.
const (
	Profile   = "the profile"    // which sets it for each engine
	Harmless  = "nothing"        // in memory and speed
	BlockSize = "the block size" // of the KV cache, tokens
	AllSlots  = "all slots"      // the context of all sequences together, tokens
)

// Common are the names of harmless arguments that several engines have.
const Common = "--trust-remote-code --seed --random-seed --revision --load-format --download-dir --model-loader-extra-config --device " +
	"--dtype=auto --dtype=bfloat16 --dtype=float16 --dtype=half --skip-tokenizer-init --tokenizer* --custom-tokenizer " +
	"--chat-template* --tool-* --reasoning-* --log-* --api-key --ssl-* --enable-ssl-refresh --otlp-* --allow* --kv-events-config "

// Argument is an argument with its values, and its row.
type Argument struct {
	Name   string // as it is spelt, with its dashes
	Values []string
	Row
	spelt []string // the words that it was read from
}

// Value is all values in one.
func (a Argument) Value() string { return strings.Join(a.Values, " ") }

// Words are the argument as a command line has it, with no = where it needs none.
func (a Argument) Words() []string {
	if len(a.Values) == 1 && isName(a.Values[0]) {
		return []string{a.Name + "=" + a.Values[0]}
	}
	return append([]string{a.Name}, a.Values...)
}

func isName(word string) bool {
	return len(word) > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9')
}

// Owned reports whether a profile, or a flag for the layouts or the model to try, says it.
func (a Argument) Owned() bool {
	switch a.Of {
	case Profile, field.Model, field.TP, field.Parallelism:
		return true
	}
	return false
}

// Taken reports whether a plan takes it.
func (a Argument) Taken() bool { return at(&engine.Config{}, a.Of) != nil }

// Arguments are those of a command line; a first word that is the name of none is one.
func (t Table) Arguments(words []string) (all []Argument) {
	for _, w := range words {
		switch name, value, has := strings.Cut(w, "="); {
		case isName(w) && has:
			all = append(all, Argument{Name: name, Values: []string{value}, spelt: []string{w}})
		case isName(w), len(all) == 0:
			all = append(all, Argument{Name: w, spelt: []string{w}})
		default:
			a := &all[len(all)-1]
			a.Values, a.spelt = append(a.Values, w), append(a.spelt, w)
		}
	}
	for i := range all {
		all[i].Row = t.row(all[i])
	}
	return all
}

// row is the one that names a, else the only one with a longer name that begins so:
// engines take abbreviations.
func (t Table) row(a Argument) (abbreviated Row) {
	name, found := dashes(a.Name), 0
	for _, r := range t {
		longer := false
		for _, n := range strings.Fields(r.Names) {
			stem, several := strings.CutSuffix(n, "*")
			if n == name || n == name+"="+a.Value() || several && strings.HasPrefix(name, stem) {
				return r
			}
			longer = longer || len(name) > 3 && strings.HasPrefix(n, name) && !strings.Contains(n, "=")
		}
		if longer {
			abbreviated, found = r, found+1
		}
	}
	if found != 1 {
		return Row{}
	}
	return abbreviated
}

// Said is what arguments say.
type Said struct {
	Config  engine.Config // as it was asked for, and what they set
	Rest    []string      // what the engine is told beside it
	Owned   []Argument
	Against []Argument // Config was asked for otherwise, and stays so
	Unknown []Argument // that may change memory or speed, in no plan
}

// Read reads a user's words beside what is asked for by fields; the last of several
// arguments for a field holds.
func (t Table) Read(words []string, asked engine.Config) (Said, error) {
	s, slots := Said{Config: asked}, false
	for _, a := range t.Arguments(words) {
		var own engine.Config
		var told bool
		switch {
		case a.Owned():
			s.Owned = append(s.Owned, a)
		case a.Taken():
			understood, err := set(at(&own, a.Of), a.Value())
			have, says := reflect.ValueOf(at(&asked, a.Of)).Elem(), reflect.ValueOf(at(&own, a.Of)).Elem()
			switch {
			case !have.IsZero() && (err != nil || !have.Equal(says)):
				s.Against = append(s.Against, a)
				continue
			case err != nil:
				return s, field.Errorf("engine argument %s: %v", strings.Join(a.Words(), " "), err)
			case !understood:
				s.Unknown = append(s.Unknown, a)
			}
			reflect.ValueOf(at(&s.Config, a.Of)).Elem().Set(says)
			slots = a.Of == AllSlots || slots && a.Of != field.MaxContextLength
			told = a.Stays || says.IsZero()
		default:
			told = true
			if a.Of != Harmless {
				s.Unknown = append(s.Unknown, a)
			}
		}
		if told {
			s.Rest = append(s.Rest, a.spelt...)
		}
	}
	if l := &s.Config.Limits; slots {
		l.MaxModelLen /= max(l.MaxNumSeqs, 1)
	}
	return s, nil
}

// at is where a field is in a Config; nil for one that is not there.
func at(c *engine.Config, of string) any {
	switch of {
	case field.MaxNumSeqs:
		return &c.Limits.MaxNumSeqs
	case field.MaxNumBatchedTokens:
		return &c.Limits.MaxNumBatchedTokens
	case field.MaxContextLength, AllSlots:
		return &c.Limits.MaxModelLen
	case BlockSize:
		return &c.Limits.BlockSize
	case field.MemoryFraction:
		return &c.MemoryFraction
	case field.KVDType:
		return &c.KV
	case field.Weights:
		return &c.Weights
	}
	return nil
}

// set reads a value into what to points at, which stays zero where the value leaves it
// to the engine; false where nobody knows what it says.
func set(to any, value string) (understood bool, err error) {
	switch to := to.(type) {
	case *int:
		*to, err = whole(value)
	case *float64:
		*to, err = strconv.ParseFloat(value, 64)
		if err != nil || !(*to > 0 && *to <= 1) {
			return false, errors.New("want a share above 0, at most 1")
		}
	case *engine.DType:
		*to = stored(value)
		return *to != "" || leftOpen(value), nil
	}
	return true, err
}

func leftOpen(value string) bool {
	return strings.EqualFold(value, "auto") || strings.EqualFold(value, "none") || value == "-1" || value == "0"
}

// whole reads a number as engines take it: 8192, 8k for 8000, 8K for 8192; 0 where it is
// left to the engine.
func whole(value string) (int, error) {
	if leftOpen(value) {
		return 0, nil
	}
	digits, unit := strings.TrimRight(value, "kmKM"), 1.0
	if i := strings.Index("kmKM", value[len(digits):]); i >= 0 && digits != value {
		unit = []float64{1e3, 1e6, 1 << 10, 1 << 20}[i]
	}
	n, err := strconv.ParseFloat(digits, 64)
	if n *= unit; err != nil || n < 1 || n > math.MaxInt32 || n != math.Trunc(n) {
		return 0, errors.New("want a whole number of at least 1, such as 8192 or 8k")
	}
	return int(n), nil
}

// stored is the storage that an engine's word for a quantization or a type says;
// integers count as the float of their size.
func stored(word string) engine.DType {
	word = strings.ToLower(word)
	for _, has := range []struct {
		parts string
		d     engine.DType
	}{
		{"fp4 int4 w4 q4 4bit awq gptq wna16 bitsandbytes", engine.FP4},
		{"fp8 int8 w8 q8", engine.FP8},
		{"bf16 bfloat16 fp16 float16", engine.BF16},
	} {
		for _, part := range strings.Fields(has.parts) {
			if strings.Contains(word, part) {
				return has.d
			}
		}
	}
	if word == "modelopt" {
		return engine.FP8
	}
	return ""
}
