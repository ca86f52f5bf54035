package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"plimsoll/engine/kube/cluster"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// LeaseDuration is how long a leader that died keeps others waiting, where an
// Election does not say.
const LeaseDuration = 15 * time.Second

// Election is among all that name the same Lease: one of them leads.
type Election struct {
	Namespace string
	Name      string // of the Lease
	// Identity tells the candidates apart; empty: the host's name and a random part.
	Identity string
	// Duration is how long a leader that died keeps others waiting; 0: LeaseDuration.
	// A leader that cannot renew stops working after two thirds of it.
	Duration time.Duration
	Log      *slog.Logger // nil: nobody is told
}

// Lead waits until this candidate leads, and then works until ctx ends or the
// lead is lost, after which it waits again. work must return when its context
// ends: only then is the Lease given back, so that no two work at once, unless
// one takes longer than a third of Duration to stop after it lost the lead. The
// error is the work's own, or that the Lease may not be read or written; it is
// nil once ctx or the work has ended.
func (e Election) Lead(ctx context.Context, config *rest.Config, work func(context.Context) error) error {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a Kubernetes client: %w", err)
	}
	e = e.filled()
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(e.Log.Handler()))
	for ctx.Err() == nil {
		t := term{Election: e, work: work, result: make(chan error, 1)}
		if over, err := t.serve(ctx, client); over || err != nil {
			return err
		}
	}
	return nil
}

// filled has what was left out.
func (e Election) filled() Election {
	e.Identity = cmp.Or(e.Identity, instance()+"_"+rand.Text())
	e.Duration = cmp.Or(e.Duration, LeaseDuration)
	e.Duration = max(e.Duration.Round(time.Second), time.Second) // a Lease has whole seconds
	e.Log = cmp.Or(e.Log, slog.New(slog.DiscardHandler))
	return e
}

// term is one election, and the work after it.
type term struct {
	Election
	work   func(context.Context) error
	result chan error // of the work, once it has returned
	over   bool       // the work ended by itself; to be read after result
}

func (t *term) serve(ctx context.Context, client coordination.LeasesGetter) (over bool, err error) {
	// The election outlives ctx until the work has returned.
	election, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	l := &lock{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: t.Identity},
	}, at: t.Election, refused: end}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, Name: t.Name,
		// The proportions of Kubernetes' own components.
		LeaseDuration: t.Duration, RenewDeadline: t.Duration * 2 / 3, RetryPeriod: t.Duration * 2 / 15,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				t.lead(ctx, leading)
				end()
			},
			OnStoppedLeading: func() {}, // serve sees Run return
		},
	})
	if err != nil {
		return false, fmt.Errorf("electing a leader: %w", err)
	}
	// Who does not lead has nothing to finish.
	defer context.AfterFunc(ctx, func() {
		if !elector.IsLeader() {
			end()
		}
	})()
	elector.Run(election)
	if l.held {
		err = <-t.result
		// The elector could release the Lease itself, but would before the work has stopped.
		t.release(ctx, l)
	}
	return t.over, errors.Join(err, l.err)
}

// lead works until the work ends, ctx does, or the lead is lost.
func (t *term) lead(ctx, leading context.Context) {
	working, stop := context.WithCancel(leading)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	err := t.work(working)
	t.over = working.Err() == nil
	if !t.over && errors.Is(err, context.Canceled) {
		err = nil
	}
	t.result <- err
}

// release lets another candidate lead at once. Where it fails, others wait until
// the Lease runs out.
func (t *term) release(ctx context.Context, l *lock) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.Duration/3)
	defer cancel()
	record, _, err := l.Get(ctx)
	if err == nil && record.HolderIdentity == t.Identity {
		now := metav1.Now()
		err = l.Update(ctx, resourcelock.LeaderElectionRecord{LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now})
	}
	if err != nil {
		t.Log.Warn("the Lease was not given back: it runs out by itself", "lease", t.Name, "error", err)
	}
}

// lock notes what the elector does not tell: whether the Lease was ever held,
// and that it may not be touched, after which it would try for ever.
type lock struct {
	resourcelock.Interface
	at      Election
	held    bool
	err     error
	refused context.CancelFunc
}

func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	return record, raw, l.note("get", err)
}

func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.took(l.note("create", l.Interface.Create(ctx, r)))
}

func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.took(l.note("update", l.Interface.Update(ctx, r)))
}

func (l *lock) took(err error) error {
	l.held = l.held || err == nil
	return err
}

func (l *lock) note(verb string, err error) error {
	if apierrors.IsForbidden(err) && l.err == nil {
		leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
		l.err = cluster.Request{Verb: verb, Resource: leases, Namespace: l.at.Namespace, Name: l.at.Name, Manifest: manifestCommand}.Explain(err)
		l.refused()
	}
	return err
}
