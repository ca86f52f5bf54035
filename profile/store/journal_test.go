package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

var journalStart = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func point(id string) profile.Point {
	return profile.Point{
		ID: id, Stage: profile.StageSweep, Phase: profile.Decode, Provenance: profile.Simulated, ISL: 3000, OSL: 150,
		Config: engine.Config{Kind: engine.KindSim, Parallelism: engine.TP(2)}, InFlight: 15.99, Context: 3075.25, KVUsage: 0.1, MaxKV: 490000,
		ITL: profile.Distribution{N: 100, Mean: 7 * time.Millisecond}, Requests: 100, Started: journalStart,
	}
}

// journal writes entries and returns the file.
func journal(t *testing.T, entries ...Entry) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), JournalFile)
	j, err := OpenJournal(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func header() Entry { return HeaderEntry(NewHeader(Inputs{"--isl": "3000"}, "v0", journalStart)) }

func TestJournalRoundTrip(t *testing.T) {
	facts := EngineFacts{Key: "decode/tp2", EngineFacts: profile.EngineFacts{KVTokens: 490000, Version: "sim 1", StartUpSeconds: 93.5, Provenance: profile.Simulated}}
	again := point("b")
	again.InFlight = 7
	file := journal(t, header(), EngineEntry(facts), PointEntry(point("a"), Cost{}), PointEntry(point("b"), Cost{}), PointEntry(again, Cost{Launches: 2, Requests: 7}))
	log, err := ReadJournal(file)
	if err != nil {
		t.Fatal(err)
	}
	want := JournalLog{
		Header: NewHeader(Inputs{"--isl": "3000"}, "v0", journalStart),
		Points: []profile.Point{point("a"), again}, Engines: []EngineFacts{facts},
		Spent: Spent{Total: Cost{Launches: 2, Requests: 7}, ByStage: map[profile.Stage]Cost{again.Stage: {Launches: 2, Requests: 7}}, last: again.Stage},
	}
	if !reflect.DeepEqual(log, want) {
		t.Errorf("read  %+v\nwrote %+v", log, want)
	}
}

func TestStagesCostWhatTheRunCost(t *testing.T) {
	var s Spent
	s.End(Cost{Requests: 1}) // nothing was measured
	s.Reach(profile.StageSweep, Cost{Launches: 1, Requests: 10, EngineSeconds: 5})
	s.Reach(profile.StageVerify, Cost{Launches: 2, Requests: 30, EngineSeconds: 9})
	s.Reach(profile.StageSweep, Cost{Launches: 2, Requests: 31, EngineSeconds: 10})
	s.End(Cost{Launches: 2, Requests: 31, EngineSeconds: 12})
	want := map[profile.Stage]Cost{profile.StageSweep: {Launches: 1, Requests: 11, EngineSeconds: 8}, profile.StageVerify: {Launches: 1, Requests: 20, EngineSeconds: 4}}
	if !reflect.DeepEqual(s.ByStage, want) {
		t.Errorf("%+v, want %+v", s.ByStage, want)
	}
}

// TestJournalCutAnywhere: whatever a kill leaves of the file reads as the
// entries that were whole, and goes on from there.
func TestJournalCutAnywhere(t *testing.T) {
	b, err := os.ReadFile(journal(t, header(), PointEntry(point("a"), Cost{}), PointEntry(point("b"), Cost{})))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), JournalFile)
	for n := 0; n <= len(b); n += 29 {
		for name, cut := range map[string][]byte{
			"cut": b[:n], "zeros": append(bytes.Clone(b[:n]), make([]byte, 50)...), "holes": slices.Concat(b[:n], make([]byte, 50), []byte("\n")),
		} {
			if err := os.WriteFile(file, cut, 0o600); err != nil {
				t.Fatal(err)
			}
			whole := bytes.Count(b[:n], []byte("\n"))
			log, err := ReadJournal(file)
			if whole == 0 && !errors.Is(err, ErrNoHeader) {
				t.Fatalf("%s at %d: error %v, want ErrNoHeader", name, n, err)
			}
			if whole > 0 && (err != nil || len(log.Points) != whole-1 || log.Torn != (len(cut) > 0 && !bytes.HasSuffix(b[:n], []byte("\n")) || name != "cut")) {
				t.Fatalf("%s at %d: %d points, torn %v, %v; want %d", name, n, len(log.Points), log.Torn, err, whole-1)
			}
			if whole == 0 {
				continue
			}
			j, err := OpenJournal(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(j.Append(PointEntry(point("new"), Cost{})), j.Close()); err != nil {
				t.Fatal(err)
			}
			if log, err = ReadJournal(file); err != nil || log.Torn || len(log.Points) != whole || log.Points[whole-1].ID != "new" {
				t.Fatalf("%s at %d, resumed: %+v, %v", name, n, log, err)
			}
		}
	}
}

