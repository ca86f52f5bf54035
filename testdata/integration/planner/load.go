// Package planner runs plimsoll planner serve as a user does: against real
// workers, a real Prometheus, a real Kubernetes API server and a real browser.
package planner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Sent is one request of a load.
type Sent struct {
	At          time.Duration // since the load began
	TTFT, ITL   time.Duration // ITL is the mean gap
	Prompt      int           // tokens; 0 of who left
	Tokens      int           // of who left, events
	Left        bool          // the client closed the stream, as it was to
	Failed      string        // why; empty: it did not
	Provenanced bool          // the answer said that it is simulated
}

// Load is Poisson arrivals of streamed completions whose rate changes.
type Load struct {
	URL, Model string
	ISL, OSL   int
	Phases     []Phase
	Leave      float64 // the share of the clients that close the stream after LeaveAfter events
	LeaveAfter int
}

// Phase is a rate for a while.
type Phase struct {
	Rate float64 // requests/s
	For  time.Duration
}

// Run sends the load and waits for all answers.
func (l Load) Run(ctx context.Context) []Sent {
	var (
		mu  sync.Mutex
		all []Sent
		wg  sync.WaitGroup
	)
	r := rand.New(rand.NewPCG(7, 11))
	begin := time.Now()
	due := time.Duration(0)
	for _, p := range l.Phases {
		end := due + p.For
		for next := due + time.Duration(r.ExpFloat64()/p.Rate*1e9); next < end; next += time.Duration(r.ExpFloat64() / p.Rate * 1e9) {
			if !wait(ctx, time.Until(begin.Add(next))) {
				break
			}
			at, leaveAfter := next, 0
			if l.Leave > 0 && r.Float64() < l.Leave {
				leaveAfter = l.LeaveAfter
			}
			wg.Go(func() {
				s := l.send(ctx, leaveAfter)
				s.At = at
				mu.Lock()
				defer mu.Unlock()
				all = append(all, s)
			})
		}
		due = end
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b Sent) int { return int(a.At - b.At) })
	return all
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (l Load) send(ctx context.Context, leaveAfter int) (s Sent) {
	body, err := json.Marshal(map[string]any{
		"model": l.Model, "prompt": strings.Repeat("w ", l.ISL), "max_tokens": l.OSL, "ignore_eos": true, "stream": true,
		"stream_options": map[string]any{"include_usage": true},
	})
	if err != nil {
		return Sent{Failed: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URL+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return Sent{Failed: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	begin := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Sent{Failed: err.Error()}
	}
	defer resp.Body.Close()
	s.Provenanced = resp.Header.Get("X-Plimsoll-Provenance") == "simulated"
	if resp.StatusCode != http.StatusOK {
		s.Failed = resp.Status
		return s
	}
	s.read(bufio.NewScanner(resp.Body), begin, leaveAfter)
	if s.Failed == "" && !s.Left && s.Tokens != l.OSL {
		s.Failed = fmt.Sprintf("%d tokens of %d", s.Tokens, l.OSL)
	}
	return s
}

// read takes the stream's instants and its usage; where leaveAfter is above 0 only so many
// events.
func (s *Sent) read(lines *bufio.Scanner, begin time.Time, leaveAfter int) {
	var first, last time.Time
	for events := 0; !s.Left && lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct{ Text string }
			Usage   *struct {
				PromptTokens     int `json:"prompt_tokens"`
				CompletionTokens int `json:"completion_tokens"`
			}
			Error any
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.Error != nil {
			s.Failed = "broken stream: " + data
			return
		}
		if chunk.Usage != nil {
			s.Prompt, s.Tokens = chunk.Usage.PromptTokens, chunk.Usage.CompletionTokens
		}
		if len(chunk.Choices) > 0 && chunk.Choices[0].Text != "" {
			if last = time.Now(); first.IsZero() {
				first = last
			}
			if events++; events == leaveAfter {
				s.Left, s.Tokens = true, events
			}
		}
	}
	if err := lines.Err(); err != nil || first.IsZero() {
		s.Failed = fmt.Sprintf("the stream ended: %v", err)
		return
	}
	s.TTFT = first.Sub(begin)
	if s.Tokens > 1 {
		s.ITL = last.Sub(first) / time.Duration(s.Tokens-1)
	}
}
