package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"plimsoll/engine/redact"
)

const (
	firstProbe   = 10 * time.Millisecond  // pause after the first probe; it grows by half each time
	slowestProbe = 500 * time.Millisecond // to at most this
	probeTimeout = 5 * time.Second        // for one answer
	answerBytes  = 300                    // how much of an answer is kept for messages
)

// Ready waits until the engine answers 2xx at its ReadyPath, and makes sure, where the
// system lets it, that the answer is the engine's and not that of
// another server on the same port. It returns an *ExitError if the engine ends
// first, a *NotReadyError after Spec.ReadyTimeout, an error that wraps
// ErrPortInUse if another process answers, or the end of ctx. The engine is not
// stopped by any of them.
func (p *Process) Ready(ctx context.Context) error {
	began := time.Now()
	limit, cancel := context.WithTimeout(ctx, p.spec.ReadyTimeout)
	defer cancel()
	stopWatching := cancelWhen(p.done, cancel)
	defer stopWatching()

	client := probeClient()
	url := p.URL() + p.spec.ReadyPath
	answer := "no answer"
	for pause := firstProbe; ; pause = min(pause*3/2, slowestProbe) {
		ready, got := probe(limit, client, url)
		if got != "" {
			answer = got
		}
		if ready {
			return p.confirm(ctx)
		}
		select {
		case <-time.After(pause):
			continue
		case <-limit.Done():
		}
		select {
		case <-p.done:
			return p.endedEarly()
		default:
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("waiting for %s: %w", p.spec.Name, err)
		}
		return &NotReadyError{
			Name: p.spec.Name, URL: url, Waited: time.Since(began).Round(time.Millisecond),
			Answer: answer, Log: p.quote(),
		}
	}
}

// cancelWhen calls cancel when c closes, until the function that it returns is called.
func cancelWhen(c <-chan struct{}, cancel func()) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-c:
			cancel()
		case <-stopped:
		}
	}()
	return func() { close(stopped) }
}

// probeClient talks to this machine only: no proxy, no redirect, no connection
// kept that an engine would have to close.
func probeClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       probeTimeout,
	}
}

// probe asks once; answer is empty where the asking was cut short.
func probe(ctx context.Context, client *http.Client, url string) (ready bool, answer string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false, err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return false, ""
		}
		return false, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return true, resp.Status
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, answerBytes)) // only for a message: what came, came
	return false, strings.TrimSpace(resp.Status + " " + shown(strings.ReplaceAll(string(said), "\n", " "), redact.Values{}))
}

// confirm makes sure that the server which answered is this engine.
func (p *Process) confirm(ctx context.Context) error {
	select {
	case <-p.done:
		return p.endedEarly()
	default:
	}
	other, foreign := foreignListener(p.child.tree(), p.spec.Port)
	if !foreign {
		return nil
	}
	// An engine that found its port taken is about to say so and die; its own words are better.
	select {
	case <-p.done:
		return p.endedEarly()
	case <-ctx.Done():
	case <-time.After(2 * time.Second):
	}
	return fmt.Errorf("waiting for %s: %w: %d belongs to %s, which answered in its place", p.spec.Name, ErrPortInUse, p.spec.Port, other)
}

func (p *Process) endedEarly() error {
	if p.err == nil {
		return fmt.Errorf("%s was stopped before it was ready", p.spec.Name)
	}
	var exited *ExitError
	if errors.As(p.err, &exited) {
		return exited
	}
	return p.err
}