func TestJournalRefuses(t *testing.T) {
	good, err := os.ReadFile(journal(t, header(), PointEntry(point("a"), Cost{})))
	if err != nil {
		t.Fatal(err)
	}
	head, pt, _ := strings.Cut(string(good), "\n")
	pt = strings.TrimSuffix(pt, "\n")
	for name, c := range map[string]struct{ text, want string }{
		"damaged header": {head[:20] + "\n" + pt + "\n", ":1: bad JSON: the line ends within a value"},
		"unknown entry":  {head + "\n" + pt + "\n" + `{"type":"verdict"}` + "\n", `:3: unknown entry type "verdict": the journal is not of schema 1`},
		"newer schema":   {strings.Replace(head, `"schema":1`, `"schema":2`, 1) + "\n", ":1: journal schema 2 is not 1"},
		"no header":      {pt + "\n", `:1: entry of type "point": want one header, as the first line`},
		"two headers":    {head + "\n" + head + "\n", `:2: entry of type "header"`},
		"nothing in it":  {head + "\n" + `{"type":"point"}` + "\n", `:2: entry of type "point" holds no point`},
		"changed inputs": {strings.Replace(head, "3000", "4000", 1) + "\n", ":1: the header's fingerprint"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), JournalFile)
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadJournal(file); err == nil || !strings.Contains(err.Error(), file+c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Of a journal with damaged lines behind its header all else is read.
func TestJournalDamagedInTheMiddle(t *testing.T) {
	entries := []Entry{header()}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		entries = append(entries, PointEntry(point(id), Cost{}))
	}
	file := journal(t, entries...)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.SplitAfter(b, []byte("\n"))
	hurt := slices.Clone(all)
	hurt[3], hurt[5] = []byte("\x00\x00\x00\n"), append(bytes.Clone(all[5][:20]), '\n') // points c and e, whose end is a torn line
	hurt = append(hurt, []byte("\n"), all[2])                                           // b again
	if err := os.WriteFile(file, bytes.Join(hurt, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := ReadJournal(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := []profile.Point{point("a"), point("b"), point("d")}; !slices.Equal(log.Damaged, []int{4, 6, 7}) || !reflect.DeepEqual(log.Points, want) {
		t.Errorf("damaged lines %v, points %+v", log.Damaged, log.Points)
	}
}

func TestJournalAppendRefuses(t *testing.T) {
	j, err := OpenJournal(filepath.Join(t.TempDir(), JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Entry{{}, {Type: "other"}, {Type: EntryPoint}} {
		if err := j.Append(e); err == nil {
			t.Errorf("%+v is appended", e)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(header()); err == nil {
		t.Error("a closed journal takes an entry")
	}
}

// TestJournalSurvivesKill kills a process that appends as fast as it can.
func TestJournalSurvivesKill(t *testing.T) {
	file := journal(t, header())
	for range 3 {
		child := startChild(t, "journal "+file)
		before, err := ReadJournal(file)
		if err != nil {
			t.Fatal(err)
		}
		enginetest.Eventually(t, "the child goes on", func() bool {
			log, err := ReadJournal(file)
			return err == nil && len(log.Points) >= max(len(before.Points), 5)
		})
		child.kill(t)
		if _, err := ReadJournal(file); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if log, err := ReadJournal(file); err != nil || log.Torn {
			t.Fatalf("after opening again: torn %v, %v", log.Torn, err)
		}
	}
}

func TestDiffInputs(t *testing.T) {
	was := Inputs{"--isl": "3000", "--osl": "150", "--tp": "1,2", "--model": ""}
	now := Inputs{"--isl": "4000", "--osl": "150", "--seed": "1", "--model": "x"}
	want := []string{`--isl was 3000, now 4000`, `--model was "", now x`, `--seed was not set, now 1`, `--tp was 1,2, now not set`}
	if got := DiffInputs(was, now); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if DiffInputs(was, was) != nil || DiffInputs(nil, nil) != nil || len(DiffInputs(nil, now)) != 4 {
		t.Error("equal inputs differ")
	}
	if was.Fingerprint() == now.Fingerprint() || was.Fingerprint() != (Inputs{"--osl": "150", "--isl": "3000", "--model": "", "--tp": "1,2"}).Fingerprint() {
		t.Error("fingerprints do not follow the inputs")
	}
	if (Inputs{"a": "b\n\"c\"=\"d"}).Fingerprint() == (Inputs{"a": "b", "c": "d"}).Fingerprint() {
		t.Error("a value can pretend to be two inputs")
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"type":"header","header":{"schema":1,"fingerprint":"","inputs":{}}}` + "\n" + `{"type":"point","point":{"id":"a"}}` + "\n{"))
	f.Add([]byte("\n\n\x00"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		file := filepath.Join(dir, JournalFile)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		before, err := ReadJournal(file)
		whole, rest := lines(b)
		if n := len(bytes.Join(whole, []byte("\n"))) + min(len(whole), 1); n+len(rest) != len(b) {
			t.Fatalf("%d bytes whole, %d torn of %d", n, len(rest), len(b))
		}
		if err != nil {
			return
		}
		j, err := OpenJournal(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		after, err := ReadJournal(file)
		before.Torn = false
		if err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("opening changed %+v to %+v, %v", before, after, err)
		}
	})
}

// Two runs whose inputs differ in a credential alone differ; the header holds neither.
func TestHeaderSealsCredentials(t *testing.T) {
	secret := Inputs{"--command": "engine --api-key first"}
	h := NewHeader(Inputs{"--command": "engine --api-key [redacted]"}, "v0", journalStart).Sealed(secret)
	text, err := json.Marshal(h)
	if err != nil || strings.Contains(string(text), "first") || h.Salt == NewHeader(nil, "v0", journalStart).Sealed(secret).Salt {
		t.Errorf("%s, %v", text, err)
	}
	if diff := h.DiffCredentials(secret); diff != nil {
		t.Errorf("the same: %v", diff)
	}
	if diff := h.DiffCredentials(Inputs{"--command": "engine --api-key second"}); !slices.Equal(diff, []string{"--command holds another credential"}) {
		t.Errorf("another: %v", diff)
	}
	if diff := NewHeader(nil, "v0", journalStart).DiffCredentials(secret); diff != nil {
		t.Errorf("an earlier version's: %v", diff)
	}
}
