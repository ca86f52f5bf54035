package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/process"
	"plimsoll/engine/redact"
)

// portTries is how often a start is tried again with another port, which
// somebody may take between the look and the start.
const portTries = 3

// launch is a worker that is about to be started.
type launch struct {
	name string
	pool Pool
	spec engine.Spec
}

// grow makes room for the workers that are missing, as far as there is any, and
// writes them down without a process.
func (r *turn) grow(ctx context.Context) (out []launch, err error) {
	for _, p := range r.opts.Pools {
		base := r.opts.base(p)
		b := r.doc.entries[base]
		if b == nil || b.own.Want == nil {
			continue
		}
		if r.now.Before(b.own.RetryAt) {
			continue
		}
		for range *b.own.Want - len(r.doc.of(base, Starting, Ready)) {
			if err := r.reserve(ctx); err != nil {
				return nil, err
			}
			l, err := r.place(p)
			if errors.Is(err, errNoRoom) {
				break
			}
			if err != nil {
				r.fail(base, time.Time{}, fmt.Sprintf("%s: %v", p.Component, err))
				break
			}
			out = append(out, l)
		}
	}
	return out, nil
}

// errNoRoom says that a worker has to wait for GPUs.
var errNoRoom = errors.New("no GPUs are free")

// place gives a new worker its name, GPUs and port.
func (r *turn) place(p Pool) (launch, error) {
	taken, ports := r.doc.taken()
	gpus, err := process.Assign(r.opts.Devices(), slices.Concat(taken, r.others), p.Config.GPUs())
	if err != nil {
		return launch{}, fmt.Errorf("%w: %w", errNoRoom, err)
	}
	port, err := freePort(ports)
	if err != nil {
		return launch{}, err
	}
	name := r.doc.newName(r.opts.base(p))
	l := launch{name: name, pool: p}
	if l.spec, err = r.spec(l, gpus, port); err != nil {
		return launch{}, err
	}
	e := r.doc.base(name, p.Template.String())
	e.occupy(name, quote(redact.Words(l.spec.Argv)), gpus)
	o := e.own
	e.own = record{
		Role: p.Config.Role, State: Starting, Boot: r.self.Boot, Host: r.host, Port: port, URL: urlOf(port), Log: l.spec.LogPath,
		StartedAt: r.now, Want: o.Want, Failures: o.Failures, RetryAt: o.RetryAt, Failure: o.Failure,
	}
	return l, nil
}

func (t *Target) spec(l launch, gpus []string, port int) (engine.Spec, error) {
	at := engine.Launch{Port: port, GPUs: gpus, LogPath: filepath.Join(t.opts.LogDir, l.name+".log"), Name: l.name}
	if t.opts.Slots > 0 {
		at.GPUs = nil
	}
	s, err := l.pool.Template.Spec(l.pool.Config, at)
	s.Name, s.Detached = l.name, true
	m := mark{File: t.fileID(), Name: l.name, Role: l.pool.Config.Role, Port: port, Log: s.LogPath, GPUs: gpus}
	s.Env = append(s.Env, m.environ()...)
	return s, err
}

// freePort is a port that nobody listens on and that no worker was given.
func freePort(given map[int]bool) (int, error) {
	for {
		port, err := process.FreePort()
		if err != nil || !given[port] {
			return port, err
		}
	}
}

func urlOf(port int) string { return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// launch starts what was placed, and writes down which processes they are.
func (r *turn) launch(ctx context.Context, ls []launch) {
	for _, l := range ls {
		e := r.doc.entries[l.name]
		p, h, err := r.start(ctx, l, e)
		if err != nil {
			r.doc.remove(l.name)
			r.fail(l.name, time.Time{}, err.Error())
			continue
		}
		e.own.PID, e.own.Start, e.own.Boot = h.PID, h.Start, h.Boot
		r.started[l.name] = p
		r.note("%s: process %d on %s, GPUs %s, log %s", l.name, h.PID, e.own.URL, strings.Join(e.gpus, ","), e.own.Log)
	}
}

// start runs the program; on another port where somebody was faster.
func (r *turn) start(ctx context.Context, l launch, e *entry) (p *process.Process, h process.Handle, err error) {
	for range portTries {
		if p, err = process.Start(ctx, l.spec); !errors.Is(err, process.ErrPortInUse) {
			break
		}
		_, ports := r.doc.taken()
		port, err := freePort(ports)
		if err != nil {
			return nil, h, err
		}
		if l.spec, err = r.spec(l, e.gpus, port); err != nil {
			return nil, h, err
		}
		e.own.Port, e.own.URL = port, urlOf(port)
		e.occupy(l.name, quote(redact.Words(l.spec.Argv)), e.gpus)
	}
	if err != nil {
		return nil, h, err
	}
	if h, err = process.HandleOf(p.PID()); err != nil { // it is gone already
		<-p.Done()
		return nil, h, p.Err()
	}
	return p, h, nil
}

// quote writes words as a shell would take them.
func quote(argv []string) string {
	out := make([]string, len(argv))
	for i, w := range argv {
		if out[i] = w; w == "" || strings.ContainsAny(w, " \t\n'\"\\$`|&;<>()*?[]{}~#!") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
