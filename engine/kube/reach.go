package kube

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"plimsoll/engine/field"
)

// reachWithin is how long an engine whose pod serves may take to be reached from
// here: a Service's name and endpoints need a moment.
const reachWithin = 60 * time.Second

// reach opens the way to an engine whose pod serves, and sees that it answers.
func (e *Engine) reach(ctx context.Context) error {
	if e.run.o.Access == ByService {
		if e.service == "" {
			return fmt.Errorf("the template makes no Service, so that there is no name to reach it by (hint: " + field.KubeAccess + " port-forward)")
		}
		e.url = fmt.Sprintf("http://%s.%s.svc:%d", e.service, e.run.namespace, e.spec.Port)
		return e.answers(ctx, reachWithin, "is the program in the cluster? "+field.KubeAccess+" port-forward works from everywhere")
	}
	way, err := e.run.forward(ctx, e.pod, e.spec.Port)
	if err != nil {
		return err
	}
	e.way, e.url = way, fmt.Sprintf("http://127.0.0.1:%d", way.local)
	return e.answers(ctx, reachWithin, "a proxy between here and the API server may not pass on port-forwards")
}

// Back returns once an engine whose way broke answers again: as long as an API
// server that is replaced takes.
func (e *Engine) Back(ctx context.Context) error {
	if err := e.Err(); err != nil {
		return err
	}
	if err := e.answers(ctx, patience, "is the API server away?"); err != nil {
		return fmt.Errorf("the way to %s did not come back: %w", e.spec.Name, err)
	}
	return nil
}

func (e *Engine) answers(ctx context.Context, within time.Duration, hint string) error {
	path := e.spec.ReadyPath
	if path == "" {
		path = "/health"
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	limit, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := ask(limit, client, e.url+path)
		if err == nil {
			return nil
		}
		select {
		case <-limit.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("its pod %s is ready, but %s%s does not answer from here: %w (hint: %s)", e.pod, e.url, path, err, hint)
		case <-e.done:
			return e.err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func ask(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}
