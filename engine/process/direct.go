package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// launch is what is executed.
type launch struct {
	Name string // for the supervisor's title
	Path string
	Argv []string
	Env  []string
}

// direct is a child without a supervisor: a process group, or a session where
// it is detached.
type direct struct {
	cmd      *exec.Cmd
	detached bool
	stopping atomic.Bool
	killed   atomic.Bool
}

func startDirect(l launch, log *os.File, detached bool) (child, error) {
	// The child's life is Stop's business and no context's.
	cmd := exec.CommandContext(context.Background(), l.Path)
	cmd.Args, cmd.Env = l.Argv, l.Env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: detached, Setpgid: !detached}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("executing %s: %w", l.Path, err)
	}
	return &direct{cmd: cmd, detached: detached}, nil
}

func (d *direct) pid() int    { return d.cmd.Process.Pid }
func (d *direct) tree() []int { return append(descendants(d.pid()), d.pid()) }

func (d *direct) term() {
	if !d.stopping.Swap(true) {
		_ = d.signal(syscall.SIGTERM) // it may be gone already
	}
}

func (d *direct) kill() {
	d.killed.Store(true)
	_ = d.signal(syscall.SIGKILL) // it may be gone already
}

// signal reaches every process of the group; its id is the leader's.
func (d *direct) signal(s syscall.Signal) error { return syscall.Kill(-d.pid(), s) }

func (d *direct) wait() exit {
	_ = d.cmd.Wait() // how it ended is in ProcessState
	e := exit{code: d.cmd.ProcessState.ExitCode()}
	if ws, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.signal = ws.Signal()
	}
	if d.detached && !d.stopping.Load() && !d.killed.Load() {
		return e // who has its Handle says what becomes of the rest
	}
	// What the leader left behind: in its grace if it was asked to end, otherwise no use any more.
	var since time.Time
	for groupAlive(d.pid()) {
		if d.killed.Load() || !d.stopping.Load() {
			if since.IsZero() {
				since = time.Now()
			}
			_ = d.signal(syscall.SIGKILL) // it may have gone since
			if time.Since(since) > killPatience {
				e.left = []int{d.pid()}
				return e
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return e
}
