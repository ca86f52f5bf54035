package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll/engine"
	"plimsoll/engine/kube/cluster"
	"plimsoll/engine/redact"
)

// Engine is one that was started on the cluster. Its methods may be called from
// any goroutine.
type Engine struct {
	run     *Run
	spec    engine.Spec
	name    string                        // of its objects
	service string                        // the Service's name; empty: the template has none
	kinds   []schema.GroupVersionResource // of its objects

	watcher *watcher
	pod     string // that serves
	uid     types.UID
	way     *forward // nil: by the Service
	url     string

	once sync.Once
	done chan struct{}
	err  error // why it ended; written before done closes
}

// URL is where it is reached from here, without a slash at its end.
func (e *Engine) URL() string { return e.url }

// Pod is the name of the pod that serves.
func (e *Engine) Pod() string { return e.pod }

// Done closes when the engine has ended, by itself or by Stop.
func (e *Engine) Done() <-chan struct{} { return e.done }

// Err is why the engine ended by itself: a crash, an eviction, its pod deleted by
// somebody. It is nil while it runs and where it was stopped.
func (e *Engine) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

// LogPath is where the engine's log is kept when it ends; empty: nowhere.
func (e *Engine) LogPath() string { return e.spec.LogPath }

// Breaks is how often the way to the engine broke and was made again. Requests
// that were on it failed, and not by the engine.
func (e *Engine) Breaks() int {
	if e.way == nil {
		return 0
	}
	return e.way.breaks()
}

func (e *Engine) selector() string {
	return labelRun + "=" + e.run.id + "," + labelEngine + "=" + e.name
}

func (e *Engine) end(err error) {
	e.once.Do(func() {
		e.err = err
		close(e.done)
	})
}

// watch ends the engine when its pod does, or when it is stopped.
func (e *Engine) watch() {
	for {
		select {
		case <-e.done:
			return
		case <-e.watcher.changed:
		}
		if err := e.alive(); err != nil {
			ctx := context.Background() // an end is worth its log, whoever waits
			err.Tail = e.tail(ctx, e.pod)
			e.saveLog(ctx)
			e.end(err)
			return
		}
	}
}

// alive is nil while the pod serves; that it is busy for a while is no end.
func (e *Engine) alive() *PodError {
	var mine *corev1.Pod
	for _, p := range e.watcher.pods() {
		if p.UID == e.uid {
			mine = p
		}
	}
	end := &PodError{Engine: e.spec.Name, Pod: e.pod}
	switch {
	case mine == nil:
		end.Reason = "its pod was deleted"
		return end
	case cluster.Stops(mine):
		end.Reason = "its pod is being deleted: it was preempted, evicted, or somebody deleted it"
		for _, c := range mine.Status.Conditions {
			if c.Type == corev1.DisruptionTarget {
				end.Reason, end.Message = c.Reason, c.Message
			}
		}
		return end
	}
	if s := judge(mine); s.end != nil {
		s.end.Engine = e.spec.Name
		return s.end
	}
	return nil
}

// Stop deletes the engine and returns once its pods are gone, and with them their
// hold on GPUs. Its log is kept before, at Spec.LogPath.
func (e *Engine) Stop(ctx context.Context) error {
	if e.pod != "" && e.Err() == nil {
		e.saveLog(ctx)
	}
	e.end(nil)
	if e.way != nil {
		e.way.close()
	}
	if e.watcher != nil {
		e.watcher.stop()
	}
	_, err := e.run.sweep(ctx, e.selector(), withMade(e.kinds))
	if err == nil {
		err = e.run.gone(ctx, e.selector(), grace(e.spec))
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", e.spec.Name, err)
	}
	return nil
}

// Log is what the engine has written so far; the caller closes it.
func (e *Engine) Log() (r io.ReadCloser, err error) {
	err = e.run.request("get", podResource(), "log", e.pod).Do(context.Background(), requestTimeout, func(ctx context.Context) error {
		r, err = e.run.core.Pods(e.run.namespace).GetLogs(e.pod, &corev1.PodLogOptions{Container: container}).Stream(ctx)
		return err
	})
	return r, err
}

const (
	tailLines = 12
	tailBytes = 16 << 10
	lineRunes = 400
	// mostLog is how much of a log is kept, in bytes.
	mostLog = 256 << 20
)

// tail are the last lines of a pod's engine: of the one that crashed, where it was
// started again. A log that cannot be read has none.
func (e *Engine) tail(ctx context.Context, pod string) []string {
	lines := int64(tailLines)
	for _, previous := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		r, err := e.run.core.Pods(e.run.namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, TailLines: &lines, Previous: previous}).Stream(ctx)
		if err != nil {
			cancel()
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(r, tailBytes)) // what came, came
		_ = r.Close()
		cancel()
		if found := lastLines(e.secrets().Clean(string(text))); len(found) > 0 {
			return found
		}
	}
	return nil
}

func lastLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(strings.ToValidUTF8(line, "?")); line != "" {
			lines = append(lines, fmt.Sprintf("%.*s", lineRunes, line))
		}
	}
	return lines[max(0, len(lines)-tailLines):]
}

// saveLog keeps the log as a file, as far as it can be had: it is for people who
// look for why an engine failed.
func (e *Engine) saveLog(ctx context.Context) {
	pod := e.pod
	if pod == "" && e.watcher != nil {
		if p := serving(e.watcher.pods()); p != nil {
			pod = p.Name
		}
	}
	if pod == "" || e.spec.LogPath == "" {
		return
	}
	if err := e.copyLog(ctx, pod); err != nil {
		e.run.o.Note("the log of %s was not kept: %v", e.spec.Name, err)
	}
}

func (e *Engine) copyLog(ctx context.Context, pod string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := e.run.core.Pods(e.run.namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if err := os.MkdirAll(filepath.Dir(e.spec.LogPath), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(e.spec.LogPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(e.copyClean(f, io.LimitReader(r, mostLog)), f.Close())
}

// copyClean copies a log line by line, without credentials.
func (e *Engine) copyClean(w io.Writer, r io.Reader) error {
	known := e.secrets()
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		if _, werr := io.WriteString(w, known.Clean(line)); werr != nil {
			return werr
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// secrets are the credentials that the engine was started with.
func (e *Engine) secrets() redact.Values {
	var env []string
	for _, kv := range e.run.o.Env {
		env = append(env, kv.Name+"="+kv.Value)
	}
	return redact.Told(e.spec.Argv, e.spec.Env, env)
}
