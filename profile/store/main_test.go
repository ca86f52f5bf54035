package store

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

var update = flag.Bool("update", false, "rewrite testdata/written")

// childEnv makes the test binary a process to be killed: "lock DIR" or "journal FILE".
const childEnv = "STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := child(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(job string) error {
	verb, at, _ := strings.Cut(job, " ")
	switch verb {
	case "lock":
		if _, err := Create(at); err != nil {
			return err
		}
		fmt.Println("ready")
		time.Sleep(time.Minute) // to be killed
		return nil
	case "journal":
		j, err := OpenJournal(at)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		for i := range 1_000_000 { // to be killed
			if err := j.Append(PointEntry(profile.Point{ID: fmt.Sprint("child/", i), Phase: profile.Decode}, Cost{})); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("unknown job %q", job)
	}
}
