package virtual

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Client is the side of the deployment: it carries decisions out.
type Client struct{ store }

// NewClient makes a client; Close it after use.
func NewClient(o Options) (*Client, error) {
	s, err := open(o)
	return &Client{s}, err
}

// Get is the last decision and how far the deployment has followed. Its numbers
// are None until a planner has decided.
func (c *Client) Get(ctx context.Context) (Status, error) {
	r, _, err := c.read(ctx)
	return r.Status, err
}

// watchAtMost is when a wait looks again though nothing was said to have
// changed, and retryAfter when it does after a failure.
const (
	watchAtMost = time.Minute
	retryAfter  = time.Second
)

// Wait gives the first status that is wanted, such as Status.Pending. It sees
// what changed before it was called, outlasts an etcd that goes away, and asks
// only when something changed. After ctx it gives the last status seen, with an
// error.
func (c *Client) Wait(ctx context.Context, wanted func(Status) bool) (Status, error) {
	last := Status{Decision: Decision{None, None, None}, Scaled: None}
	for {
		r, revision, err := c.read(ctx)
		switch {
		case err == nil && wanted(r.Status):
			return r.Status, nil
		case err == nil:
			last = r.Status
			c.changed(ctx, revision, watchAtMost)
		case errors.Is(err, ErrUnreachable):
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
		default:
			return last, err
		}
		if over := context.Cause(ctx); over != nil {
			if err != nil {
				over = fmt.Errorf("%w: %w", err, over)
			}
			return last, over
		}
	}
}

// Complete acknowledges a decision, and with it all before. Doing so again, or
// after a later one, changes nothing: acknowledgements go back only where the planner
// began anew. A decision that was never made cannot be acknowledged.
//
// The acknowledgement is put under the decision's lease: whoever gives it may end at once,
// and it ends with the decision. (Dynamo's has its client's lease. It is told from one of a
// later life by its revision.)
func (c *Client) Complete(ctx context.Context, id int64) error {
	for {
		r, _, err := c.read(ctx)
		switch {
		case err != nil:
			return err
		case id < 0 || id > r.ID:
			return fmt.Errorf("acknowledging decision %d: the last that was made is %d", id, r.ID)
		case id <= r.Scaled:
			return nil
		}
		unchanged, ack := map[string]int64{keyScaled: r.scaled, keyID: r.id}, [2]string{keyScaled, strconv.FormatInt(id, 10)}
		revision, err := c.write(ctx, r.lease, unchanged, ack)
		if errors.Is(err, rpctypes.ErrPermissionDenied) { // etcd lets nobody use a lease who may not write all of its keys
			revision, err = c.write(ctx, clientv3.NoLease, unchanged, ack)
		}
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) && (err != nil || revision != 0) {
			return err
		}
		// Another acknowledgement or decision came between, or its lease ended: look again.
	}
}
