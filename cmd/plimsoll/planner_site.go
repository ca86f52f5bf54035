package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/planner/serve"
)

// plannerSite is the planner's page and metrics.
type plannerSite struct {
	listener net.Listener
	server   *http.Server
}

// openSite listens for page, metrics and probes; nil where nobody is to.
func openSite(c *cli.Context, units []*plannerUnit, out *plannerOutputs) (*plannerSite, error) {
	addr := strings.TrimSpace(c.String("listen"))
	if addr == "" {
		return nil, nil //nolint:nilnil // there is no site
	}
	if err := isAddress(addr); err != nil {
		return nil, err
	}
	o := serve.HandlerOptions{History: out.history, Metrics: out.metrics, Hosts: fields(c.String("allow-host"))}
	for _, u := range units {
		o.Runners = append(o.Runners, u.runner)
	}
	var config net.ListenConfig
	ln, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		host, _, _ := net.SplitHostPort(addr) // isAddress has looked
		return nil, field.WithHint(err, "--listen %s takes a free port and says which; --listen '' does without page and metrics", net.JoinHostPort(host, "0"))
	}
	if !out.quiet && !out.asJSON {
		say(out.err, "listening", "http://%s", ln.Addr())
	}
	return &plannerSite{ln, &http.Server{Handler: serve.Handler(o), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxHeaderBytes: 64 << 10, IdleTimeout: 2 * time.Minute}}, nil
}

// serve answers until ctx ends.
func (s *plannerSite) serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.server.Close() }) // it keeps nothing
	defer stop()
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// isAddress refuses what nobody can listen on.
func isAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	if err != nil {
		return field.Errorf("--listen %q: want HOST:PORT, such as 127.0.0.1:9085, ports from 0 to 65535", addr).Hint("--listen '' does without")
	}
	return nil
}

// fields are words separated by commas.
func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
