package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// upstreamFile is a state file as upstream's circus arbiter writes it
// (deploy/sdk circus.py and planner/local_connector.py, v0.3, June 2025), by its
// keys; the values are made up.
const upstreamFile = `{
  "circus_endpoint": "tcp://127.0.0.1:41983",
  "components": {
    "dynamo_Frontend": {"watcher_name": "dynamo_Frontend", "cmd": "serve_dynamo graphs.disagg:Frontend", "resources": {}, "lease": 7587886413462934532},
    "dynamo_VllmWorker": {"watcher_name": "dynamo_VllmWorker", "cmd": "serve_dynamo --worker-env '[{\"CUDA_VISIBLE_DEVICES\": \"0\"}]' <x>", "resources": {"allocated_gpus": [0], "of": "others"}, "lease": 7587886413462934533},
    "dynamo_VllmWorker_1": {"watcher_name": "dynamo_VllmWorker_1", "cmd": "serve_dynamo", "resources": {"allocated_gpus": [1]}},
    "dynamo_PrefillWorker": {"watcher_name": "dynamo_PrefillWorker", "cmd": "serve_dynamo"}
  },
  "environment": {"DYNAMO_SERVICE_CONFIG": "{\"a\": 1.50}", "SYSTEM_RESOURCES": {"gpu_info": [{"index": 0, "big": 12345678901234567890}]}}
}`

// ownFile has all that this package writes.
const ownFile = `{"components": {
  "ns_A": {"watcher_name": "ns_A", "cmd": "e", "want": 2, "failures": 3, "retry_at": "2026-11-21T10:00:00Z", "failure": "died",
    "resources": {"allocated_gpus": [0, "GPU-5"]}, "role": "decode", "state": "ready", "pid": 4242, "start_ticks": 99, "boot_id": "b", "host": "h",
    "port": 8000, "url": "http://127.0.0.1:8000", "log": "/l", "started_at": "2026-11-21T09:00:00Z", "ready_at": "2026-11-21T09:01:00Z", "other": {"x": [1, 2.0]}},
  "ns_A_2": {"role": "decode", "state": "draining", "pid": 4243, "start_ticks": 99, "boot_id": "b", "port": 8001, "url": "http://127.0.0.1:8001", "log": "/l2", "crashed": true},
  "ns_A_10": {"role": "decode", "state": "starting", "boot_id": "b", "port": 8002, "url": "http://127.0.0.1:8002", "log": "/l3"}}}`

