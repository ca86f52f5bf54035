// Package process starts an engine.Spec as a child process, says when it is
// ready or how it died, and stops everything that it started.
//
// It takes a Spec; it gives a Process, whose readiness, end and last log lines
// can be asked for. It refuses a Spec without program, port or log file, a
// program that is not there, and a port that somebody else listens on.
//
// No child outlives the program, however the program ends, unless its Spec is
// Detached. On Linux that holds for kill -9 too: the program runs itself a
// second time as a small supervisor between itself and the engine (see Main),
// which takes down the engine and all its descendants, whatever session they
// moved to, when its pipe from the program closes. Elsewhere the engine is
// merely a process group of its own, which Stop and KillAll end.
//
// Processes that another server starts on the engine's behalf (a container
// engine, a batch system) are nobody's descendants here and are not seen. If
// the supervisor itself is killed with KILL, the engine and its process group
// end, but a descendant that left the group may stay.
package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/redact"
)

const (
	// defaultReadyTimeout is for weights of hundreds of gigabytes on a slow disk.
	defaultReadyTimeout = 10 * time.Minute
	defaultReadyPath    = "/health"
	defaultGrace        = 10 * time.Second
	// killPatience is how long a process may take to go after KILL: one that
	// waits for a driver or a network file system can hang in the kernel.
	killPatience = 10 * time.Second
)

// A child is the running end of a Process: supervised, or directly ours.
type child interface {
	pid() int    // of the engine
	tree() []int // all processes that the engine consists of, where that can be told
	term()       // ask all of them to end
	kill()       // end all of them
	wait() exit  // returns when all are gone, or cannot be made to go
}

// exit is how a child ended.
type exit struct {
	code   int            // exit status; -1 where a signal ended it
	signal syscall.Signal // 0 where it exited by itself
	lost   bool           // the supervisor was killed, so code and signal are not known
	left   []int          // processes that did not go even by KILL
}

// Process is a started engine. Its methods may be called from any goroutine.
type Process struct {
	spec     engine.Spec
	child    child
	logStart int64 // where this process's output begins in the log file
	stopping atomic.Bool
	done     chan struct{}
	err      error // why it ended; written before done closes
	stuck    error // what keeps it from being gone; likewise
}

// Start starts spec and returns as soon as the program runs; ctx bounds only
// that, and its end later does not stop the engine. Whoever gets the Process
// must call Stop.
//
// The program's own environment goes to the engine, then Spec.Env, then
// CUDA_VISIBLE_DEVICES from Spec.GPUs, and HIP_VISIBLE_DEVICES if it is set; where
// the same name occurs twice the later one holds. A zero ReadyPath, ReadyTimeout
// or Grace means /health, ten minutes, ten seconds.
func Start(ctx context.Context, spec engine.Spec) (*Process, error) {
	p, err := start(ctx, withDefaults(spec))
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	return p, nil
}

func start(ctx context.Context, spec engine.Spec) (*Process, error) {
	if err := validate(spec); err != nil {
		return nil, err
	}
	done, ok := live.begin()
	if !ok {
		return nil, ErrEnding
	}
	defer done()
	path, err := lookPath(spec.Argv[0])
	if err != nil {
		return nil, err
	}
	if err := checkPort(ctx, spec.Port); err != nil {
		return nil, err
	}
	if err := writeFiles(spec.Files); err != nil {
		return nil, err
	}
	log, at, err := openLog(spec.LogPath)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	l := launch{Path: path, Argv: spec.Argv, Env: environ(os.Environ(), spec), Name: spec.Name}
	var c child
	if spec.Detached {
		c, err = startDirect(l, log, true)
	} else {
		c, err = startOwned(ctx, l, log)
	}
	if err != nil {
		return nil, err
	}
	p := &Process{spec: spec, child: c, logStart: at, done: make(chan struct{})}
	ends := !spec.Detached && !live.add(p)
	go p.watch()
	if ends {
		p.kill()
		return nil, ErrEnding
	}
	return p, nil
}

func withDefaults(s engine.Spec) engine.Spec {
	s.Argv, s.GPUs, s.Files = slices.Clone(s.Argv), slices.Clone(s.GPUs), slices.Clone(s.Files)
	if s.Name == "" && len(s.Argv) > 0 {
		s.Name = filepath.Base(s.Argv[0])
	}
	if s.ReadyPath == "" {
		s.ReadyPath = defaultReadyPath
	}
	if s.ReadyTimeout == 0 {
		s.ReadyTimeout = defaultReadyTimeout
	}
	if s.Grace == 0 {
		s.Grace = defaultGrace
	}
	return s
}

