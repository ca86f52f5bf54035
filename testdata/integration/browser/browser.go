// Package browser drives a headless Chromium over a pipe, as a user with a mouse
// and a keyboard would, and notes all that it complains of and asks for.
package browser

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Program is Debian's.
const Program = "/usr/bin/chromium"

// patience is how long an answer may take on a machine that is busy.
const patience = time.Minute

// Browser is one Chromium with one page.
type Browser struct {
	t       testing.TB
	in      io.Writer
	session string

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	events  map[string]chan struct{} // Page.loadEventFired, once each
	notes   Notes
}

// Notes are what a page said and asked for.
type Notes struct {
	Complaints []string // errors, warnings and other lines of the console
	Requests   []string // URLs
}

// message is one of the DevTools protocol's, either way.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts a browser that ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(Program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe")
	c.ExtraFiles = []*os.File{theirIn, theirOut} // its 3 and 4
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatalf("%v: want Debian's chromium", err)
	}
	_, _ = theirIn.Close(), theirOut.Close() // the child has its own
	b := &Browser{t: t, in: in, waiting: map[int]chan message{}, events: map[string]chan struct{}{}}
	go b.read(out)
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = c.Wait()                                      // killed
		_, _ = in.Close(), out.Close()
	})
	var target struct {
		ID string `json:"targetId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	b.session = attached.Session
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// read hands answers to whoever waits for them, and notes events.
func (b *Browser) read(r io.Reader) {
	var rest []byte
	buffer := make([]byte, 1<<16)
	for {
		n, err := r.Read(buffer)
		rest = append(rest, buffer[:n]...)
		for {
			end := bytes.IndexByte(rest, 0)
			if end < 0 {
				break
			}
			var m message
			if json.Unmarshal(rest[:end], &m) == nil {
				b.take(m)
			}
			rest = rest[end+1:]
		}
		if err != nil {
			return
		}
	}
}

func (b *Browser) take(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.ID != 0 {
		if c := b.waiting[m.ID]; c != nil {
			delete(b.waiting, m.ID)
			c <- m
		}
		return
	}
	switch m.Method {
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		b.notes.Complaints = append(b.notes.Complaints, string(m.Params))
	case "Network.requestWillBeSent":
		var p struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			b.notes.Requests = append(b.notes.Requests, p.Request.URL)
		}
	}
	if c := b.events[m.Method]; c != nil {
		delete(b.events, m.Method)
		close(c)
	}
}

// call asks the browser, or its page once there is one.
func (b *Browser) call(method string, params, result any) {
	b.t.Helper()
	if err := b.ask(method, params, result); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

func (b *Browser) ask(method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.last++
	m := message{ID: b.last, Session: b.session, Method: method}
	if params != nil {
		m.Params = raw
	}
	b.waiting[m.ID] = answer
	b.mu.Unlock()
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(line, 0)); err != nil {
		return err
	}
	select {
	case got := <-answer:
		if got.Error != nil {
			return errors.New(got.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(got.Result, result)
	case <-time.After(patience):
		return fmt.Errorf("no answer in %v", patience)
	}
}

// Open shows a file of this machine, and waits until it is loaded.
func (b *Browser) Open(path string) {
	b.t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		b.t.Fatal(err)
	}
	loaded := make(chan struct{})
	b.mu.Lock()
	b.events["Page.loadEventFired"] = loaded
	b.notes = Notes{}
	b.mu.Unlock()
	b.call("Page.navigate", map[string]any{"url": "file://" + absolute}, nil)
	select {
	case <-loaded:
	case <-time.After(patience):
		b.t.Fatalf("%s is not loaded in %v", path, patience)
	}
}

// Noted is what the page said and asked for since it was opened.
func (b *Browser) Noted() Notes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.notes
}
