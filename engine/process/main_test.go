package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/process"
)

// The children of these tests are this test binary again, in one of the modes
// below, named by the environment.
const (
	modeVar = "PROCESS_TEST_MODE"
	portVar = "PROCESS_TEST_PORT"
	fileVar = "PROCESS_TEST_FILE" // where a mode writes what the test wants to know
)

func TestMain(m *testing.M) {
	process.Main()
	if mode := os.Getenv(modeVar); mode != "" {
		os.Exit(misbehave(mode))
	}
	// Under the race detector every exit sleeps for a second, which the children need not.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// misbehave is an engine of the kind that a sweep meets.
func misbehave(mode string) int {
	switch mode {
	case "exit3":
		fmt.Println("loading weights")
		fmt.Fprintln(os.Stderr, "fatal: no such tensor")
		return 3
	case "exit0":
		return 0
	case "suicide":
		fmt.Println("about to run out of memory")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "never":
		fmt.Println("thinking")
	case "unready":
		serveAs(http.StatusServiceUnavailable, "model is loading")
	case "ready":
		serveAs(http.StatusOK, "ok")
	case "slow":
		time.Sleep(300 * time.Millisecond)
		serveAs(http.StatusOK, "ok")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		serveAs(http.StatusOK, "ok")
	case "polite":
		polite()
		return 0
	case "garbage":
		fmt.Print(strings.Repeat("\x1b[31m\x00\xff\x07garbage ", 100_000))
		serveAs(http.StatusOK, "ok")
	case "chatty":
		for i := range 200_000 {
			fmt.Println("line", i)
		}
		serveAs(http.StatusOK, "ok")
	case "describe":
		describe()
		serveAs(http.StatusOK, "ok")
	case "bindlate":
		time.Sleep(300 * time.Millisecond)
		fmt.Println("address already in use")
		return 98
	case "frontend":
		frontend()
	case "family":
		family()
		serveAs(http.StatusOK, "ok")
	case "deadbeat": // leaves its children behind
		family()
		time.Sleep(200 * time.Millisecond)
		return 7
	case "busy": // its child works
		c := exec.CommandContext(context.Background(), os.Args[0])
		c.Env = append(os.Environ(), modeVar+"=spin")
		if err := c.Start(); err != nil {
			panic(err)
		}
		note(c.Process.Pid)
		serveAs(http.StatusOK, "ok")
	case "spin":
		for {
			_ = time.Now() // of a core
		}
	case "setsid":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		note(os.Getpid())
	case "program":
		program()
	case "ending":
		ending()
	default:
		fmt.Fprintln(os.Stderr, "no such mode:", mode)
		return 99
	}
	select {}
}

func serveAs(status int, body string) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintln(w, body)
	})
	s := &http.Server{Addr: "127.0.0.1:" + os.Getenv(portVar), Handler: h, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := s.ListenAndServe(); err != nil {
			fmt.Println(err)
			os.Exit(98)
		}
	}()
}

// polite takes a while to end, and says so.
func polite() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	serveAs(http.StatusOK, "ok")
	<-ctx.Done()
	fmt.Println("finishing requests")
	time.Sleep(200 * time.Millisecond)
	fmt.Println("finished requests")
}

// describe prints what the child was given.
func describe() {
	dir, err := os.Getwd()
	fmt.Println("dir", dir, err)
	fmt.Println("args", strings.Join(os.Args[1:], "|"))
	for _, k := range []string{"GREETING", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} {
		v, ok := os.LookupEnv(k)
		fmt.Printf("%s=%s %v\n", k, v, ok)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	for _, e := range fds {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.Contains(to, "anon_inode") { // the runtime's own
			fmt.Println("fd", e.Name(), to)
		}
	}
	fmt.Println("environ", strings.Join(os.Environ(), ";"), err)
	pgid, err := syscall.Getpgid(0)
	fmt.Println("leader", pgid == os.Getpid(), err)
}

// family starts one child in the group and one that leaves it, and that one's child.
func family() {
	for _, alone := range []bool{false, true} {
		c := exec.CommandContext(context.Background(), os.Args[0])
		c.Env = append(os.Environ(), modeVar+"=setsid")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: alone}
		if err := c.Start(); err != nil {
			panic(err)
		}
	}
	note(os.Getpid())
}

// note adds a pid to the file that the test reads.
func note(pid int) {
	f, err := os.OpenFile(os.Getenv(fileVar), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(f, pid)
	_ = f.Close()
}

// ending is a program that ends its engines when its input ends, says what came of it,
// and stays.
func ending() {
	program()
	_, _ = io.Copy(io.Discard, os.Stdin)
	waits := make(chan struct{})
	process.OnKillAll(func(context.Context) { close(waits) })
	process.OnKillAll(func(context.Context) { panic("it was removed") })()
	process.KillAll(context.Background())
	<-waits
	_, err := process.Start(context.Background(), engine.Spec{Argv: []string{os.Args[0]}, Port: 1, LogPath: os.DevNull})
	fmt.Println(errors.Is(err, process.ErrEnding))
}

// program is a program that uses the package and will be killed.
func program() {
	port, err := strconv.Atoi(os.Getenv(portVar))
	if err != nil {
		panic(err)
	}
	spec := engine.Spec{
		Name: "engine", Argv: []string{os.Args[0]}, Env: []string{modeVar + "=family"}, Port: port,
		LogPath: os.Getenv(fileVar) + ".log", Detached: os.Getenv("PROCESS_TEST_DETACHED") != "",
	}
	p, err := process.Start(context.Background(), spec)
	if err == nil {
		err = p.Ready(context.Background())
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("started", p.PID())
}

// spec is a child in a mode, with a free port and a log in the test's folder.
func spec(t *testing.T, mode string) engine.Spec {
	t.Helper()
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return engine.Spec{
		Name: mode, Argv: []string{testBinary(t)}, Port: port, ReadyTimeout: time.Minute, Grace: 20 * time.Second,
		LogPath: filepath.Join(dir, "logs", mode+".log"),
		Env: []string{
			modeVar + "=" + mode, portVar + "=" + strconv.Itoa(port), fileVar + "=" + filepath.Join(dir, "pids"),
		},
	}
}

func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start starts a child and stops it when the test ends.
func start(t *testing.T, s engine.Spec) *process.Process {
	t.Helper()
	p, err := process.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(canceled()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// canceled is a context for a Stop without grace.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// alive reports whether pid is a process that is no zombie.
func alive(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && syscall.Kill(pid, 0) == nil
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// pids reads what note wrote, once there are n.
func pids(t *testing.T, s engine.Spec, n int) []int {
	t.Helper()
	var path string
	for _, kv := range s.Env {
		if v, ok := strings.CutPrefix(kv, fileVar+"="); ok {
			path = v
		}
	}
	var out []int
	enginetest.Eventually(t, fmt.Sprintf("%d processes of the family", n), func() bool {
		out = nil
		f, err := os.Open(path)
		if err != nil {
			return false
		}
		defer func() { _ = f.Close() }()
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if pid, err := strconv.Atoi(sc.Text()); err == nil {
				out = append(out, pid)
			}
		}
		return len(out) >= n
	})
	return out
}

func listenOn(t *testing.T, port int) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
