package policy

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/planner"
)

// A policy that is saved and restored into a new one after every interval decides
// as the one that goes on.
func TestRestoredDecidesAlike(t *testing.T) {
	p, d := h200(t)
	for name, fresh := range fresh(t, p, d) {
		if _, ok := fresh().(planner.Stateful); !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t, func(r *rapid.T) {
				dep := anyDeployment(r)
				on, other := fresh(), fresh().(planner.Stateful)
				s := anySituation(r, dep, planner.Replicas{}, time.Unix(1_000_000, 0))
				for range rapid.IntRange(1, 12).Draw(r, "intervals") {
					a, b := on.Propose(s), other.Propose(s)
					if a.Sized != nil && a.Sized(1, 0.5) == b.Sized(1, 0.5) {
						a.Sized, b.Sized = nil, nil
					}
					if !reflect.DeepEqual(a, b) {
						r.Fatalf("one goes on:\n%+v\nthe restored one:\n%+v", a, b)
					}
					chained(r, s, a)
					state, err := other.Save()
					if err != nil {
						r.Fatal(err)
					}
					other = fresh().(planner.Stateful)
					if err := other.Restore(state); err != nil {
						r.Fatal(err)
					}
					s = anySituation(r, dep, a.Want, s.End())
				}
			})
		})
	}
}

// State of another policy, or out of range, changes nothing.
func TestRestoreRefuses(t *testing.T) {
	p, d := h200(t)
	for name, fresh := range fresh(t, p, d) {
		policy, ok := fresh().(planner.Stateful)
		if !ok {
			continue
		}
		dep := split(1, 1, -1)
		policy.Propose(busy(loaded(dep, planner.Replicas{Prefill: 2, Decode: 2}, 5, 0.95), 100, 3000, 150))
		before, err := policy.Save()
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range []string{
			``, `[]`, `{`, `{"policy":"another"}`,
			`{"policy":"upstream","corrections":{"prefill":-1,"decode":1},"requests":{"V":1},"isl":{"V":1},"osl":{"V":1}}`,
			`{"policy":"upstream","corrections":{"prefill":1,"decode":1},"requests":{"V":7},"isl":{"V":7},"osl":"x"}`,
			`{"policy":"load","grace":4}`, `{"policy":"load","grace":-1}`,
		} {
			if err := policy.Restore(json.RawMessage(state)); err == nil {
				t.Errorf("%s takes %q", name, state)
			}
			after, err := policy.Save()
			if err != nil || string(after) != string(before) {
				t.Errorf("%s after %q: %s (%v), before %s", name, state, after, err, before)
			}
		}
	}
}

// Corrections that another run learned are not used where none are wanted.
func TestRestoreWithoutCorrection(t *testing.T) {
	p, d := h200(t)
	u := upstreamOf(t, p, d, time.Minute, func(o *UpstreamOptions) { o.NoCorrection = true })
	if err := u.Restore(json.RawMessage(`{"policy":"upstream","corrections":{"prefill":0.5,"decode":2},"requests":{"V":7},"isl":{"V":7},"osl":{"V":7}}`)); err != nil {
		t.Fatal(err)
	}
	if u.by != (correctionFactors{1, 1}) {
		t.Errorf("corrections %+v", u.by)
	}
}

// mute is a forecaster that cannot be saved.
type mute struct{ last }

func (*mute) Save() (json.RawMessage, error) { return nil, errors.New("no disk") }

func TestSaveFails(t *testing.T) {
	p, d := h200(t)
	u := upstreamOf(t, p, d, time.Minute, func(o *UpstreamOptions) { o.OSL = &mute{} })
	if _, err := u.Save(); err == nil || !strings.Contains(err.Error(), "saving the forecasters: no disk") {
		t.Error(err)
	}
	if err := u.Restore(json.RawMessage(`{"policy":"upstream","corrections":{"prefill":1,"decode":1},"requests":{"V":7},"isl":{"V":7},"osl":{"V":7}}`)); err == nil {
		t.Error("restored although what there is could not be kept")
	}
}
