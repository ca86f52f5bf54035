package virtual

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leases ends workers' registrations in etcd.
type Leases struct{ store }

// NewLeases makes it; Close it after use.
func NewLeases(o Options) (*Leases, error) {
	s, err := open(o)
	return &Leases{s}, err
}

// Revoke ends a lease, and with it every key that was put under it. One that is
// gone already is no error.
func (l *Leases) Revoke(ctx context.Context, lease int64) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if _, err := l.etcd.Revoke(ctx, clientv3.LeaseID(lease)); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoking lease %x: %w", lease, err)
	}
	return nil
}