func parsed(t *testing.T, text string) *document {
	t.Helper()
	d, err := parseDocument([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func rewritten(t *testing.T, d *document) map[string]any {
	t.Helper()
	b, err := d.bytes()
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, b)
}

func decoded(t *testing.T, b []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// What others wrote is there afterwards, to the last digit.
func TestOthersKeysAreKept(t *testing.T) {
	for _, text := range []string{upstreamFile, ownFile} {
		d := parsed(t, text)
		if got, want := rewritten(t, d), decoded(t, []byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%v\nbecame %v", want, got)
		}
	}
	d := parsed(t, upstreamFile)
	gpus, _ := d.taken()
	slices.Sort(gpus)
	if !slices.Equal(gpus, []string{"0", "1"}) {
		t.Errorf("others have GPUs %q", gpus)
	}
	if name := d.newName("dynamo_VllmWorker"); name != "dynamo_VllmWorker_2" {
		t.Errorf("the next is %s", name)
	}
	if name := d.newName("dynamo_PrefillWorker"); name != "dynamo_PrefillWorker" {
		t.Errorf("the first is %s", name)
	}
	if got := d.of("dynamo_VllmWorker", Starting, Ready, Draining); len(got) != 0 {
		t.Errorf("others' workers are taken for ours: %q", got)
	}
}

func TestOwnEntries(t *testing.T) {
	d := parsed(t, ownFile)
	if got := d.names(); !slices.Equal(got, []string{"ns_A", "ns_A_2", "ns_A_10"}) {
		t.Errorf("names %q", got)
	}
	if got := d.newName("ns_A"); got != "ns_A_11" {
		t.Errorf("next %s", got)
	}
	d.remove("ns_A")
	d.remove("ns_A_2")
	base := rewritten(t, d)["components"].(map[string]any)["ns_A"].(map[string]any)
	keys := make([]string, 0, len(base))
	for k := range base {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if want := []string{"cmd", "failure", "failures", "other", "retry_at", "want", "watcher_name"}; !slices.Equal(keys, want) {
		t.Errorf("the first entry keeps %q, want %q", keys, want)
	}
	if d.entries["ns_A_2"] != nil {
		t.Error("ns_A_2 is still there")
	}
}

// A file that is cut off, of another kind, or changed by hand into nonsense is
// refused in words, and stays as it is.
func TestBadFilesAreRefused(t *testing.T) {
	worker := func(change string) string {
		return `{"components":{"ns_A":{"role":"decode","state":"ready","pid":42,"start_ticks":9,"boot_id":"b","port":8000,"url":"http://127.0.0.1:8000","log":"/l",` + change + `}}}`
	}
	bad := map[string]string{
		"": "it is empty", " \n": "it is empty", "null": "not a JSON object", "[]": "not a JSON object", "hello": "not a JSON object", "{} {}": "not a JSON object",
		"\x00\x00\x00\x00":                                                "not a JSON object",
		`{"components":[]}`:                                               "components: want an object",
		`{"components":{"x":null}}`:                                       "components.x: want an object",
		`{"components":{"x":7}}`:                                          "components.x: want an object",
		`{"components":{"x":{"state":"up"}}}`:                             `state "up"`,
		`{"components":{"x":{"resources":[]}}}`:                           "resources: want an object",
		`{"components":{"x":{"resources":{"allocated_gpus":"0"}}}}`:       "want a list",
		`{"components":{"x":{"resources":{"allocated_gpus":[{"a":1}]}}}}`: "indices or UUIDs",
		`{"components":{"x":{"want":-1}}}`:                                "want -1",
		`{"components":{"x":{"want":"two"}}}`:                             "want",
		`{"components":{"x":{"want":1,"retry_at":"tomorrow"}}}`:           "tomorrow",
		worker(`"pid":1`):                                                 "pid 1",
		worker(`"pid":-5`):                                                "pid -5",
		worker(`"start_ticks":0`):                                         "start_ticks",
		worker(`"port":0`):                                                "port 0",
		worker(`"port":70000`):                                            "port 70000",
		worker(`"url":"file:///etc/passwd"`):                              "url",
		worker(`"log":"l"`):                                               "full path",
		worker(`"role":"cook"`):                                           `role "cook"`,
		worker(`"failures":-1`):                                           "failures -1",
	}
	for i := 1; i < len(upstreamFile); i += 7 {
		bad[upstreamFile[:i]] = "not a JSON object"
	}
	path := filepath.Join(t.TempDir(), "ns.json")
	for text, want := range bad {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readDocument(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
		if _, err := Workers(path); err == nil {
			t.Errorf("%.80q: a frontend takes it", text)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != text {
			t.Errorf("%.80q became %q, %v", text, after, err)
		}
	}
}

func TestWorkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ns.json")
	if _, err := Workers(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string][]Worker{
		upstreamFile: nil,
		ownFile:      {{"ns_A", "decode", "http://127.0.0.1:8000", Ready}, {"ns_A_2", "decode", "http://127.0.0.1:8001", Draining}},
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Workers(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
}

func FuzzDocument(f *testing.F) {
	for _, text := range []string{upstreamFile, ownFile, "{}", `{"components":{"x":{"PID":3,"State":"ready"}}}`, `{"components":{"x":{"want":1,"resources":null}}}`, ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseDocument(text)
		if err != nil {
			return
		}
		once, err := d.bytes()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseDocument(once)
		if err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, once)
		}
		for name, e := range again.entries {
			if want := d.entries[name]; want == nil || !reflect.DeepEqual(e.own, want.own) || !slices.Equal(e.gpus, want.gpus) {
				t.Errorf("%s: %+v became %+v", name, want, e)
			}
		}
		twice, err := again.bytes()
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%v\n%s\nbecame\n%s", err, once, twice)
		}
		for _, name := range d.names() {
			base, _ := split(name)
			if next := d.newName(base); d.entries[next] != nil && d.entries[next].taken() {
				t.Errorf("the next of %s is %s, which is taken", base, next)
			}
			_, _, _ = d.entries[name].lease()
			d.remove(name)
		}
	})
}

// A pool's names are its own, whatever their number, and never another pool's.
func TestNames(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		base := rapid.StringMatching(`[a-z][a-z_]{0,8}[a-z]`).Draw(t, "base")
		d := &document{top: object{}, entries: map[string]*entry{}}
		given := map[string]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := d.newName(base)
			if given[name] || !belongs(name, base) || belongs(name, base+"_x") {
				t.Fatalf("%s among %v", name, given)
			}
			d.base(name, "e").occupy(name, "e", nil)
			given[name] = true
			if live := d.names(); rapid.Bool().Draw(t, "end one") {
				gone := rapid.SampledFrom(live).Draw(t, "gone")
				d.remove(gone)
				delete(given, gone)
			}
		}
	})
}

func TestBackoff(t *testing.T) {
	r := turn{Target: &Target{opts: Options{Backoff: time.Second, MaxBackoff: 5 * time.Minute}}}
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1 << 30: 5 * time.Minute} {
		if got := r.backoff(failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	if got := quote([]string{"e", "a b", "", "it's", "--x=1"}); got != `e 'a b' '' 'it'\''s' --x=1` {
		t.Error(got)
	}
}

// A frontend reads the file again and again.
func BenchmarkWorkers(b *testing.B) {
	d := &document{top: object{}, entries: map[string]*entry{}}
	for range 100 {
		name := d.newName("ns_A")
		e := d.base(name, "e")
		e.occupy(name, "e --port 8000", []string{"0", "1"})
		e.own = record{Role: "decode", State: Ready, PID: 42, Start: 9, Boot: "b", Port: 8000, URL: urlOf(8000), Log: "/l", StartedAt: time.Now(), ReadyAt: time.Now()}
	}
	path := filepath.Join(b.TempDir(), "ns.json")
	if err := d.write(path); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if ws, err := Workers(path); err != nil || len(ws) != 100 {
			b.Fatal(len(ws), err)
		}
	}
}
