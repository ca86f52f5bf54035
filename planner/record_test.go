package planner

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
)

// A planner that never had to scale knows too what the target's record was: 4+2 became 1+1
// after a restart. So does one with another policy or another interval.
func TestLostRecordIsKnownWithoutADecision(t *testing.T) {
	have := Replicas{Prefill: 4, Decode: 2}
	first := core(t, deployment(100), &scripted{want: have})
	if d := first.Step(seen(have)); d.Act {
		t.Fatalf("it scales: %+v", d)
	}
	saved, err := first.Save()
	if err != nil {
		t.Fatal(err)
	}
	none := seen(Replicas{})
	for i := range none.Pools {
		none.Pools[i].Want, none.Pools[i].NoRecord = -1, true
	}
	for name, restore := range map[string]func(*Core) error{
		"the same planner": func(c *Core) error { return c.Restore(saved) },
		"another interval": func(c *Core) error { return c.RestoreRecord(saved) },
		"another policy": func(c *Core) error {
			c.o.Policy = refusing{c.o.Policy.(Stateful)}
			if err := c.Restore(saved); !errors.Is(err, ErrPolicyState) {
				t.Errorf("error %v", err)
			}
			return nil
		},
		"an older state file": func(c *Core) error { return c.RestoreRecord(json.RawMessage(`{"asked":{"prefill":4,"decode":2}}`)) },
	} {
		again := core(t, deployment(100), &scripted{want: have})
		if err := restore(again); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, d := range []Decision{again.Bound(none, Unshared()), again.Step(none)} {
			if !d.Act || d.Want != have {
				t.Errorf("%s: %+v", name, d)
			}
		}
	}
}

// refusing is a policy that another one's state does not fit.
type refusing struct{ Stateful }

func (refusing) Restore(json.RawMessage) error { return errors.New("of another policy") }

// A planner that lost its own memory holds where the target has no record, also after
// a restart, until somebody puts a record back. So does one that has none, where the target
// knows that there was a record.
func TestForgottenDecisionHolds(t *testing.T) {
	none, want := seen(Replicas{}), Replicas{Prefill: 1, Decode: 1}
	for i := range none.Pools {
		none.Pools[i].Want, none.Pools[i].NoRecord = -1, true
	}
	first := core(t, deployment(100), &scripted{want: want})
	first.Forgot()
	saved, err := first.Save()
	if err != nil {
		t.Fatal(err)
	}
	again := core(t, deployment(100), &scripted{want: want})
	if err := again.Restore(saved); err != nil {
		t.Fatal(err)
	}
	lost := Observation{Pools: slices.Clone(none.Pools)}
	lost.Pools[0].Lost, lost.Pools[1].Lost = true, true
	begun := core(t, deployment(100), &scripted{want: want})
	for _, d := range []Decision{first.Bound(none, Unshared()), first.Step(none), again.Bound(none, Unshared()), again.Step(none), begun.Bound(lost, Unshared()), begun.Step(lost)} {
		if d.Act || len(d.Missing) != 2 || len(d.Warnings) != 1 || d.Warnings[0].Code != "record_unknown" {
			t.Errorf("without any record: %+v", d)
		}
	}
	if d := again.Step(seen(Replicas{Prefill: 4, Decode: 2})); !d.Act || d.Want != want {
		t.Errorf("with a record: %+v", d)
	}
}
