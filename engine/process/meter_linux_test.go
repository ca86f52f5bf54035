package process

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What others took is what processes did less what this program and the engine did, and
// steal. Nothing is said where readings do not fit together.
func TestShareOfOthers(t *testing.T) {
	read := func(file string, ours uint64) usage {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		u, ok := parseUsage(text)
		if !ok {
			t.Fatalf("%s cannot be read", file)
		}
		u.ours = ours
		return u
	}
	for name, c := range map[string]struct {
		before, after uint64 // our ticks
		want          Share
		known         bool
	}{
		"others":               {1000, 1060, Share{2, 2 * time.Second, 0.4, 0.05, 0.75}, true}, // 130 for processes, 60 ours, 10 steal
		"none but us":          {1000, 1130, Share{2, 2 * time.Second, 0.05, 0.05, 0.75}, true},
		"less sampled":         {1000, 1140, Share{2, 2 * time.Second, 0.05, 0.05, 0.75}, true},
		"a part of us is lost": {1000, 900, Share{}, false},
	} {
		got, known := read("stat-before", c.before).until(read("stat-after", c.after))
		if known != c.known || got.Cores != c.want.Cores || got.Time != c.want.Time || math.Abs(got.Others-c.want.Others)+math.Abs(got.Steal-c.want.Steal)+math.Abs(got.Busy-c.want.Busy) > 1e-9 {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, known, c.want, c.known)
		}
	}
	if _, known := read("stat-before", 0).until(read("stat-before", 0)); known {
		t.Error("something is known of no time")
	}
	for _, text := range []string{"", "cpu 1 2 3\ncpu0 1 2 3\n", "cpu 1 2 3 x 5 6 7 8\ncpu0 1\n", "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n"} {
		if u, ok := parseUsage([]byte(text)); ok {
			t.Errorf("%q gives %+v", text, u)
		}
	}
	if _, known := (*Meter)(nil).Begin()(); known {
		t.Error("a nil meter knows something")
	}
}

// Those that ended are in their parents' times, so that a tree's sum only grows.
func TestTicksOfTrees(t *testing.T) {
	var all []stat
	for _, text := range []string{
		"1 (init) S 0 1 1 0 -1 0 0 0 0 0 900 90 9000 900 20 0 1 0 1",
		"10 (vllm serve) S 1 10 10 0 -1 0 0 0 0 0 70 7 20 2 20 0 1 0 500",
		"11 (a (b) c) R 10 10 10 0 -1 0 0 0 0 0 300 30 0 0 20 0 1 0 600",
		"12 (dead) Z 11 10 10 0 -1 0 0 0 0 0 4 1 0 0 20 0 1 0 700",
		"20 (other) S 1 20 20 0 -1 0 0 0 0 0 5000 0 0 0 20 0 1 0 800",
	} {
		s, ok := parseStat(len(all), []byte(text))
		if !ok {
			t.Fatalf("%q cannot be read", text)
		}
		s.pid = map[int]int{0: 1, 1: 10, 2: 11, 3: 12, 4: 20}[len(all)]
		all = append(all, s)
	}
	for _, c := range []struct {
		roots []int
		want  uint64
	}{{[]int{10}, 434}, {[]int{11, 10, 10}, 434}, {[]int{11}, 335}, {[]int{20, 12}, 5005}, {[]int{99}, 0}} {
		var got uint64
		for _, s := range within(all, c.roots...) {
			got += s.ticks
		}
		if got != c.want {
			t.Errorf("%v: %d ticks, want %d", c.roots, got, c.want)
		}
	}
}

// An engine is who listens, what that started, and who they are connected to, but for
// clients. It is not known where one of them is out of sight.
func TestPartsOfEngines(t *testing.T) {
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	listen := connection{local: at("0.0.0.0:8000"), inode: "l"}
	pair := func(a, b, inodeA, inodeB string) []connection {
		return []connection{{at(a), at(b), inodeA}, {at(b), at(a), inodeB}}
	}
	client := pair("127.0.0.1:8000", "127.0.0.1:40000", "c1", "c2")
	worker := pair("127.0.0.1:40001", "127.0.0.1:9000", "w1", "w2")
	bus := pair("127.0.0.1:9001", "127.0.0.1:40002", "b1", "b2")
	away := []connection{{at("192.0.2.2:40003"), at("198.51.100.7:443"), "away"}}
	bridge := []connection{{at("172.17.0.1:40003"), at("172.17.0.2:9000"), "away"}}
	owners := map[string][]int{"l": {10, 11}, "c1": {10}, "c2": {50}, "w1": {12}, "w2": {20}, "b1": {21}, "b2": {30}, "away": {10}}
	all := []stat{{pid: 10, parent: 1}, {pid: 11, parent: 10}, {pid: 12, parent: 11}, {pid: 20, parent: 1}, {pid: 21, parent: 20}, {pid: 30, parent: 1}, {pid: 50, parent: 1}}
	for name, c := range map[string]struct {
		conns []connection
		self  int
		want  []int
	}{
		"alone":               {slices.Concat([]connection{listen}, client, away), 50, []int{10, 11}},
		"with a worker":       {slices.Concat([]connection{listen}, client, worker), 50, []int{10, 11, 20}},
		"over a bus":          {slices.Concat([]connection{listen}, bus, worker), 50, []int{10, 11, 20, 30}},
		"we are no part":      {slices.Concat([]connection{listen}, worker), 20, []int{10, 11}},
		"nobody listens":      {client, 50, nil},
		"a hidden listener":   {[]connection{listen, {local: at("127.0.0.1:8000"), inode: "hidden"}}, 50, nil},
		"a hidden worker":     {slices.Concat([]connection{listen}, pair("127.0.0.1:40001", "127.0.0.1:9000", "w1", "hidden")), 50, nil},
		"another container's": {slices.Concat([]connection{listen}, bridge), 50, nil},
	} {
		got, known := engineOf(8000, c.conns, owners, all, c.self)
		if known != (c.want != nil) || known && !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, known, c.want)
		}
	}
}

func TestParseConnections(t *testing.T) {
	text := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 17212 1 0 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:1F40 0000000000000000FFFF00000200007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 17213 1 0 100 0 0 10 0
   2: 0100007F:1F40 0100007F:C351 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0
   3: x:1F40 0100007F:C351 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0
`
	for _, last := range []byte{1, 2} { // words are in the machine's own order
		text = strings.ReplaceAll(text, fmt.Sprintf("0%d00007F", last), fmt.Sprintf("%08X", binary.NativeEndian.Uint32([]byte{127, 0, 0, last})))
	}
	loop := netip.MustParseAddr("127.0.0.1")
	got := parseConnections(text)
	want := []connection{
		{netip.AddrPortFrom(loop, 8000), netip.AddrPort{}, "socket:[17212]"},
		{netip.AddrPortFrom(loop, 8000), netip.AddrPortFrom(loop.Next(), 50000), "socket:[17213]"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
