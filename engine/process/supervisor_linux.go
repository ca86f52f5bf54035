package process

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hooked is set once, by Main, so that Start can refuse a program that lacks it:
// executed as a supervisor, such a program would run itself all over again.
var hooked atomic.Bool

// Main is to be the first call in main, and in TestMain of tests that start
// processes. In the program itself it returns at once. In a supervisor, which is
// the program executed by Start under another name, it does the supervisor's
// work and exits.
func Main() {
	if len(os.Args) > 0 && os.Args[0] == supervisorTitle {
		status := 0
		if err := supervise(); err != nil {
			fmt.Fprintln(os.Stderr, supervisorTitle+": "+err.Error()) //nolint:forbidigo // its stderr is the engine's log
			status = 1
		}
		os.Exit(status) //nolint:forbidigo // the supervisor is a program of its own, and this is its main
	}
	hooked.Store(true)
}

// supervise starts one engine as ordered on ordersFD and returns when it and all
// its descendants are gone.
func supervise() error {
	// The engine's parent-death signal is tied to the thread that forks it, so
	// that thread must live as long as this function, which does the forking.
	runtime.LockOSThread()
	// Nothing that the program itself inherited reaches the engine either.
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11
		unix.CloseOnExec(ordersFD)
		unix.CloseOnExec(reportsFD)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the sub-reaper: %w", err)
	}
	// Caught, not ignored: ignoring would be inherited by the engine.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)

	orders := bufio.NewReader(os.NewFile(ordersFD, "orders"))
	reports := gob.NewEncoder(os.NewFile(reportsFD, "reports"))
	var l launch
	if err := gob.NewDecoder(orders).Decode(&l); err != nil {
		return fmt.Errorf("reading what to launch: %w", err)
	}
	pid, err := forkEngine(l)
	if err != nil {
		r := report{Failed: err.Error()}
		_ = errors.As(err, &r.Errno) // not every error has a number
		return reports.Encode(r)
	}
	_ = reports.Encode(report{PID: pid}) // a program that is gone shows on orders
	s := supervisor{engine: pid, reports: reports}
	s.run(readOrders(orders), reap(), signals)
	return nil
}

// forkEngine executes l in a process group of its own.
func forkEngine(l launch) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	return syscall.ForkExec(l.Path, l.Argv, &syscall.ProcAttr{
		Env:   l.Env,
		Files: []uintptr{null.Fd(), 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
}

// readOrders gives the program's orders; the channel closes when the program is gone.
func readOrders(r io.ByteReader) <-chan byte {
	out := make(chan byte)
	go func() {
		defer close(out)
		for {
			b, err := r.ReadByte()
			if err != nil {
				return
			}
			out <- b
		}
	}()
	return out
}

// death is one reaped child; the zero death says that there is no child left.
type death struct {
	pid    int
	status syscall.WaitStatus
}

// reap waits for all children, orphans of the engine among them. As every
// descendant hangs on a child of ours, no child means no descendant.
func reap() <-chan death {
	out := make(chan death)
	go func() {
		for {
			var d death
			pid, err := syscall.Wait4(-1, &d.status, 0, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				out <- death{}
				return
			}
			d.pid = pid
			out <- d
		}
	}()
	return out
}

// supervisor is the state of supervise's loop; one goroutine owns it.
type supervisor struct {
	engine   int
	reports  *gob.Encoder
	dead     bool      // the engine itself was reaped
	stopping bool      // it was asked to end
	killing  time.Time // when KILL was first sent; zero before
}

func (s *supervisor) run(orders <-chan byte, deaths <-chan death, signals <-chan os.Signal) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	again.Stop() // runs only while killing
	for {
		select {
		case o, ok := <-orders:
			if ok && o == orderTerm {
				s.term()
				break
			}
			if !ok {
				orders = nil
			}
			s.kill()
		case <-signals:
			s.kill()
		case d := <-deaths:
			if d.pid == 0 {
				return
			}
			s.buried(d)
		case <-again.C:
			if time.Since(s.killing) > killPatience {
				_ = s.reports.Encode(report{Left: descendants(os.Getpid())}) // nobody else to tell
				return
			}
			s.kill()
		}
		if !s.killing.IsZero() {
			again.Reset(20 * time.Millisecond)
		}
	}
}

// buried takes note of a death. What is left of an engine that died unasked is
// ended at once; of one that was asked, it has the rest of the grace.
func (s *supervisor) buried(d death) {
	if d.pid != s.engine {
		return
	}
	s.dead = true
	r := report{Exited: true, Code: d.status.ExitStatus()}
	if d.status.Signaled() {
		r.Signal = d.status.Signal()
	}
	_ = s.reports.Encode(r) // a program that is gone shows on orders
	if s.stopping {
		s.term()
	} else {
		s.kill()
	}
}

// term asks the engine's process group to end, or what is left of the engine
// where its leader is gone.
func (s *supervisor) term() {
	s.stopping = true
	if !s.dead {
		_ = syscall.Kill(-s.engine, syscall.SIGTERM) // it may be a zombie already
		return
	}
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGTERM) // likewise
	}
}

// kill ends all descendants that there are now; new ones may have been forked
// meanwhile, so it is repeated until there are none.
func (s *supervisor) kill() {
	if s.killing.IsZero() {
		s.killing = time.Now()
	}
	if !s.dead {
		_ = syscall.Kill(-s.engine, syscall.SIGKILL) // it may be a zombie already
	}
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // likewise
	}
}
