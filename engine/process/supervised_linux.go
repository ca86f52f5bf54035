package process

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// The program's side of supervision.
//
//	program ── orders (pipe) ──▶ supervisor ──▶ engine ──▶ its own children
//	        ◀── reports (pipe) ──
//
// The supervisor is this same executable under another argv[0]. It is a process
// between the two because only a process can outlive a kill -9 of the program
// for the moment that cleaning up takes, and because a child sub-reaper inherits
// every orphan of the engine's tree, whatever session or group it moved to.

const (
	// supervisorTitle is argv[0] of the supervisor. It does not contain the
	// program's name, so that killing the program by name leaves it its work.
	supervisorTitle = "engine-supervisor"
	ordersFD        = 3
	reportsFD       = 4
	// superviseWithin is how long the supervisor may take to start the engine on a busy machine.
	superviseWithin = 30 * time.Second

	orderTerm = 't'
	orderKill = 'k'
)

// report is what the supervisor tells; the first one has PID or Failed.
type report struct {
	PID    int           // the engine runs
	Failed string        // it does not, and why
	Errno  syscall.Errno // the system's word for it, 0 where there is none
	Exited bool          // the engine ended
	Code   int
	Signal syscall.Signal
	Left   []int // what could not be ended
}

// supervised is a child behind a supervisor.
type supervised struct {
	cmd     *exec.Cmd
	orders  *os.File
	reports *os.File
	decoder *gob.Decoder
	engine  int
	asked   atomic.Bool // orderTerm was given
}

func startOwned(ctx context.Context, l launch, log *os.File) (child, error) {
	if !hooked.Load() {
		return nil, errors.New("process.Main was not called: it must be the first thing that main (or TestMain) does")
	}
	s, err := startSupervisor(l, log)
	if err != nil {
		return nil, fmt.Errorf("starting its supervisor: %w", err)
	}
	interrupt := context.AfterFunc(ctx, func() { _ = s.reports.SetReadDeadline(time.Now()) })
	first, err := s.hello(l)
	if !interrupt() {
		err = ctx.Err()
	}
	if err == nil && first.Failed == "" {
		s.engine = first.PID
		return s, s.reports.SetReadDeadline(time.Time{})
	}
	s.abandon()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("its supervisor does not answer: %w", err)
	case first.Errno != 0:
		return nil, fmt.Errorf("executing %s: %w", l.Path, first.Errno)
	default:
		return nil, fmt.Errorf("executing %s: %s", l.Path, first.Failed)
	}
}

func startSupervisor(l launch, log *os.File) (*supervised, error) {
	ordersRead, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = ordersRead.Close() }() // the supervisor has its own copy
	reports, reportsWrite, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return nil, err
	}
	defer func() { _ = reportsWrite.Close() }() // likewise
	// Not os.Executable: the file may have been replaced since, and this link still leads to it.
	// No context ends it: its pipe does.
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	cmd.Args = []string{supervisorTitle, l.Name}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{ordersFD - 3: ordersRead, reportsFD - 3: reportsWrite}
	// A session of its own has no terminal, so neither Ctrl-C nor a hang-up reaches it or the engine.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = orders.Close()
		_ = reports.Close()
		return nil, err
	}
	return &supervised{cmd: cmd, orders: orders, reports: reports, decoder: gob.NewDecoder(reports)}, nil
}

// hello says what to launch and reads whether that worked.
func (s *supervised) hello(l launch) (report, error) {
	until := time.Now().Add(superviseWithin)
	if err := errors.Join(s.orders.SetWriteDeadline(until), s.reports.SetReadDeadline(until)); err != nil {
		return report{}, err
	}
	if err := gob.NewEncoder(s.orders).Encode(l); err != nil {
		return report{}, err
	}
	var r report
	err := s.decoder.Decode(&r)
	return r, err
}

// abandon lets go of a supervisor whose engine did not start, or started too late.
func (s *supervised) abandon() {
	_ = s.orders.Close() // it takes the engine, if there is one, down with it
	defer s.giveUpLater().Stop()
	_ = s.cmd.Wait()
	_ = s.reports.Close()
}

// giveUpLater kills a supervisor that does not get its work done, because
// somebody stopped it with STOP for example.
func (s *supervised) giveUpLater() *time.Timer {
	return time.AfterFunc(2*killPatience, func() { _ = s.cmd.Process.Kill() })
}

func (s *supervised) pid() int    { return s.engine }
func (s *supervised) tree() []int { return descendants(s.cmd.Process.Pid) }

func (s *supervised) term() {
	if !s.asked.Swap(true) {
		s.order(orderTerm)
	}
}

func (s *supervised) kill() {
	s.order(orderKill)
	s.giveUpLater()
}

// order fails only when the supervisor is gone, and then there is nobody to order.
func (s *supervised) order(o byte) {
	_ = s.orders.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = s.orders.Write([]byte{o})
}

// wait reads reports until the supervisor closes its end, which it does when nothing is left.
func (s *supervised) wait() exit {
	e := exit{lost: true}
	for {
		var r report
		if s.decoder.Decode(&r) != nil {
			break
		}
		if r.Exited {
			e.lost, e.code, e.signal = false, r.Code, r.Signal
		}
		e.left = append(e.left, r.Left...)
	}
	_ = s.orders.Close()
	_ = s.reports.Close()
	_ = s.cmd.Wait() // its own status says nothing that it did not report
	if e.lost {
		// Somebody killed the supervisor. The kernel then kills the engine
		// (PR_SET_PDEATHSIG); its process group is ours to end.
		_ = syscall.Kill(-s.engine, syscall.SIGKILL)
		for end := time.Now().Add(killPatience); groupAlive(s.engine) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return e
}
