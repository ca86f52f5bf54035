package load

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
)

// pacedEnv holds the pacing of a paced server in a process of its own.
const pacedEnv = "PLIMSOLL_TEST_PACED"

// pacedProcess serves one round and tells on its output: its URL, that all
// streams have asked, and when it wrote what, on the machine's monotonic clock.
func pacedProcess(spec string) int {
	var p pacing
	if err := json.Unmarshal([]byte(spec), &p); err != nil {
		return 2
	}
	s, err := servePaced(context.Background(), machineClock(), p)
	if err != nil || allowFiles(p.Streams) != nil {
		return 3
	}
	fmt.Println(s.url())
	<-s.full
	fmt.Println("begun")
	<-s.done
	if gob.NewEncoder(os.Stdout).Encode(s.notes) != nil {
		return 4
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the client has read all
	s.close()
	return 0
}

// elsewhere is a paced server in another process.
type elsewhere struct {
	url   string
	begun chan time.Duration // processor time of this process when all had asked
	notes chan []written
	stop  func()
}

func pacedElsewhere(t testing.TB, p pacing) elsewhere {
	t.Helper()
	spec, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := enginetest.Command(t, os.Args[0])
	cmd.Env = append(os.Environ(), pacedEnv+"="+string(spec))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	e := elsewhere{url: line[:len(line)-1], begun: make(chan time.Duration, 1), notes: make(chan []written, 1)}
	go func() {
		defer close(e.notes)
		if _, err := r.ReadString('\n'); err != nil {
			return
		}
		e.begun <- cpuTime()
		var notes []written
		if gob.NewDecoder(r).Decode(&notes) == nil {
			e.notes <- notes
		}
	}()
	e.stop = func() { _ = in.Close(); _ = cmd.Wait() }
	return e
}

// clientEnv holds a paced server that a process of its own is to measure.
const clientEnv = "PLIMSOLL_TEST_CLIENT"

type clientSpec struct {
	URL    string
	Pacing pacing
}

// clientProcess measures and prints what the client says of itself.
func clientProcess(text string) int {
	var spec clientSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return 2
	}
	watch := StartWatch()
	rs, err := streamPaced(context.Background(), machineClock(), spec.URL, spec.Pacing)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	if json.NewEncoder(os.Stdout).Encode(watch.Client(rs)) != nil {
		return 4
	}
	return 0
}
