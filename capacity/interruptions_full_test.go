//go:build full

package capacity

import (
	"testing"
	"time"
)

// Without interruptions nothing restarts; with them the requests of the engines
// that go do, about as many as were in flight there.
func TestInterruptions(t *testing.T) {
	l, traffic, slo := spotFleet(t)
	calm, err := Interrupted(l, []int{2, 4}, traffic, slo, Interruptions{Pool: 1, StartUp: time.Minute}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if calm.Interruptions != 0 || calm.Restarted != 0 || calm.Missed != calm.MissedWithout {
		t.Errorf("without interruptions: %+v", calm)
	}
	rough, err := Interrupted(l, []int{2, 4}, traffic, slo, Interruptions{Pool: 1, PerHour: 6, StartUp: time.Minute}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", rough)
	if rough.Interruptions < 15 || rough.Interruptions > 50 {
		t.Errorf("%d interruptions, want about 30", rough.Interruptions)
	}
	if perHour := float64(rough.Interruptions) / rough.Hours / 4; perHour < 3 || perHour > 10 {
		t.Errorf("%.1f interruptions per engine and hour, want about 6", perHour)
	}
	// 20 requests/s that each stay 2 to 3 s on four engines: 10 to 15 on each.
	if each := rough.Restarted * float64(rough.Requests) / float64(rough.Interruptions); each < 5 || each > 25 {
		t.Errorf("%.1f requests restart at each interruption", each)
	}
	if rough.Missed <= calm.Missed || rough.MissedWithout > 0.01 {
		t.Errorf("interruptions cost nothing: %+v", rough)
	}
	slow, err := Interrupted(l, []int{2, 4}, traffic, slo, Interruptions{Pool: 1, PerHour: 6, StartUp: 10 * time.Minute}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if slow.Missed < rough.Missed {
		t.Errorf("slower replacements miss less: %.4f, %.4f", slow.Missed, rough.Missed)
	}
}
