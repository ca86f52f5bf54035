package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

func ready(role engine.Role, names ...string) []Worker {
	out := make([]Worker, len(names))
	for i, n := range names {
		out[i] = Worker{Name: n, Role: role, URL: "http://" + n + ":1", State: Ready}
	}
	return out
}

func newPool(concurrency, maxQueue int, workers ...Worker) *pool {
	p := &pool{prefillConcurrency: concurrency, maxQueue: maxQueue}
	p.set(workers)
	return p
}

func mustAcquire(t testing.TB, p *pool, n need) *place {
	t.Helper()
	m, err := p.acquire(t.Context(), n, time.Now().Add(time.Hour), false)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Equally loaded workers take turns.
func TestTiesGoRound(t *testing.T) {
	p := newPool(1, 1, ready(engine.RoleAggregated, "a", "b", "c")...)
	var got []string
	for range 7 {
		m := mustAcquire(t, p, first)
		got = append(got, m.Name)
		p.release(m, false)
	}
	if want := []string{"a", "b", "c", "a", "b", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Whatever happens, a place is at the least loaded worker that takes requests,
// counts never disagree with a plain tally, and nobody waits where there is room.
func TestLeastLoaded(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		concurrency := rapid.IntRange(1, 3).Draw(t, "concurrency")
		role := rapid.SampledFrom([]engine.Role{engine.RoleAggregated, engine.RolePrefill}).Draw(t, "role")
		all := ready(role, "a", "b", "c", "d")
		if role == engine.RolePrefill {
			all = append(all, ready(engine.RoleDecode, "z")...)
		}
		p := newPool(concurrency, 1000, all...)
		states := map[string]State{"a": Ready, "b": Ready, "c": Ready, "d": Ready, "z": Ready}
		tally, begun := map[string]int{}, map[string]int{}
		score := func(name string) int { return 4*tally[name] - 3*begun[name] }
		var held []*place
		free := func(name string) bool {
			return states[name] == Ready && (role != engine.RolePrefill || tally[name] < concurrency)
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				least, any := 1<<30, false
				for _, n := range []string{"a", "b", "c", "d"} {
					if free(n) {
						least, any = min(least, score(n)), true
					}
				}
				m, err := p.acquire(context.Background(), first, time.Now(), false)
				switch {
				case err == nil && (!any || !free(m.Name) || score(m.Name) != least):
					t.Fatalf("%s scores %d, the least is %d; in flight %v, with a token %v", m.Name, score(m.Name), least, tally, begun)
				case err != nil && any:
					t.Fatalf("%v, with %v in flight of %v", err, tally, states)
				case err == nil:
					tally[m.Name]++
					held = append(held, m)
				}
			},
			"token": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				m := held[rapid.IntRange(0, len(held)-1).Draw(t, "which")]
				if !m.begun {
					begun[m.Name]++
				}
				p.begin(m)
			},
			"leave": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				p.release(held[i], false)
				tally[held[i].Name]--
				if held[i].begun {
					begun[held[i].Name]--
				}
				held = slices.Delete(held, i, i+1)
			},
			"change": func(t *rapid.T) {
				list := slices.Clone(all)
				for i := range list {
					if list[i].Role == role {
						list[i].State = rapid.SampledFrom([]State{Ready, Draining, Starting, ""}).Draw(t, "state")
						states[list[i].Name] = list[i].State
					}
				}
				p.set(slices.DeleteFunc(list, func(w Worker) bool { return w.State == "" }))
			},
			"": func(t *rapid.T) {
				got := map[string]int{}
				for _, m := range p.load().members {
					got[m.Name] += m.inFlight
				}
				for name, n := range tally {
					if got[name] != n {
						t.Fatalf("%s has %d in flight, want %d", name, got[name], n)
					}
				}
			},
		})
	})
}

