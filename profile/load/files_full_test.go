//go:build full && unix

package load

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/profile"
)

// Fault 8: limits of connections. 1,200 streams are open at once, though the
// process may have no more than 256 files when it begins; where the system does
// not let it have more, it says what to do before anything is sent.
func TestFault08ConnectionLimits(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Skip(err)
	}
	const streams = 1200
	if old.Max < 3*streams {
		t.Skipf("the system lets this process have %d files", old.Max)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }()
	few := old
	few.Cur = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Skip(err)
	}
	p := pacing{Streams: streams, Chunks: 3, Gap: 200 * time.Millisecond, Stepped: true, Rest: time.Millisecond}
	k := clock{epoch: time.Now()}
	s, err := servePaced(t.Context(), k, p)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := streamPaced(t.Context(), k, s.url(), p) // the server begins when all are there
	if err != nil {
		t.Fatal(err)
	}
	<-s.done
	s.close()
	for _, r := range rs {
		if r.Failure != "" || len(r.Chunks) != p.Chunks {
			t.Fatalf("record %+v", r)
		}
	}

	c := client(t, Options{BaseURL: "http://127.0.0.1:1", Model: "m", TokenIDs: true})
	w := profile.Workload{ISL: 1, OSL: 2, InFlight: 1 << 22, Requests: 1 << 22}
	if err := allowFiles(w.InFlight); err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("error %v", err)
	}
	few.Cur = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Skip(err)
	}
	w.InFlight, w.Requests = 1000, 1000
	if _, err := c.prepare(t.Context(), w); err != nil {
		t.Errorf("the limit was not raised: %v", err)
	}
}
