package profile

import (
	"strings"
	"testing"
	"time"
)

func TestServerWarnings(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		s    *Server
		want string // in a warning; empty: there is none
	}{
		"nothing known":              {nil, ""},
		"nothing told":               {&Server{}, ""},
		"equal":                      {&Server{TTFT: Compared{10, 200 * ms, 200 * ms}, ITL: Compared{90, 20 * ms, 20 * ms}}, ""},
		"two milliseconds and 3 %":   {&Server{TTFT: Compared{10, 200 * ms, 208 * ms}}, ""},
		"of two requests":            {&Server{TTFT: Compared{2, 200 * ms, 300 * ms}}, ""},
		"more of TTFT":               {&Server{TTFT: Compared{10, 200 * ms, 209 * ms}}, "mean TTFT is 209.0 ms here and 200.0 ms by the engine's own count of the same requests: 9.0 ms are lost between them"},
		"more of ITL":                {&Server{ITL: Compared{90, 20 * ms, 25 * ms}}, "mean ITL is 25.0 ms here and 20.0 ms"},
		"the engine counts too much": {&Server{ITL: Compared{90, 25 * ms, 20 * ms}}, "One of them is wrong"},
	} {
		ws := c.s.Warnings()
		if (len(ws) > 0) != (c.want != "") || len(ws) > 0 && (ws[0].Code != "server_differs" || !strings.Contains(ws[0].Message, c.want)) {
			t.Errorf("%s: %+v", name, ws)
		}
	}
}

// Other clients' requests among the engine's make its mean no answer.
func TestBothWantsTheSameObservations(t *testing.T) {
	client := Observed{100, 20 * time.Millisecond}
	for n, want := range map[int]int{0: 0, 97: 0, 98: 100, 100: 100, 102: 100, 103: 0} {
		if got := Both(Observed{n, 21 * time.Millisecond}, client); got.N != want {
			t.Errorf("%d of the engine's: %+v", n, got)
		}
	}
	if got := Both(Observed{}, Observed{}); got != (Compared{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestMeansOfAWindow(t *testing.T) {
	const ms = time.Millisecond
	rs := []Request{
		{Sent: 5 * ms, First: 15 * ms, Chunks: []Chunk{{At: 15 * ms}, {At: 30 * ms}, {At: 60 * ms}}},
		{Sent: 20 * ms, First: 50 * ms, Chunks: []Chunk{{At: 50 * ms}}},
		{Sent: 20 * ms},
	}
	ttft, itl := Means(rs, Window{To: time.Hour})
	if ttft != (Observed{2, 20 * ms}) || itl != (Observed{2, 22500 * time.Microsecond}) {
		t.Errorf("of all: %+v, %+v", ttft, itl)
	}
	if ttft, itl = Means(rs, Window{From: 20 * ms, To: 60 * ms}); ttft != (Observed{1, 30 * ms}) || itl != (Observed{2, 22500 * time.Microsecond}) {
		t.Errorf("from 20 ms: %+v, %+v", ttft, itl)
	}
}

func TestServerOfTwoLoads(t *testing.T) {
	const ms = time.Millisecond
	a, b := &Server{TTFT: Compared{1, 10 * ms, 20 * ms}}, &Server{TTFT: Compared{3, 30 * ms, 40 * ms}}
	if got := a.With(b).TTFT; got != (Compared{4, 25 * ms, 35 * ms}) {
		t.Errorf("%+v", got)
	}
	if a.With(nil) != a || (*Server)(nil).With(b) != b {
		t.Error("one that is not known changes the other")
	}
}
