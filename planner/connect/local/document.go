package local

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
	"plimsoll/planner/statefile"
)

// maxDocument bounds a state file: ten thousand workers stay below it.
const maxDocument = 16 << 20

// maxNumber bounds a worker's number, so that there is always a next one.
const maxNumber = 1_000_000_000

const keyComponents = "components"

// document is a state file: {"components": {"{namespace}_{Component}[_k]": {…}}, …}.
type document struct {
	top     object // all but the components, as it was
	entries map[string]*entry
	text    []byte // as it was read; nil where there was no file
}

func newDocument() *document { return &document{top: object{}, entries: map[string]*entry{}} }

// errDamaged is wrapped where a file is no state file.
var errDamaged = errors.New("is damaged")

// readDocument reads a state file; where there is none, it is empty.
func readDocument(path string) (*document, error) {
	text, err := readAll(path, maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return newDocument(), nil
	}
	if err != nil {
		return nil, stateDirError(err)
	}
	d, err := parseDocument(text)
	if err != nil {
		return nil, fmt.Errorf("the state file %s %w (%w)", path, errDamaged, err)
	}
	return d, nil
}

// parseDocument refuses what is no state file.
func parseDocument(text []byte) (*document, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("it is empty")
	}
	d := &document{entries: map[string]*entry{}, text: text}
	if err := json.Unmarshal(text, &d.top); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", engine.PlainJSON("the file", err))
	}
	if d.top == nil {
		return nil, errors.New("not a JSON object: null")
	}
	var components object
	if raw := d.top[keyComponents]; raw != nil {
		if err := json.Unmarshal(raw, &components); err != nil {
			return nil, fmt.Errorf("%s: want an object", keyComponents)
		}
	}
	delete(d.top, keyComponents)
	for name, raw := range components {
		e, err := readEntry(raw)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", keyComponents, name, err)
		}
		d.entries[name] = e
	}
	return d, nil
}

// bytes is the document as a file.
func (d *document) bytes() ([]byte, error) {
	out := maps.Clone(d.top)
	components, err := json.Marshal(d.entries)
	if err != nil {
		return nil, err
	}
	out[keyComponents] = components
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(out)
	return b.Bytes(), err
}

// write replaces the file at path, whole and synced, unless nothing changed. It is
// the user's own then, whoever might read it before.
func (d *document) write(path string) error {
	text, err := d.bytes()
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if bytes.Equal(text, d.text) {
		return tighten(path)
	}
	if err := statefile.Replace(path, text); err != nil {
		return fmt.Errorf("writing %s: %w", path, stateDirError(err))
	}
	d.text = text
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return errors.Join(folder.Sync(), folder.Close()) // so that the new name survives a power failure
}

// base is the first entry of a pool, made where there is none.
func (d *document) base(name, template string) *entry {
	e := d.entries[name]
	if e == nil {
		e = &entry{rest: object{}}
		e.describe(name, strings.Join(strings.Fields(template), " "))
		d.entries[name] = e
	}
	return e
}

// remove takes a worker off the file; a pool's first entry stays, without resources.
func (d *document) remove(name string) {
	if e := d.entries[name]; e.own.Want != nil || !numbered.MatchString(name) {
		e.vacate()
	} else {
		delete(d.entries, name)
	}
}

// names are all entries', in a fixed order.
func (d *document) names() []string {
	return slices.SortedFunc(maps.Keys(d.entries), func(a, b string) int {
		abase, an := split(a)
		bbase, bn := split(b)
		return cmp.Or(cmp.Compare(abase, bbase), cmp.Compare(an, bn))
	})
}

// split cuts a worker's name into its pool's and its number, 0 for the first.
func split(name string) (base string, number int) {
	i := strings.LastIndexByte(name, '_')
	if i < 0 {
		return name, 0
	}
	n, err := strconv.Atoi(name[i+1:])
	if err != nil || n < 1 || n > maxNumber || strconv.Itoa(n) != name[i+1:] {
		return name, 0
	}
	return name[:i], n
}

// belongs reports whether name is a worker's of the pool with that base.
func belongs(name, base string) bool {
	b, _ := split(name)
	return b == base
}

// of are a pool's workers in one of some phases, oldest name first.
func (d *document) of(base string, phases ...Phase) []string {
	var out []string
	for _, name := range d.names() {
		if belongs(name, base) && slices.Contains(phases, d.entries[name].own.State) {
			out = append(out, name)
		}
	}
	return out
}

// newName is the name of a pool's next worker: the first, else the highest
// number and one, as upstream counts.
func (d *document) newName(base string) string {
	if e := d.entries[base]; e == nil || !e.taken() {
		return base
	}
	highest := 0
	for name := range d.entries {
		if b, n := split(name); b == base {
			highest = max(highest, n)
		}
	}
	return base + "_" + strconv.Itoa(highest+1)
}

// taken are the GPUs and ports that workers have, ours or not.
func (d *document) taken() (gpus []string, ports map[int]bool) {
	ports = map[int]bool{}
	for _, e := range d.entries {
		gpus = append(gpus, e.gpus...)
		ports[e.own.Port] = true
	}
	return gpus, ports
}
