package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// handler serves what the API server asks of a kubelet.
func (k *Kubelet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		p := k.pod(r.PathValue("namespace"), r.PathValue("pod"))
		if p == nil {
			http.Error(w, "pod does not exist", http.StatusNotFound)
			return
		}
		// A kubelet's own limits.
		portforward.ServePortForward(w, r, p, p.object.Name, string(p.object.UID), nil, 4*time.Hour, 30*time.Second, portforward.SupportedProtocols)
	})
	return mux
}

// PortForward carries one connection, as containerd does.
func (p *pod) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer func() { _ = stream.Close() }()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(p.ip, strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("failed to connect to localhost:%d inside namespace: %w", port, err)
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.Copy(conn, stream) // the other direction's end is the connection's
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}

func (k *Kubelet) logs(w http.ResponseWriter, r *http.Request) {
	p := k.pod(r.PathValue("namespace"), r.PathValue("pod"))
	if p == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	for _, c := range p.containers {
		if c.spec.Name == r.PathValue("container") {
			c.serveLog(w, r)
			return
		}
	}
	http.Error(w, "container does not exist", http.StatusNotFound)
}

func (c *container) serveLog(w http.ResponseWriter, r *http.Request) {
	run := c.restarts()
	if r.FormValue("previous") == "true" {
		run--
	}
	if r.FormValue("timestamps") == "true" || r.FormValue("sinceTime") != "" || r.FormValue("sinceSeconds") != "" {
		http.Error(w, "the test's kubelet keeps no times", http.StatusNotImplemented)
		return
	}
	file, err := os.Open(c.logPath(run))
	if err != nil {
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start: %v", c.spec.Name, c.pod.object.Name, c.waits()), http.StatusBadRequest)
		return
	}
	defer func() { _ = file.Close() }()
	if err := c.send(w, r, file, run); err != nil && r.Context().Err() == nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// send copies the log, or its last lines, and goes on as it grows where it is followed.
func (c *container) send(w http.ResponseWriter, r *http.Request, file *os.File, run int32) error {
	out := io.Writer(w)
	if n, err := strconv.ParseInt(r.FormValue("limitBytes"), 10, 64); err == nil {
		out = &limited{w, n}
	}
	if n, err := strconv.Atoi(r.FormValue("tailLines")); err == nil {
		if err := seekLines(file, n); err != nil {
			return err
		}
	}
	for {
		going := r.FormValue("follow") == "true" && c.runs(run) // before the copy, which then has the last of it
		if _, err := io.Copy(out, file); err != nil || !going {
			return err
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return nil
		case <-c.pod.k.ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// limited drops what is beyond its bytes.
type limited struct {
	to   io.Writer
	left int64
}

func (l *limited) Write(data []byte) (int, error) {
	n, err := l.to.Write(data[:min(l.left, int64(len(data)))])
	l.left -= int64(n)
	return len(data), err
}

// seekLines goes to where the last n lines begin.
func seekLines(file *os.File, n int) error {
	data, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	begin := len(bytes.TrimSuffix(data, []byte("\n")))
	for ; n > 0 && begin > 0; n-- {
		begin = bytes.LastIndexByte(data[:begin], '\n')
	}
	_, err = file.Seek(int64(begin+1), io.SeekStart)
	return err
}

func (c *container) runs(run int32) bool {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	return c.status.State.Running != nil && c.status.RestartCount == run
}

func (c *container) waits() string {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	if s := c.status.State.Waiting; s != nil {
		return s.Reason
	}
	return "no log"
}
