package virtual

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

func TestPrefixIsDynamos(t *testing.T) {
	if got := prefix("dynamo"); got != "v1/dynamo/planner/" {
		t.Errorf("prefix is %q", got)
	}
	o := Options{Endpoints: []string{"http://127.0.0.1:2379"}}
	for _, o.Namespace = range []string{"", "a/b", "a b", "a\n", "a\x7f"} {
		if o.Check() == nil {
			t.Errorf("namespace %q is accepted", o.Namespace)
		}
	}
	o.Namespace = "team-a.prod_1"
	if err := o.Check(); err != nil {
		t.Error(err)
	}
}

func TestReadRecord(t *testing.T) {
	none := Decision{None, None, None}
	for _, test := range []struct {
		name    string
		entries []entry
		want    Status
		torn    bool
		errs    []string // each in the error
		unread  string
	}{
		{name: "nothing yet", want: Status{none, None}},
		{
			name:    "as written",
			entries: []entry{{keyPrefill, "2", 9}, {keyDecode, "3", 9}, {keyID, "4", 9}, {keyScaled, "3", 8}},
			want:    Status{Decision{2, 3, 4}, 3},
		},
		{
			name:    "an early planner's start",
			entries: []entry{{keyPrefill, "0", 2}, {keyDecode, "0", 3}, {keyID, "-1", 4}},
			want:    Status{Decision{0, 0, None}, None},
		},
		{
			name:    "decode alone, as for one pool",
			entries: []entry{{keyDecode, "3", 9}, {keyID, "0", 9}},
			want:    Status{Decision{None, 3, 0}, None},
		},
		{
			name:    "a planner that died after its first write",
			entries: []entry{{keyPrefill, "5", 12}, {keyDecode, "3", 8}, {keyID, "4", 9}, {keyScaled, "4", 10}},
			want:    Status{Decision{5, 3, 4}, 4}, torn: true,
		},
		{
			name:    "a planner that died in its first decision",
			entries: []entry{{keyPrefill, "1", 2}, {keyDecode, "1", 3}},
			want:    Status{Decision{1, 1, None}, None}, // it says itself that there is no decision
		},
		{
			name:    "garbage is named, all of it",
			entries: []entry{{keyPrefill, "two", 9}, {keyDecode, "", 9}, {keyID, "1e3", 9}},
			want:    Status{none, None},
			errs:    []string{`num_prefill_workers is "two": want a number of 0 to 1000000`, `num_decode_workers is ""`, `decision_id is "1e3"`},
		},
		{
			name:    "numbers that would overflow",
			entries: []entry{{keyPrefill, "9223372036854775807", 9}, {keyDecode, "-2", 9}, {keyID, "18446744073709551615", 9}},
			want:    Status{none, None},
			errs:    []string{keyPrefill, keyDecode, keyID},
		},
		{
			name:    "an acknowledgement that makes no sense is none",
			entries: []entry{{keyPrefill, "2", 9}, {keyDecode, "3", 9}, {keyID, "4", 9}, {keyScaled, "yes", 10}},
			want:    Status{Decision{2, 3, 4}, None},
			unread:  `scaled_decision_id is "yes": want a number of 0 to 9007199254740992`,
		},
		{
			name:    "others' keys are left alone",
			entries: []entry{{keyDecode, "3", 9}, {"note", "mine", 10}, {keyID, "0", 9}},
			want:    Status{Decision{None, 3, 0}, None},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := readRecord(test.entries)
			if (err != nil) != (len(test.errs) > 0) {
				t.Fatalf("error is %v", err)
			}
			for _, want := range test.errs {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %q, want %q in it", err, want)
				}
			}
			if err == nil && (r.Status != test.want || r.torn() != test.torn || r.unreadable != test.unread) {
				t.Errorf("read %+v (torn %v, %q), want %+v (torn %v, %q)", r.Status, r.torn(), r.unreadable, test.want, test.torn, test.unread)
			}
		})
	}
}

