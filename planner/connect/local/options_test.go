package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/planner/connect/local"
)

func TestBadOptions(t *testing.T) {
	for want, change := range map[string]func(*local.Options){
		`namespace "../x"`:                func(o *local.Options) { o.Namespace = "../x" },
		`namespace ""`:                    func(o *local.Options) { o.Namespace = "" },
		`component "W_1"`:                 func(o *local.Options) { o.Pools[0].Component = "W_1" },
		"no pools":                        func(o *local.Options) { o.Pools = nil },
		"two pools cannot share":          func(o *local.Options) { o.Pools = append(o.Pools, o.Pools[0]) },
		`role ""`:                         func(o *local.Options) { o.Pools[0].Config.Role = "" },
		"has no {{.Port}}":                func(o *local.Options) { o.Pools[0].Template.Argv = "engine" },
		"no shell":                        func(o *local.Options) { o.Pools[0].Template.Argv = "A=1 engine {{.Port}}" },
		"grace 25h0m0s":                   func(o *local.Options) { o.Pools[0].Template.Grace = 25 * time.Hour },
		"no GPUs are given":               func(o *local.Options) { o.GPUs = nil },
		"GPUs and slots":                  func(o *local.Options) { o.Slots = 1 },
		`GPU "0" is empty or there twice`: func(o *local.Options) { o.GPUs = []string{"0", "0"} },
		"-1 slots":                        func(o *local.Options) { o.GPUs, o.Slots = nil, -1 },
		"settle is -1s":                   func(o *local.Options) { o.Settle = -time.Second },
	} {
		o := options(t.TempDir(), "serve")
		change(&o)
		if _, err := local.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}

func TestParseGPUs(t *testing.T) {
	for s, want := range map[string][]string{
		"0-3,6": {"0", "1", "2", "3", "6"}, "2": {"2"}, " 1 , 0": {"1", "0"}, "GPU-5b-6,MIG-7": {"GPU-5b-6", "MIG-7"}, "3-3": {"3"},
	} {
		if got, err := local.ParseGPUs(s); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", ",", "0,0", "0-2,1", "3-1", "-1", "0-99999999", "x", "0-", "1-2-3", "0x1"} {
		if got, err := local.ParseGPUs(s); err == nil {
			t.Errorf("%q is read as %q", s, got)
		}
	}
}

func FuzzParseGPUs(f *testing.F) {
	f.Add("0-3,6,GPU-1")
	f.Fuzz(func(t *testing.T, s string) {
		ids, err := local.ParseGPUs(s)
		if err != nil {
			return
		}
		again, err := local.ParseGPUs(strings.Join(ids, ","))
		if err != nil || !slices.Equal(ids, again) {
			t.Errorf("%q is %q, and that is %q, %v", s, ids, again, err)
		}
	})
}

func TestPath(t *testing.T) {
	t.Setenv("DYN_LOCAL_STATE_DIR", "/some/where")
	if p, err := local.Path("dynamo"); err != nil || p != "/some/where/dynamo.json" {
		t.Errorf("%s, %v", p, err)
	}
	t.Setenv("DYN_LOCAL_STATE_DIR", "")
	t.Setenv("HOME", "/home/who")
	if p, err := local.Path("dynamo"); err != nil || p != "/home/who/.dynamo/state/dynamo.json" {
		t.Errorf("%s, %v", p, err)
	}
	for _, bad := range []string{"", "a/b", "..", "a_1", "a b"} {
		if p, err := local.Path(bad); err == nil {
			t.Errorf("%q is %s", bad, p)
		}
	}
}

// A file that is cut off is set aside; the planner that runs writes it again as it was,
// and one that starts finds the workers by their mark.
func TestDamagedFile(t *testing.T) {
	dir := folder(t)
	f := newFixture(t, dir, options(dir, "serve"))
	f.scale(2)
	f.settled(2)
	before := f.found()
	whole, err := os.ReadFile(f.opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	torn := whole[:len(whole)/2]
	for i, aside := range []string{".damaged", ".damaged.2"} {
		if err := os.WriteFile(f.opts.Path, torn, 0o644); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			f.restart()
			if _, err := f.State(t.Context()); err == nil || !strings.Contains(err.Error(), "is damaged") {
				t.Errorf("one that only looks: %v", err)
			}
			f.scale(2)
		}
		if s := f.settled(2); s.Pools[0].Want != 2 {
			t.Errorf("%+v", s)
		}
		if now, err := os.ReadFile(f.opts.Path + aside); err != nil || string(now) != string(torn) || !strings.Contains(f.log(), "), and is now "+f.opts.Path+aside) {
			t.Errorf("set aside is %q, %v\n%s", now, err, f.log())
		}
		if now := f.found(); !slices.Equal(now, before) || len(workers(dir)) != 2 {
			t.Errorf("%+v became %+v, %d processes run", before, now, len(workers(dir)))
		}
		if info, err := os.Stat(f.opts.Path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

// Others' entries are kept, their workers run on, and their GPUs are theirs.
func TestSharedFile(t *testing.T) {
	dir := folder(t)
	o := options(dir, "serve")
	o.GPUs = []string{"0", "1"}
	f := newFixture(t, dir, o)
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o755); err != nil {
		t.Fatal(err)
	}
	theirs := `{"circus_endpoint":"tcp://127.0.0.1:1","components":{"dynamo_VllmDecodeWorker":{"cmd":"x","resources":{"allocated_gpus":[0]}}}}`
	if err := os.WriteFile(o.Path, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	f.scale(2)
	f.until("one of two", func(p planner.PoolState) bool { return p.Ready == 1 && p.Pending == 1 })
	if ws := f.found(); len(ws) != 1 || ws[0].Name != second {
		t.Errorf("%+v", ws)
	}
	if env, err := fetch(t, f.found()[0].URL+"/env"); err != nil || env != "1" {
		t.Errorf("it has GPUs %q, %v", env, err)
	}
	f.scale(0)
	f.settled(0)
	if e := f.entries()[first]; e["cmd"] != "x" || e["resources"] == nil {
		t.Errorf("theirs became %v", e)
	}
	if text, err := os.ReadFile(o.Path); err != nil || !strings.Contains(string(text), "tcp://127.0.0.1:1") {
		t.Errorf("%s, %v", text, err)
	}
}

// A folder that may not be written is named, with what to do. Root may write
// everywhere, so that a child does it that is nobody.
func TestPermissionDenied(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o555); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm()&0o055 == 0o055 {
			break
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := enginetest.Command(t, "/proc/self/exe", "planner", dir, "1")
	c.Dir = "/"
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "permission denied") || !strings.Contains(string(out), "set DYN_LOCAL_STATE_DIR to a folder that may be written") {
		t.Errorf("%v: %s", err, out)
	}
}

// A pool of each kind at once, by their own roles.
func TestRolesAreApart(t *testing.T) {
	dir := folder(t)
	o := options(dir, "serve")
	o.Pools = append(o.Pools, pool(engine.RolePrefill, "VllmPrefillWorker", "drain", 1, dir))
	f := newFixture(t, dir, o)
	for _, want := range []planner.Replicas{{Prefill: 2, Decode: 1}, {Prefill: 1, Decode: 2}, {}} {
		if err := f.Scale(t.Context(), want, "test"); err != nil {
			t.Fatal(err)
		}
		enginetest.Eventually(t, fmt.Sprint(want), func() bool {
			s := f.state()
			p, _ := s.Pool(engine.RolePrefill)
			d, _ := s.Pool(engine.RoleDecode)
			return p.Ready == want.Prefill && d.Ready == want.Decode && s.Scaling == ""
		})
	}
}
