package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// firstBackoff is how long the second restart waits; the first does not. It
// doubles each time (kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle,
// read 2026-11).
const firstBackoff = 10 * time.Second

// container is one of a pod's, over all its restarts.
type container struct {
	pod  *pod
	spec *corev1.Container

	status corev1.ContainerStatus // guarded by pod.mu
}

func newContainer(p *pod, spec *corev1.Container) *container {
	started := false
	return &container{pod: p, spec: spec, status: corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, Started: &started,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}}
}

// set changes the status, which is then written.
func (c *container) set(change func(*corev1.ContainerStatus)) {
	c.pod.mu.Lock()
	change(&c.status)
	c.pod.mu.Unlock()
	c.pod.change()
}

// run runs the container until it ends for good.
func (c *container) run() {
	if !c.sleep(c.pod.k.options.Startup) || !c.pull() {
		return
	}
	for backoff := time.Duration(0); ; backoff = max(firstBackoff, 2*backoff) {
		process, err := c.prepare(c.pod.stopping)
		if err != nil {
			c.wait("CreateContainerConfigError", err.Error())
			<-c.pod.stopping.Done()
			return
		}
		ended := c.once(process)
		c.set(func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Terminated: ended}
			s.Ready, s.Started = false, new(bool)
		})
		policy := c.pod.object.Spec.RestartPolicy
		if c.pod.stopping.Err() != nil || policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && ended.ExitCode == 0 {
			return
		}
		if backoff > 0 {
			c.wait("CrashLoopBackOff", fmt.Sprintf("back-off %v restarting failed container=%s pod=%s", backoff, c.spec.Name, c.pod.object.Name))
		}
		if !c.sleep(backoff) {
			return
		}
		c.set(func(s *corev1.ContainerStatus) { s.RestartCount++ })
	}
}

// pull reports whether there is the image; it returns false when the pod ends first.
func (c *container) pull() bool {
	if _, known := c.pod.k.options.Images[c.spec.Image]; known {
		return true
	}
	c.wait("ErrImagePull", fmt.Sprintf("failed to pull and unpack image %q: not found", c.spec.Image))
	if c.sleep(time.Second) {
		c.wait("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q", c.spec.Image))
		<-c.pod.stopping.Done()
	}
	return false
}

func (c *container) wait(reason, message string) {
	c.set(func(s *corev1.ContainerStatus) {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

// sleep reports whether the pod still runs afterwards.
func (c *container) sleep(d time.Duration) bool {
	select {
	case <-c.pod.stopping.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// once runs the process to its end, and says how it ended.
func (c *container) once(process *exec.Cmd) *corev1.ContainerStateTerminated {
	began := metav1.Now()
	terminated := func(code int32, reason, message string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message, StartedAt: began, FinishedAt: metav1.Now()}
	}
	log, err := c.openLog()
	if err != nil {
		return terminated(128, "StartError", err.Error())
	}
	defer func() { _ = log.Close() }()
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil { // as containerd words it
		return terminated(128, "StartError", fmt.Sprintf("failed to create containerd task: failed to start container process: exec: %v", err))
	}
	c.set(func(s *corev1.ContainerStatus) {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}
	})
	exited := make(chan error, 1)
	go func() { exited <- process.Wait() }()
	outOfMemory, err := c.supervise(process.Process.Pid, exited)
	signalGroup(process.Process.Pid, syscall.SIGKILL) // what it started
	code := exitCode(err)
	switch {
	case outOfMemory:
		return terminated(code, "OOMKilled", c.lastWords(code))
	case code != 0:
		return terminated(code, "Error", c.lastWords(code))
	default:
		return terminated(0, "Completed", "")
	}
}

// supervise stops the process with its pod, when it takes too much memory, and
// when a probe says so.
func (c *container) supervise(pid int, exited <-chan error) (outOfMemory bool, err error) {
	ctx, cancel := context.WithCancel(c.pod.k.ctx)
	defer cancel()
	var oom atomic.Bool
	unhealthy := make(chan struct{}, 1)
	go c.limitMemory(ctx, pid, func() {
		oom.Store(true)
		signalGroup(pid, syscall.SIGKILL)
	})
	go c.probes(ctx, func() { unhealthy <- struct{}{} })
	select {
	case err = <-exited:
		return oom.Load(), err
	case <-c.pod.stopping.Done():
	case <-unhealthy:
	}
	signalGroup(pid, syscall.SIGTERM)
	grace := 30 * time.Second
	if s := c.pod.object.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	select {
	case err = <-exited:
		return false, err
	case <-c.pod.killing.Done():
	case <-time.After(grace):
	}
	signalGroup(pid, syscall.SIGKILL)
	return false, <-exited
}

// exitCode is as a shell has it: 128 and the signal's number.
func exitCode(err error) int32 {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal()) //nolint:gosec // small
	}
	return int32(exit.ExitCode()) //nolint:gosec // a byte
}

func signalGroup(pid int, s syscall.Signal) {
	_ = syscall.Kill(-pid, s) // it may have ended
}

// logPath is where the nth run of the container writes.
func (c *container) logPath(n int32) string {
	return filepath.Join(c.pod.dir, fmt.Sprintf("%s-%d.log", c.spec.Name, n))
}

func (c *container) openLog() (*os.File, error) {
	if err := os.MkdirAll(c.pod.dir, 0o700); err != nil {
		return nil, err
	}
	return os.Create(c.logPath(c.restarts()))
}

func (c *container) restarts() int32 {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	return c.status.RestartCount
}

// lastWords are the end of the log, where the container asks for them in its
// status: 2048 bytes or 80 lines (TerminationMessageFallbackToLogsOnError).
func (c *container) lastWords(code int32) string {
	if c.spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError || code == 0 {
		return ""
	}
	data, err := os.ReadFile(c.logPath(c.restarts()))
	if err != nil {
		return err.Error()
	}
	data = data[max(0, len(data)-2048):]
	lines := strings.SplitAfter(string(data), "\n")
	return strings.Join(lines[max(0, len(lines)-80):], "")
}
