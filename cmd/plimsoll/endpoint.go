package main

import (
	"context"
	"errors"
	"net/http"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/sweep"
)

// tryServer sends the endpoint a few small requests, until the run has to end. It gives how
// the server spreads over its GPUs.
func (o profileOptions) tryServer(ctx context.Context, l *launcher, so sweep.Options) (engine.Parallelism, error) {
	if !so.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, so.Deadline)
		defer stop()
	}
	_, err := l.Launch(ctx, so.Candidates[0])
	if err == nil {
		return l.behind(ctx)
	}
	for _, h := range serverHints {
		if errors.Is(err, h.cause) && (h.api == "" || h.api == o.api) {
			return engine.Parallelism{}, field.WithHint(err, "%s", h.hint)
		}
	}
	return engine.Parallelism{}, err
}

// serverHints say what helps where a server could not be tried; the first that fits.
//
//nolint:gochecknoglobals // a table
var serverHints = []struct {
	cause error
	api   load.Endpoint // empty: any
	hint  string
}{
	{load.ErrBusy, "", "wait until the server is ready, then run the same command again"},
	{load.ErrNoPath, load.Completions, "--api chat, if the server has /v1/chat/completions only"},
	{load.ErrNoPath, load.Chat, "--api completions, if the server has /v1/completions only"},
	{load.ErrUnreachable, "", "start the server, or correct --endpoint"},
	{load.ErrNoAnswer, "", "see the server's log: it may still be starting, or work on other requests"},
	{load.ErrNotLLM, "", "give the address of a server with an OpenAI API: --endpoint http://HOST:PORT"},
	{load.ErrStreamsNothing, "", "see the server's log"},
	{load.ErrRefused, "", "see the server's log"},
}

// failingHint says what helps where a server failed during a run.
func (o profileOptions) failingHint(cause error) string {
	var last profile.Request
	if f, ok := errors.AsType[*sweep.FailingError](cause); ok {
		last = f.Last
	}
	switch {
	case errors.Is(cause, sweep.ErrGone), o.endpointGone():
		return "nothing listens at the endpoint. Restart the server, then run the same command with --resume"
	case last.Failure == profile.FailShort:
		return "the server limits the length of prompts or answers. Raise its limit, then run the same command with --resume; or start over with a smaller --isl or --osl and --force"
	case last.Failure == profile.FailMalformed, last.Failure == profile.FailEmpty, last.Status == http.StatusInternalServerError:
		return "see the server's log. Once it is fixed, run the same command with --resume"
	}
	return "if the server was overloaded, lower --max-in-flight and start over with --force; otherwise run the same command with --resume"
}

// endpointGone reports whether the endpoint takes no connections.
func (o profileOptions) endpointGone() bool {
	resp, err := infoClient(o).Get(o.endpoint) //nolint:noctx // the client has a timeout
	if err == nil {
		_ = resp.Body.Close()
		return false
	}
	return gone(err)
}