// A stream with a token counts as one and one without as four, also at a decode worker.
func TestRequestWithoutTokenCountsAsFour(t *testing.T) {
	for _, role := range []engine.Role{engine.RoleAggregated, engine.RoleDecode} {
		t.Run(string(role), func(t *testing.T) {
			at := make(chan string, 6)
			stays := func(name, text string) worker {
				return handled(t, name, role, func(w http.ResponseWriter, r *http.Request) {
					at <- name
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, text)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
			}
			prefill := handled(t, "prefill", engine.RolePrefill, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
			s := serve(t, Options{}, stays("with", oneToken), stays("without", roleChunk), prefill)
			var got []string
			for range cap(at) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/completions", strings.NewReader(ask("a", 9, true)))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := s.client.Do(req) // until the first event
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				got = append(got, <-at)
			}
			if want := []string{"with", "without", "with", "with", "with", "without"}; !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// First come, first served, and each prefill worker takes so many at a time.
func TestQueueIsFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2, 100, slices.Concat(ready(engine.RolePrefill, "p"), ready(engine.RoleDecode, "d"))...)
		stays := mustAcquire(t, p, first)
		leaves := mustAcquire(t, p, first)
		order := make(chan int, 50)
		got := make(chan *place, 50)
		for i := range 50 {
			go func() {
				m, err := p.acquire(t.Context(), first, time.Now().Add(time.Hour), false)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				got <- m
			}()
			synctest.Wait()
		}
		if l := p.load(); l.prefillQueue != 50 || l.waiting != 50 || l.members[0].inFlight != 2 {
			t.Errorf("%+v", l)
		}
		p.release(leaves, false)
		for i := range 50 {
			synctest.Wait()
			if n := <-order; n != i {
				t.Errorf("number %d came as the %dth", n, i)
			}
			p.release(<-got, false)
		}
		p.release(stays, false)
	})
}

// A queue that is full refuses, one that has waited too long gives up, one whose
// client left makes room; none of them takes a place with it.
func TestQueueLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 2)
		results := make(chan error, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 2 {
			go func() {
				c := t.Context()
				if i == 1 {
					c = ctx
				}
				_, err := p.acquire(c, first, time.Now().Add(time.Minute), false)
				results <- err
			}()
		}
		synctest.Wait()
		if _, err := p.acquire(t.Context(), first, time.Now().Add(time.Minute), false); !errors.Is(err, errQueueFull) {
			t.Errorf("a third: %v", err)
		}
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		began := time.Now()
		if err := <-results; !errors.Is(err, errNoWorker) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		p.set(ready(engine.RoleAggregated, "a"))
		if l := p.load(); l.waiting != 0 || l.members[0].inFlight != 0 {
			t.Errorf("%+v", l)
		}
	})
}

// A request that a worker failed is not sent away by a full queue, and is next.
func TestFailedRequestGoesToTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 1, slices.Concat(ready(engine.RolePrefill, "p"), ready(engine.RoleDecode, "d"))...)
		m := mustAcquire(t, p, first)
		order := make(chan string, 2)
		wait := func(name string, again bool) {
			m, err := p.acquire(t.Context(), first, time.Now().Add(time.Hour), again)
			if err != nil {
				t.Error(err)
				return
			}
			order <- name
			p.release(m, false)
		}
		go wait("new", false)
		synctest.Wait()
		go wait("failed", true)
		synctest.Wait()
		p.release(m, false)
		if a, b := <-order, <-order; a != "failed" || b != "new" {
			t.Errorf("%s, then %s", a, b)
		}
	})
}

// A place that comes in the moment in which a request gives up is given back.
func TestPlaceThatComesTooLate(t *testing.T) {
	p := newPool(1, 1, ready(engine.RoleAggregated, "a")...)
	w := &waiter{granted: make(chan *place, 1)}
	w.granted <- mustAcquire(t, p, first)
	if err := p.giveUp(first, w, errNoWorker); !errors.Is(err, errNoWorker) || p.load().members[0].inFlight != 0 {
		t.Errorf("%v, %+v", err, p.load())
	}
}

