package load

import (
	"strings"
	"testing"
	"time"
)

func TestDelayedAck(t *testing.T) {
	ms := func(each ...int) (ds []time.Duration) {
		for _, n := range each {
			ds = append(ds, time.Duration(n)*time.Millisecond)
		}
		return ds
	}
	for _, c := range []struct {
		name            string
		quick, ordinary []time.Duration
		warned          bool
	}{
		{"held back", ms(19, 19, 20, 19, 19), ms(44, 45, 44, 44, 44), true},
		{"with an outlier each", ms(19, 90, 20, 19, 19), ms(44, 45, 19, 44, 44), true},
		{"the same", ms(19, 19, 20, 19, 19), ms(19, 20, 19, 19, 19), false},
		{"within the noise", ms(19, 19, 20, 19, 19), ms(28, 28, 29, 28, 28), false},
		{"quicker", ms(44, 45, 44, 44, 44), ms(19, 19, 20, 19, 19), false},
		{"quick ones spread", ms(19, 60, 20, 70, 19), ms(44, 45, 44, 44, 44), false},
		{"ordinary ones spread", ms(19, 19, 20, 19, 19), ms(10, 45, 44, 90, 90), false},
		{"one group failed", nil, ms(44, 45, 44, 44, 44), false},
		{"the other failed", ms(19, 19, 20, 19, 19), nil, false},
	} {
		got := delayedAck(c.quick, c.ordinary)
		if len(got) > 0 != c.warned {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.warned && (got[0].Code != "delayed_ack" || !strings.Contains(got[0].Message, "after 44 ms,") || !strings.Contains(got[0].Message, "here: 19 ms,")) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
