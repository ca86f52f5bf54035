package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probes runs the container's probes until ctx ends; a container without one is
// ready as soon as it runs. unhealthy is called once at most.
func (c *container) probes(ctx context.Context, unhealthy func()) {
	started := func() {
		c.set(func(s *corev1.ContainerStatus) { s.Started = new(s.State.Running != nil) })
		if c.spec.LivenessProbe != nil {
			go c.every(ctx, c.spec.LivenessProbe, func(ok bool) bool {
				if !ok {
					unhealthy()
				}
				return ok
			})
		}
		if c.spec.ReadinessProbe == nil {
			c.set(func(s *corev1.ContainerStatus) { s.Ready = s.State.Running != nil })
			return
		}
		c.every(ctx, c.spec.ReadinessProbe, func(ok bool) bool {
			c.set(func(s *corev1.ContainerStatus) { s.Ready = ok && s.State.Running != nil })
			return true
		})
	}
	if c.spec.StartupProbe == nil {
		started()
		return
	}
	healthy := false
	c.every(ctx, c.spec.StartupProbe, func(ok bool) bool {
		healthy = ok
		return false
	})
	switch {
	case ctx.Err() != nil:
	case healthy:
		started()
	default:
		unhealthy()
	}
}

// every runs a probe at its period. turn hears when it begins to succeed, or to
// fail, for as many times as its thresholds say; after false there are no more.
func (c *container) every(ctx context.Context, p *corev1.Probe, turn func(ok bool) bool) {
	wait := time.Duration(p.InitialDelaySeconds) * time.Second
	for last, run := false, int32(0); ; wait = time.Duration(p.PeriodSeconds) * time.Second {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		ok := c.probe(ctx, p) == nil
		if ctx.Err() != nil {
			return
		}
		if ok != last {
			last, run = ok, 0
		}
		run++
		threshold := p.FailureThreshold
		if ok {
			threshold = p.SuccessThreshold
		}
		if run == threshold && !turn(ok) {
			return
		}
	}
}

// probe asks once.
func (c *container) probe(ctx context.Context, p *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.TimeoutSeconds)*time.Second)
	defer cancel()
	if p.TCPSocket != nil {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", c.address(p.TCPSocket.Port))
		if err != nil {
			return err
		}
		return conn.Close()
	}
	get := p.HTTPGet
	scheme := strings.ToLower(string(get.Scheme))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+c.address(get.Port)+get.Path, nil)
	if err != nil {
		return err
	}
	// A kubelet keeps no connections, and takes any certificate.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as above
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("probe failed with statuscode: %d", response.StatusCode)
	}
	return nil
}

// address is where a port of the container, which may be a name, listens.
func (c *container) address(port intstr.IntOrString) string {
	number := port.IntVal
	for _, p := range c.spec.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal {
			number = p.ContainerPort
		}
	}
	return net.JoinHostPort(c.pod.ip, strconv.Itoa(int(number)))
}

// limitMemory calls exceeded once when the process holds more memory than the
// container may.
func (c *container) limitMemory(ctx context.Context, pid int, exceeded func()) {
	limit := c.spec.Resources.Limits.Memory().Value()
	if limit == 0 {
		return
	}
	for resident(pid) <= limit {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	exceeded()
}

// resident is a process's resident memory, bytes; 0 where it has ended.
func resident(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data) // pages: size, resident, …
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
