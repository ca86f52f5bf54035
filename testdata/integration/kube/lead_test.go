package kube

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plimsoll/planner/connect/kubernetes"
	"plimsoll/testdata/integration/cluster"
)

const (
	candidate   = "PLIMSOLL_CANDIDATE" // the kubeconfig of a child that is a candidate
	leaseInTest = 9 * time.Second      // longer than a busy API server takes to answer
)

// TestMain is a candidate where a test asks for one, and lets tests wait at the same
// time: each has a control plane of its own, which is busy for little of its time.
func TestMain(m *testing.M) {
	if path := os.Getenv(candidate); path != "" {
		if err := leadForEver(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func election(name string) kubernetes.Election {
	return kubernetes.Election{Namespace: namespace, Name: "planner", Identity: name, Duration: leaseInTest}
}

// leadForEver is a candidate in a process of its own, which says when it leads.
func leadForEver(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	return election("child").Lead(context.Background(), config, func(ctx context.Context) error {
		fmt.Println("leads")
		<-ctx.Done()
		return nil
	})
}

// The other candidate leads once the Lease of one that was killed has run out,
// and not before.
func TestKilledLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	config := granted(t, c, aggregated())
	child, said := startCandidate(t, c)
	if line, err := said.ReadString('\n'); line != "leads\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	led := make(chan time.Time, 1)
	finished := lead(t.Context(), config, "other", led)
	select {
	case <-led:
		t.Fatal("two lead, or the child could not renew its Lease in time: see its error")
	case <-time.After(2 * leaseInTest): // the child renews
	}
	killed := time.Now()
	_ = child.Process.Kill()
	_ = child.Wait()
	select {
	case at := <-led:
		// The last renewal was up to a retry period before the kill.
		if after := at.Sub(killed); after < leaseInTest/2 {
			t.Errorf("the other leads %v after the kill, while the Lease was held", after)
		}
	case err := <-finished:
		t.Fatal(err)
	case <-time.After(60 * time.Second):
		t.Fatal("nobody leads")
	}
}

// startCandidate starts a candidate in a process of its own.
func startCandidate(t *testing.T, c *cluster.Cluster) (*exec.Cmd, *bufio.Reader) {
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), candidate+"="+c.KubeconfigOf(planners))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	return child, bufio.NewReader(out)
}

// lead is a candidate in this process; it works until it may not, and is told
// of on led each time it begins.
func lead(ctx context.Context, config *rest.Config, name string, led chan<- time.Time) <-chan error {
	finished := make(chan error, 1)
	go func() {
		finished <- election(name).Lead(ctx, config, func(ctx context.Context) error {
			led <- time.Now()
			<-ctx.Done()
			return nil
		})
	}()
	return finished
}

// A leader that ends gives the Lease back once its work has returned, and the
// next one need not wait until it runs out.
func TestLeaderHandsOver(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	config := granted(t, c, aggregated())
	long := election("first")
	long.Duration = time.Minute
	began, stopped := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	finished := make(chan error, 1)
	go func() {
		finished <- long.Lead(ctx, config, func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			time.Sleep(time.Second) // finishes what it does
			close(stopped)
			return nil
		})
	}()
	<-began
	led := make(chan time.Time, 1)
	lead(t.Context(), config, "second", led)
	cancel()
	select {
	case <-led:
		select {
		case <-stopped:
		default:
			t.Error("the second leads while the first still works")
		}
	case <-time.After(30 * time.Second):
		t.Error("the second waits although the first is gone")
	}
	if err := <-finished; err != nil {
		t.Error(err)
	}
}

func TestWorkThatEndsOrFails(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	config := granted(t, c, aggregated())
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		eventually(t, "leading", func(ctx context.Context) error {
			if err := election("one").Lead(ctx, config, func(context.Context) error { return want }); !errors.Is(err, want) {
				return fmt.Errorf("error is %w, want %w", err, want)
			}
			return nil
		})
	}
	err := election("nobody").Lead(t.Context(), c.ConfigOf("nobody"), func(context.Context) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get"]}`) {
		t.Errorf("error is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := election("late").Lead(ended, config, func(context.Context) error { t.Error("works"); return nil }); err != nil {
		t.Error(err)
	}
}