func validate(s engine.Spec) error {
	switch {
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("the command is empty: give a program and its arguments")
	case s.Port < 1 || s.Port > 65535:
		return fmt.Errorf("port %d: want 1 to 65535", s.Port)
	case s.LogPath == "":
		return errors.New("no log file is given for its output")
	case s.ReadyTimeout < 0 || s.Grace < 0:
		return fmt.Errorf("time-outs cannot be negative: ready %v, grace %v", s.ReadyTimeout, s.Grace)
	case !strings.HasPrefix(s.ReadyPath, "/"):
		return fmt.Errorf("readiness path %q: want a path that begins with /", s.ReadyPath)
	}
	for _, a := range slices.Concat(s.Argv, s.Env) {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("argument or variable %q contains a zero byte", redact.Text(a))
		}
	}
	return nil
}

// lookPath finds program as a shell would.
func lookPath(program string) (string, error) {
	path, err := exec.LookPath(program)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("program %q is not on PATH: install it, or give its full path: %w", program, err)
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("program %q does not exist: check the path: %w", program, err)
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("program %q may not be executed: check its permissions (chmod +x): %w", program, err)
	case err != nil:
		return "", fmt.Errorf("program %q: %w", program, err)
	}
	return filepath.Abs(path)
}

// environ is the engine's environment.
func environ(own []string, s engine.Spec) []string {
	env := slices.Concat(own, s.Env)
	if s.GPUs != nil {
		// Device numbers come from the driver, which counts in PCI order; CUDA by
		// default puts the fastest first, which is another GPU on a mixed machine.
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "CUDA_DEVICE_ORDER=") }) {
			env = append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
		}
		list := strings.Join(s.GPUs, ",")
		env = append(env, "CUDA_VISIBLE_DEVICES="+list)
		// HIP prefers its own variable, and would take the devices that it names.
		if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "HIP_VISIBLE_DEVICES=") }) {
			env = append(env, "HIP_VISIBLE_DEVICES="+list)
		}
	}
	return lastOfEach(env)
}

// lastOfEach keeps the last KEY=value of each key, in order.
func lastOfEach(env []string) []string {
	last := make(map[string]int, len(env))
	for i, kv := range env {
		key, _, _ := strings.Cut(kv, "=")
		last[key] = i
	}
	out := make([]string, 0, len(last))
	for i, kv := range env {
		if key, _, _ := strings.Cut(kv, "="); last[key] == i {
			out = append(out, kv)
		}
	}
	return out
}

// watch writes down how the child ended.
func (p *Process) watch() {
	e := p.child.wait()
	switch {
	case len(e.left) > 0:
		p.stuck = fmt.Errorf("%s: processes %v do not end even by KILL: look at them with ps, they may hang in a driver", p.spec.Name, e.left)
		p.err = p.stuck
	case p.stopping.Load():
	case e.lost:
		p.err = fmt.Errorf("%s: its supervisor was killed, and the engine with it", p.spec.Name)
	default:
		p.err = &ExitError{Name: p.spec.Name, Code: e.code, Signal: e.signal, Log: p.quote()}
	}
	live.remove(p)
	close(p.done)
}

// kill ends the engine without grace.
func (p *Process) kill() {
	select {
	case <-p.done:
		return
	default:
	}
	p.stopping.Store(true)
	p.child.kill()
	<-p.done
}

// Done is closed when the engine and all its descendants are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil while the engine runs and after Stop ended it; an *ExitError when
// it ended by itself, even with status 0; another error when it was lost.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// PID is the engine's process id, not its supervisor's.
func (p *Process) PID() int { return p.child.pid() }

// Name is the Spec's name.
func (p *Process) Name() string { return p.spec.Name }

// Addr is the engine's host:port.
func (p *Process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.spec.Port)) }

// URL is the engine's base URL, without a slash at the end.
func (p *Process) URL() string { return "http://" + p.Addr() }

// LogPath is the file that takes the engine's output.
func (p *Process) LogPath() string { return p.spec.LogPath }

// Stop ends the engine: TERM to its process group, Spec.Grace later KILL to
// everything that is left of it. It returns when all is gone. The end of ctx
// cuts the grace short: a caller that was itself interrupted and wants an
// orderly end passes context.WithoutCancel(ctx). Stop may be called any number
// of times, from any goroutine, also after the engine ended by itself; it
// returns an error only if something could not be ended.
func (p *Process) Stop(ctx context.Context) error {
	select {
	case <-p.done:
		return p.stuck
	default:
	}
	p.stopping.Store(true)
	p.child.term()
	grace := time.NewTimer(p.spec.Grace)
	defer grace.Stop()
	select {
	case <-p.done:
	case <-grace.C:
		p.child.kill()
	case <-ctx.Done():
		p.child.kill()
	}
	<-p.done
	return p.stuck
}
