package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/planner/serve"
)

// plannerSite is the planner's page, metrics and control.
type plannerSite struct {
	listener net.Listener
	server   *http.Server
}

// openSites listens wherever it is to; the sites that are open are to be closed
// after an error, too.
func openSites(c *cli.Context, units []*plannerUnit, out *plannerOutputs) ([]*plannerSite, error) {
	var sites []*plannerSite
	for _, open := range []func(*cli.Context, []*plannerUnit, *plannerOutputs) (*plannerSite, error){openSite, openMetrics} {
		s, err := open(c, units, out)
		if err != nil {
			return sites, err
		}
		if s != nil {
			sites = append(sites, s)
		}
	}
	return sites, nil
}

// openMetrics listens for metrics and probes alone; nil where nobody is to.
func openMetrics(c *cli.Context, units []*plannerUnit, out *plannerOutputs) (*plannerSite, error) {
	addr := strings.TrimSpace(c.String("metrics-listen"))
	if addr == "" {
		return nil, nil //nolint:nilnil // there is no site
	}
	if err := isAddress("metrics-listen", addr); err != nil {
		return nil, err
	}
	return newSite(addr, nil, serve.MetricsHandler(siteOptions(units, out)), out)
}

func siteOptions(units []*plannerUnit, out *plannerOutputs) serve.HandlerOptions {
	o := serve.HandlerOptions{History: out.history, Metrics: out.metrics}
	for _, u := range units {
		o.Runners = append(o.Runners, u.runner)
	}
	return o
}

// openSite listens for page, metrics and control; nil where nobody is to.
func openSite(c *cli.Context, units []*plannerUnit, out *plannerOutputs) (*plannerSite, error) {
	addr := strings.TrimSpace(c.String("listen"))
	if addr == "" {
		return nil, nil //nolint:nilnil // there is no site
	}
	if err := isAddress("listen", addr); err != nil {
		return nil, err
	}
	p := &parser{c: c}
	token := p.secretFile("token-file")
	tlsConfig := p.tls()
	if p.err != nil {
		return nil, p.err
	}
	if !loopback(addr) && token == "" && (tlsConfig == nil || tlsConfig.ClientCAs == nil) {
		return nil, field.Errorf("--listen %s is reached from other machines, and whoever reaches it scales the fleet", addr).
			Hint("--token-file FILE, or --tls-cert, --tls-key and --tls-client-ca; --listen 127.0.0.1:9085 is for this machine only")
	}
	o := siteOptions(units, out)
	o.Token, o.Hosts = token, fields(c.String("allow-host"))
	o.Certificates = tlsConfig != nil && tlsConfig.ClientCAs != nil
	return newSite(addr, tlsConfig, serve.Handler(o), out)
}

func newSite(addr string, tlsConfig *tls.Config, h http.Handler, out *plannerOutputs) (*plannerSite, error) {
	var config net.ListenConfig
	ln, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, field.WithHint(err, "--listen and --metrics-listen take other addresses; --listen '' does without page and control")
	}
	scheme := "http"
	if tlsConfig != nil {
		ln, scheme = tls.NewListener(ln, tlsConfig), "https"
	}
	if !out.quiet && !out.asJSON {
		say(out.err, "listening", "%s://%s", scheme, ln.Addr())
	}
	return &plannerSite{ln, &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxHeaderBytes: 64 << 10, IdleTimeout: 2 * time.Minute}}, nil
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
func isAddress(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	if err != nil {
		return field.Errorf("--%s %q: want HOST:PORT, such as 127.0.0.1:9085, ports from 0 to 65535", flag, addr).Hint("--%s '' does without", flag)
	}
	return nil
}

// loopback reports whether an address is reached from this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// fields are words separated by commas.
func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// tls is the site's encryption; nil where there is none.
func (p *parser) tls() *tls.Config {
	cert, key, ca := p.name("tls-cert"), p.name("tls-key"), p.name("tls-client-ca")
	if p.err != nil || cert == "" && key == "" && ca == "" {
		return nil
	}
	if cert == "" || key == "" {
		p.fail(field.Errorf("--tls-cert and --tls-key go together, and --tls-client-ca needs both"))
		return nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		p.fail(field.Errorf("--tls-cert %s, --tls-key %s: %v", cert, key, err))
		return nil
	}
	p.warnReadable("tls-key", key)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if ca == "" {
		return config
	}
	b, err := os.ReadFile(ca)
	if err != nil {
		p.fail(field.Errorf("--tls-client-ca: %v", err))
		return nil
	}
	// Probes come without a certificate; everything else is refused without one.
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !config.ClientCAs.AppendCertsFromPEM(b) {
		p.fail(field.Errorf("--tls-client-ca %s: it holds no certificate", ca))
	}
	return config
}