func TestNext(t *testing.T) {
	whole := func(prefill, decode int, id, scaled int64) record {
		return record{Status: Status{Decision{prefill, decode, id}, scaled}, prefill: 9, decode: 9, id: 9}
	}
	torn := whole(2, 3, 4, 4)
	torn.prefill = 12
	for _, test := range []struct {
		name            string
		r               record
		prefill, decode int
		want            Decision
		needed          bool
	}{
		{"first", record{Status: Status{Decision{None, None, None}, None}}, 2, 3, Decision{2, 3, 0}, true},
		{"same", whole(2, 3, 4, 4), 2, 3, Decision{2, 3, 4}, false},
		{"same, not acknowledged", whole(2, 3, 4, 3), 2, 3, Decision{2, 3, 4}, false},
		{"prefill changes", whole(2, 3, 4, 4), 1, 3, Decision{1, 3, 5}, true},
		{"decode changes", whole(2, 3, 4, 4), 2, 0, Decision{2, 0, 5}, true},
		{"one pool", whole(None, 3, 4, 4), None, 5, Decision{None, 5, 5}, true},
		{"one pool, same", whole(None, 3, 4, 4), None, 3, Decision{None, 3, 4}, false},
		{"one pool leaves prefill alone", whole(2, 3, 4, 4), None, 4, Decision{2, 4, 5}, true},
		// The numbers are there, but nobody was told.
		{"torn is said again", torn, 2, 3, Decision{2, 3, 5}, true},
		{"numbers without ID are said", record{Status: Status{Decision{1, 1, None}, None}, prefill: 2, decode: 3}, 1, 1, Decision{1, 1, 0}, true},
		{"an early planner's start", record{Status: Status{Decision{0, 0, None}, None}, prefill: 2, decode: 3, id: 4}, 0, 0, Decision{0, 0, 0}, true},
		// Decision 0 would count as carried out.
		{"an acknowledgement without decision", record{Status: Status{Decision{None, None, None}, 7}, scaled: 5}, 1, 1, Decision{1, 1, 8}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, needed := test.r.next(test.prefill, test.decode)
			if d != test.want || needed != test.needed {
				t.Errorf("next is %v, %v, want %v, %v", d, needed, test.want, test.needed)
			}
		})
	}
}

// Whatever was there: what is written asks for what is wanted, is new to
// whoever acknowledged anything before, and is not written twice.
func TestLawsOfNext(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(None, 5)
		id := rapid.Int64Range(None, 9)
		revision := rapid.Int64Range(0, 4)
		r := record{
			Status:  Status{Decision{count.Draw(t, "prefill"), count.Draw(t, "decode"), id.Draw(t, "id")}, id.Draw(t, "scaled")},
			prefill: revision.Draw(t, "r1"), decode: revision.Draw(t, "r2"), id: revision.Draw(t, "r3"),
		}
		prefill, decode := count.Draw(t, "want prefill"), rapid.IntRange(0, 5).Draw(t, "want decode")
		d, needed := r.next(prefill, decode)
		if prefill != None && d.Prefill != prefill || prefill == None && d.Prefill != r.Prefill || d.Decode != decode {
			t.Fatalf("asked for %d, %d: %v", prefill, decode, d)
		}
		if needed && (d.ID <= r.ID || d.ID <= r.Scaled || !(Status{d, r.Scaled}).Pending()) {
			t.Fatalf("%v after %+v is not new", d, r.Status)
		}
		if !needed && d != r.Decision {
			t.Fatalf("%v differs from %v and is not written", d, r.Decision)
		}
		after := &r
		if needed {
			after = r.written(d, 10)
		}
		if d, again := after.next(prefill, decode); again {
			t.Fatalf("asked for again, %v is written twice", d)
		}
	})
}

