package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"plimsoll/engine"
	"plimsoll/planner"
)

// ParentVariable is where Dynamo's operator tells a pod the DynamoGraphDeployment
// that it belongs to.
const ParentVariable = "DYN_PARENT_DGD_K8S_NAME"

// Options say what is scaled.
type Options struct {
	Namespace string
	// Deployment is the name of a DynamoGraphDeployment; empty: $DYN_PARENT_DGD_K8S_NAME.
	Deployment string
	// Targets name what each role runs in: an object with a scale subresource as
	// group/version/Kind/name, or a service of Deployment. Empty: the services
	// that Deployment itself says to be prefill, decode or the only worker.
	Targets map[engine.Role]string
	// Least are replicas below which Scale refuses to go, whoever asks.
	Least planner.Replicas
	// Log hears of what failed and keeps nobody from scaling; nil: nobody.
	Log *slog.Logger
}

// Target is a planner.Target on a cluster. It keeps no state: every call reads
// what there is. It is safe for concurrent use.
type Target struct {
	o      Options
	client dynamic.Interface
	places map[engine.Role]object // empty: a DynamoGraphDeployment
}

var _ planner.Target = (*Target)(nil)

// New makes a target; nothing is asked of the cluster yet.
func New(config *rest.Config, o Options) (*Target, error) {
	o.Deployment = cmp.Or(o.Deployment, os.Getenv(ParentVariable))
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	places, err := o.places()
	if err != nil {
		return nil, err
	}
	if len(places) == 0 && o.Deployment == "" {
		return nil, fmt.Errorf("nothing to scale is named (hint: a DynamoGraphDeployment's name, which its operator also gives in $%s, or an object for each role)", ParentVariable)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a Kubernetes client: %w", err)
	}
	return &Target{o: o, client: client, places: places}, nil
}

// places are the objects of Targets; none where Targets are services.
func (o Options) places() (map[engine.Role]object, error) {
	if len(o.Targets) == 0 {
		return nil, nil
	}
	_, prefill := o.Targets[engine.RolePrefill]
	_, decode := o.Targets[engine.RoleDecode]
	_, aggregated := o.Targets[engine.RoleAggregated]
	if (prefill != decode) || (prefill == aggregated) || len(o.Targets) > 2 {
		return nil, fmt.Errorf("targets are for %v: want prefill and decode, or aggregated", slices.Sorted(maps.Keys(o.Targets)))
	}
	places := map[engine.Role]object{}
	for role, name := range o.Targets {
		if !strings.Contains(name, "/") {
			continue
		}
		at, err := parseObject(name)
		if err != nil {
			return nil, fmt.Errorf("target of %s: %w", role, err)
		}
		places[role] = at
	}
	if len(places) != 0 && len(places) != len(o.Targets) {
		return nil, errors.New("one target is a service and the other an object: want both of one kind")
	}
	if len(places) == 2 && places[engine.RolePrefill] == places[engine.RoleDecode] {
		return nil, fmt.Errorf("prefill and decode are the same object, %s", o.Targets[engine.RoleDecode])
	}
	return places, nil
}

// State reads the replicas asked for, and counts the pods.
func (t *Target) State(ctx context.Context) (planner.State, error) {
	pools, err := t.read(ctx)
	if err != nil {
		return planner.State{}, err
	}
	var s planner.State
	var under, stuck []string
	for _, p := range pools {
		pods, err := t.pods(ctx, p.selector)
		if err != nil {
			return planner.State{}, err
		}
		seen, scaling := p.state(count(pods, p.size))
		s.Pools = append(s.Pools, seen)
		if scaling != "" {
			under = append(under, scaling)
		}
		if seen.Pending > 0 {
			stuck = append(stuck, scaling)
		}
		s.Model = cmp.Or(s.Model, p.model)
	}
	s.Scaling, s.Trouble = strings.Join(under, "; "), strings.Join(stuck, "; ")
	return s, nil
}

// Scale writes the numbers that differ from what is asked for now: smaller ones
// first, so that a budget of GPUs is not exceeded in between. After an error the
// ones before it are written; asking again does the rest.
func (t *Target) Scale(ctx context.Context, want planner.Replicas, reason string) error {
	pools, err := t.read(ctx)
	if err != nil {
		return err
	}
	if err := t.check(want, pools); err != nil {
		return err
	}
	grows := func(p pool) int { return want.Of(p.role) - p.want }
	slices.SortStableFunc(pools, func(a, b pool) int { return cmp.Compare(grows(a), grows(b)) })
	for _, p := range pools {
		n := want.Of(p.role)
		if n == p.want {
			continue
		}
		if err := t.write(ctx, p, n); err != nil {
			return fmt.Errorf("scaling %s %s from %d to %d: %w", p.role, p.name, p.want, n, err)
		}
		t.record(ctx, p, n, reason)
	}
	return nil
}

// check refuses what no deployment here could want.
func (t *Target) check(want planner.Replicas, pools []pool) error {
	var errs []error
	for _, role := range engine.Roles() {
		n, least := want.Of(role), t.o.Least.Of(role)
		has := slices.ContainsFunc(pools, func(p pool) bool { return p.role == role })
		switch {
		case !has && n != 0:
			errs = append(errs, fmt.Errorf("%d %s replicas are wanted, but the deployment has no such pool", n, role))
		case has && n < least:
			errs = append(errs, fmt.Errorf("%d %s replicas are wanted, below the minimum of %d", n, role, least))
		}
	}
	return errors.Join(errs...)
}
