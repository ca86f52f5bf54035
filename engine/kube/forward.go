package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forward is a port of this machine that leads to an engine's, through the API
// server. It is made again when it breaks, on the same port.
type forward struct {
	api    *api
	pod    string
	remote int
	local  int

	cancel context.CancelFunc
	ended  sync.WaitGroup
	broken atomic.Int64
}

// again is how long after a break the way is made again.
const again = 250 * time.Millisecond

// forward opens a way to a pod's port and returns once it listens.
func (a *api) forward(ctx context.Context, pod string, port int) (*forward, error) {
	f := &forward{api: a, pod: pod, remote: port}
	running, cancel := context.WithCancel(quiet(context.WithoutCancel(ctx)))
	f.cancel = cancel
	first := make(chan error, 1)
	err := a.request("create", podResource(), "portforward", pod).Do(ctx, patience, func(ctx context.Context) error {
		f.ended.Go(func() { f.serve(running, first) })
		select {
		case err := <-first:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// serve keeps the way open until ctx ends. first hears whether it was opened at all.
func (f *forward) serve(ctx context.Context, first chan<- error) {
	told := false
	for ctx.Err() == nil {
		err := f.once(ctx, func(port int, err error) {
			if !told {
				told, f.local = true, port
				first <- err
			}
		})
		if !told {
			first <- err
			return
		}
		if ctx.Err() != nil {
			return
		}
		f.broken.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// once opens the way and returns when it has broken, or ctx ends; opened hears the
// port of this machine.
func (f *forward) once(ctx context.Context, opened func(port int, err error)) error {
	dialer, err := f.dialer()
	if err != nil {
		return err
	}
	asked := &dialed{Dialer: dialer}
	ready, result := make(chan struct{}), make(chan error, 1)
	ports := []string{strconv.Itoa(f.local) + ":" + strconv.Itoa(f.remote)}
	pf, err := portforward.NewOnAddressesForStreamingWithContext(ctx, asked, []string{"127.0.0.1"}, ports, ready, io.Discard, io.Discard)
	if err != nil {
		return fmt.Errorf("preparing a port-forward: %w", err)
	}
	go func() { result <- errors.Join(pf.ForwardPorts(), asked.err) }()
	select {
	case <-ready:
		opened(localPort(pf))
	case err := <-result:
		return err
	case <-ctx.Done(): // who dials takes no context, and ends by itself
		return ctx.Err()
	}
	return <-result
}

// dialed keeps the error that the forwarder reduces to a text, and with it whether
// another try could help.
type dialed struct {
	httpstream.Dialer
	err error
}

// Dial implements httpstream.Dialer.
func (d *dialed) Dial(protocols ...string) (httpstream.Connection, string, error) {
	c, protocol, err := d.Dialer.Dial(protocols...)
	d.err = err
	return c, protocol, err
}

func localPort(pf *portforward.PortForwarder) (int, error) {
	ports, err := pf.GetPorts()
	if err != nil || len(ports) == 0 {
		return 0, fmt.Errorf("finding the forwarded port: %w", err)
	}
	return int(ports[0].Local), nil
}

// dialer speaks WebSocket, and SPDY with API servers or proxies that do not, as
// kubectl does.
func (f *forward) dialer() (httpstream.Dialer, error) {
	config := rest.CopyConfig(f.api.config)
	at := f.api.core.RESTClient().Post().Resource("pods").Namespace(f.api.namespace).Name(f.pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing a port-forward: %w", err)
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	recent, err := portforward.NewSPDYOverWebsocketDialerForStreamingWithLogger(logr.Discard(), at, config)
	if err != nil {
		return nil, fmt.Errorf("preparing a port-forward: %w", err)
	}
	return portforward.NewFallbackDialerForStreaming(recent, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

func (f *forward) breaks() int { return int(f.broken.Load()) }

func (f *forward) close() {
	f.cancel()
	f.ended.Wait()
}
