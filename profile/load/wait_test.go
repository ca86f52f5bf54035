package load

import (
	"context"
	"errors"
	"testing"
	"time"

	"plimsoll/profile"
)

func TestWaitUntilIsNeverEarly(t *testing.T) {
	k := clock{epoch: time.Now()}
	var late []time.Duration
	for i := range 200 {
		due := k.now() + time.Duration(i%20)*300*time.Microsecond
		if err := k.waitUntil(t.Context(), due); err != nil {
			t.Fatal(err)
		}
		late = append(late, k.now()-due)
	}
	d := profile.Describe(late)
	if d.Min < 0 {
		t.Errorf("woke %v early", -d.Min)
	}
	t.Logf("late p50 %v, p99 %v, max %v", d.P50, d.P99, d.Max)
}

func TestWaitUntilHeedsItsContext(t *testing.T) {
	k := clock{epoch: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := k.waitUntil(ctx, k.now()+time.Hour); !errors.Is(err, context.Canceled) || k.now() > time.Minute {
		t.Errorf("got %v after %v", err, k.now())
	}
	if err := k.waitUntil(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v for an instant that has passed, under an ended context", err)
	}
}
