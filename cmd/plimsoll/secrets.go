package main

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// redacted is words without the credentials that this run was given, and without
// those that an engine's own flags hold: what is shown or written may be read by
// anybody.
func (o profileOptions) redacted(words []string) []string {
	secrets := []string{o.apiKey}
	for _, h := range o.headers {
		secrets = append(secrets, o.headerValue(h))
	}
	out := make([]string, len(words))
	for i, w := range words {
		for _, s := range secrets {
			if s != "" {
				w = strings.ReplaceAll(w, s, "[redacted]")
			}
		}
		switch name, _, joined := strings.Cut(w, "="); {
		case joined && holdsCredential(name):
			w = name + "=[redacted]"
		case i > 0 && holdsCredential(words[i-1]):
			w = "[redacted]"
		}
		out[i] = w
	}
	return out
}

// holdsCredential knows the flags of vLLM, SGLang and llama-server whose value is
// one, and the environment's usual names for one.
func holdsCredential(name string) bool {
	return slices.Contains([]string{"--api-key", "--api_key", "--admin-api-key", "--hf-token", "--hf_token", "-hft"}, name) ||
		slices.ContainsFunc([]string{"_TOKEN", "_KEY", "_SECRET", "_PASSWORD"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// infoClient asks for metrics as the measuring client asks for answers: with
// the same credentials, and around any proxy of the environment.
func infoClient(o profileOptions) *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: authorized{o, &http.Transport{}}}
}

type authorized struct {
	opts profileOptions
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if a.opts.apiKey != "" {
		r.Header.Set("Authorization", "Bearer "+a.opts.apiKey)
	}
	for _, h := range a.opts.headers {
		r.Header.Set(h.Name, a.opts.headerValue(h))
	}
	return a.next.RoundTrip(r)
}