// A decision that was there and is not there any more is known to who saw it; one that was
// never made, or was made again, is no loss.
func TestDecisionThatVanished(t *testing.T) {
	none := record{Status: Status{Decision{None, None, None}, None}}
	whole := record{Status: Status{Decision{4, 2, 3}, 3}, prefill: 9, decode: 9, id: 9, scaled: 10}
	without := func(change func(*record)) record {
		r := whole
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		was, now record
		want     bool
	}{
		"nothing yet":            {none, none, false},
		"the first":              {none, whole, false},
		"the same":               {whole, whole, false},
		"a later one":            {whole, without(func(r *record) { r.prefill, r.id = 12, 12 }), false},
		"restored from a backup": {whole, without(func(r *record) { r.prefill, r.decode, r.id = 2, 2, 2 }), false},
		"the acknowledgement":    {whole, without(func(r *record) { r.scaled = 0 }), false},
		"all keys":               {whole, none, true},
		"prefill":                {whole, without(func(r *record) { r.prefill, r.Prefill = 0, None }), true},
		"decode":                 {whole, without(func(r *record) { r.decode, r.Decode = 0, None }), true},
		"the ID":                 {whole, without(func(r *record) { r.id, r.ID = 0, None }), true},
	} {
		p, now := Planner{seen: &c.was}, c.now
		if lost := p.recall(&now); lost != c.want || lost && now.Decision != whole.Decision || !lost && now.Decision != c.now.Decision {
			t.Errorf("%s: %v, %v", name, lost, now.Decision)
		}
	}
}

// IDs begin again with a planner's life: an acknowledgement from before says nothing, but
// the next ID is above it.
func TestAcknowledgementOfAnEarlierLife(t *testing.T) {
	for _, c := range []struct {
		name         string
		id, scaled   int64
		began, acked int64 // revisions
		pending      bool
		next         int64
	}{
		{"of this life", 4, 4, 10, 12, false, 5},
		{"of this life, of the decision before", 4, 3, 10, 12, true, 5},
		{"of an earlier life, and the first decision", 0, 7, 10, 8, true, 8},
		{"of an earlier life, and the same ID", 7, 7, 10, 8, true, 8},
		{"never", 0, None, 10, 0, true, 1},
		{"no decision", None, 7, 0, 8, false, 8},
		{"no decision ever", None, None, 0, 0, false, 0},
	} {
		r := record{Status: Status{Decision{1, 1, c.id}, c.scaled}, scaled: c.acked, id: 20, prefill: 20, decode: 20}.since(c.began)
		if d, _ := r.next(2, 2); r.Pending() != c.pending || d.ID != c.next {
			t.Errorf("%s: pending is %v, next is %v", c.name, r.Pending(), d)
		}
	}
}

// An acknowledgement counts though its key is gone, and its wait is not begun again.
func TestAcknowledgementThatVanished(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	p := Planner{maxWait: time.Minute, log: log, scaled: Decision{ID: None}}
	for _, step := range []struct {
		name   string
		status Status
		waits  bool
	}{
		{"decided", Status{Decision{1, 1, 0}, None}, true},
		{"acknowledged", Status{Decision{1, 1, 0}, 0}, false},
		{"its client's lease ended", Status{Decision{1, 1, 0}, None}, false},
		{"the next", Status{Decision{2, 1, 1}, None}, true},
		{"and a new life's, of the same ID", Status{Decision{3, 3, 0}, None}, true},
	} {
		if left := p.left(record{Status: step.status}); left > 0 != step.waits {
			t.Errorf("%s: %v left", step.name, left)
		}
	}
}

func FuzzReadRecord(f *testing.F) {
	f.Add("2", "3", "4", "3")
	f.Add("0", "0", "-1", "")
	f.Add("two", "9223372036854775808", "+1", "١")
	f.Fuzz(func(t *testing.T, prefill, decode, id, scaled string) {
		entries := []entry{{keyPrefill, prefill, 1}, {keyDecode, decode, 2}, {keyID, id, 3}, {keyScaled, scaled, 4}}
		r, err := readRecord(entries)
		if err != nil {
			return
		}
		for i, got := range []int64{int64(r.Prefill), int64(r.Decode), r.ID} {
			if n, err := strconv.ParseInt(entries[i].value, 10, 64); err != nil || n != got || got < None {
				t.Errorf("%s is %q: read as %d", entries[i].key, entries[i].value, got)
			}
		}
		if r.unreadable == "" && strconv.FormatInt(r.Scaled, 10) != strings.TrimLeft(scaled, "+0") && r.Scaled > 0 {
			t.Errorf("acknowledgement %q: read as %d", scaled, r.Scaled)
		}
		r.next(1, 1)
	})
}