// A worker that comes is used at once by those who wait.
func TestWaitersGetAWorkerThatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 10)
		got := make(chan *place, 1)
		go func() {
			m, err := p.acquire(t.Context(), first, time.Now().Add(time.Minute), false)
			if err != nil {
				t.Error(err)
			}
			got <- m
		}()
		synctest.Wait()
		p.set(ready(engine.RolePrefill, "p")) // no decode worker: it still waits
		synctest.Wait()
		if len(got) != 0 {
			t.Error("a prefill worker alone serves nobody")
		}
		p.set(slices.Concat(ready(engine.RolePrefill, "p"), ready(engine.RoleDecode, "d")))
		if m := <-got; m.Name != "p" {
			t.Errorf("%+v", m)
		}
	})
}

// A worker that refuses is left alone, longer each time, and comes back by itself.
func TestRefusingWorkerRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 10, ready(engine.RoleAggregated, "a")...)
		want := firstRest
		for range 8 {
			p.release(mustAcquire(t, p, first), true)
			began := time.Now()
			if p.load().serves {
				t.Fatal("it does not rest")
			}
			m := mustAcquire(t, p, first)
			if d := time.Since(began); d != want {
				t.Errorf("it rested for %v, want %v", d, want)
			}
			p.release(m, false)
			want = min(2*want, mostRest)
		}
		m := mustAcquire(t, p, first)
		p.works(m.member)
		p.release(m, true)
		if began, m := time.Now(), mustAcquire(t, p, first); time.Since(began) != firstRest {
			t.Errorf("after it had answered, %s rested for %v", m.Name, time.Since(began))
		}
	})
}

// Aggregated workers serve where prefill or decode is missing, and only there.
func TestWhoServes(t *testing.T) {
	prefill, decode, whole := ready(engine.RolePrefill, "p"), ready(engine.RoleDecode, "d"), ready(engine.RoleAggregated, "a")
	drains := ready(engine.RoleDecode, "d")
	drains[0].State = Draining
	for _, c := range []struct {
		list []Worker
		want engine.Role
	}{
		{nil, ""},
		{prefill, ""},
		{decode, ""},
		{whole, engine.RoleAggregated},
		{slices.Concat(prefill, decode), engine.RolePrefill},
		{slices.Concat(prefill, decode, whole), engine.RolePrefill},
		{slices.Concat(prefill, drains), ""},
		{slices.Concat(prefill, drains, whole), engine.RoleAggregated},
	} {
		if got := newPool(1, 1, c.list...).startsAt(time.Now()); got != c.want {
			t.Errorf("%v: %q, want %q", c.list, got, c.want)
		}
	}
}

func TestParseWorkers(t *testing.T) {
	got, err := ParseWorkers(" prefill=http://a:1/ ,decode=http://b:2, prefill=https://c")
	want := []Worker{
		{"prefill-0", engine.RolePrefill, "http://a:1", Ready},
		{"decode-0", engine.RoleDecode, "http://b:2", Ready},
		{"prefill-1", engine.RolePrefill, "https://c", Ready},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		"", ",", "http://a:1", "chef=http://a:1", "decode=", "decode=a:1", "decode=ftp://a", "decode=http://", "decode=http://:80",
		"decode=http://u:secret@a", "decode=http://a?x=1", "decode=http://a#x", "decode=http://a,prefill=http://a", "decode=http://[::1", "decode=http://a,",
	} {
		if list, err := ParseWorkers(bad); err == nil {
			t.Errorf("%q gives %+v", bad, list)
		} else if fmt.Sprint(err) == "" || slices.Contains([]string{"secret"}, fmt.Sprint(err)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParseWorkers(f *testing.F) {
	for _, s := range []string{"prefill=http://a:1,decode=http://b:2", "aggregated=https://[::1]:80/x", "=", "decode=http://u:p@a", "a=b=c,,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseWorkers(s)
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, w := range list {
			if err := w.Check(); err != nil || names[w.Name] || w.State != Ready {
				t.Errorf("%q gives %+v: %v", s, w, err)
			}
			names[w.Name] = true
		}
	})
}
