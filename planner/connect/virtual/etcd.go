package virtual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// DefaultTimeout is how long one request to etcd may take. A cluster that
// elects a leader answers again within about a second.
const DefaultTimeout = 10 * time.Second

// Options say where the keys are.
type Options struct {
	Endpoints []string // URLs of one cluster
	Namespace string   // of the deployment, as in Dynamo
	Timeout   time.Duration
	// User and Password log in, where etcd asks for that.
	User, Password string
	// CA, Cert and Key are PEM, or paths of files with it; empty: the system's
	// authorities, no client certificate.
	CA, Cert, Key string
}

// Check says what is wrong with the options themselves.
func (o Options) Check() error {
	var errs []error
	if o.Namespace == "" || strings.ContainsFunc(o.Namespace, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }) {
		// It would reach other keys.
		errs = append(errs, fmt.Errorf("namespace %q: want a word without slashes and spaces", o.Namespace))
	}
	if len(o.Endpoints) == 0 {
		errs = append(errs, errors.New("etcd has no endpoints: want one URL at least"))
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("the time-out of requests to etcd is %v: want 0 or more", o.Timeout))
	}
	if (o.Cert == "") != (o.Key == "") {
		errs = append(errs, errors.New("etcd's client certificate: want both the certificate and its key"))
	}
	return errors.Join(errs...)
}

// ErrUnreachable is when etcd did not answer: it is down, has no leader, or the
// way there is closed.
var ErrUnreachable = errors.New("etcd does not answer")

// ErrConflict is when another planner wrote a decision meanwhile.
var ErrConflict = errors.New("another planner wrote meanwhile")

// store reads and writes one namespace's keys.
type store struct {
	etcd    *clientv3.Client
	prefix  string
	timeout time.Duration
}

// Dial gives a client of the cluster. It does not wait for it: etcd may come later.
func Dial(o Options) (*clientv3.Client, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	secure, err := o.tls()
	if err != nil {
		return nil, err
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: o.Endpoints, DialTimeout: cmp.Or(o.Timeout, DefaultTimeout), TLS: secure, Username: o.User, Password: o.Password,
		// A silent peer is noticed, so that a wait does not outlive it.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		Logger: zap.NewNop(), // what fails comes back as an error
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd at %s: %w", strings.Join(o.Endpoints, ","), err)
	}
	return etcd, nil
}

func open(o Options) (store, error) {
	etcd, err := Dial(o)
	if err != nil {
		return store{}, err
	}
	return store{etcd, prefix(o.Namespace), cmp.Or(o.Timeout, DefaultTimeout)}, nil
}

func (s store) Close() error { return s.etcd.Close() }

func (s store) read(ctx context.Context) (record, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer, err := s.etcd.Get(ctx, s.prefix, clientv3.WithPrefix())
	if err != nil {
		return record{}, 0, fmt.Errorf("reading %s from etcd: %w", s.prefix, s.describe(err))
	}
	entries, began, lease := make([]entry, len(answer.Kvs)), int64(0), int64(clientv3.NoLease)
	for i, kv := range answer.Kvs {
		entries[i] = entry{strings.TrimPrefix(string(kv.Key), s.prefix), string(kv.Value), kv.ModRevision}
		if entries[i].key == keyID {
			began, lease = kv.CreateRevision, kv.Lease
		}
	}
	r, err := readRecord(entries)
	if err != nil {
		return record{}, 0, fmt.Errorf("reading %s from etcd: %w", s.prefix, err)
	}
	r = r.since(began)
	r.lease = clientv3.LeaseID(lease)
	return r, answer.Header.Revision, nil
}

// write puts key and value pairs under a lease in one transaction, if each of the keys
// that are compared last changed at its revision. The revision is 0 if one did not.
func (s store) write(ctx context.Context, lease clientv3.LeaseID, unchanged map[string]int64, pairs ...[2]string) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var conditions []clientv3.Cmp
	for key, revision := range unchanged {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(s.prefix+key), "=", revision))
	}
	var puts []clientv3.Op
	for _, p := range pairs {
		puts = append(puts, clientv3.OpPut(s.prefix+p[0], p[1], clientv3.WithLease(lease)))
	}
	answer, err := s.etcd.Txn(ctx).If(conditions...).Then(puts...).Commit()
	if err != nil {
		return 0, fmt.Errorf("writing %s to etcd: %w", s.prefix, s.describe(err))
	}
	if !answer.Succeeded {
		return 0, nil
	}
	return answer.Header.Revision, nil
}

// writeDecision writes d after r: the numbers first, its ID last, as watchers
// expect; they see all of it at once.
func (s store) writeDecision(ctx context.Context, lease clientv3.LeaseID, r record, d Decision) (revision int64, err error) {
	var pairs [][2]string
	if d.Prefill != None {
		pairs = append(pairs, [2]string{keyPrefill, strconv.Itoa(d.Prefill)})
	}
	if d.Decode != None {
		pairs = append(pairs, [2]string{keyDecode, strconv.Itoa(d.Decode)})
	}
	pairs = append(pairs, [2]string{keyID, strconv.FormatInt(d.ID, 10)})
	return s.write(ctx, lease, map[string]int64{keyPrefill: r.prefill, keyDecode: r.decode, keyID: r.id}, pairs...)
}

// changed returns at the first change after a revision, or after pause at the
// latest: what a broken watch would have said is then read.
func (s store) changed(ctx context.Context, revision int64, pause time.Duration) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), pause)
	defer cancel()
	answer, ok := <-s.etcd.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	if !ok || answer.Err() != nil {
		<-ctx.Done() // not at once again
	}
}

// describe says ErrUnreachable, and where, of what may pass by itself.
func (s store) describe(err error) error {
	if refused(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w at %s (%w)", ErrUnreachable, strings.Join(s.etcd.Endpoints(), ","), err)
}

// refused reports whether etcd itself said no, in a way that asking again does
// not change.
func refused(err error) bool {
	return slices.ContainsFunc([]error{
		rpctypes.ErrAuthFailed, rpctypes.ErrAuthNotEnabled, rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty,
		rpctypes.ErrUserNotFound, rpctypes.ErrInvalidAuthMgmt,
	}, func(no error) bool { return errors.Is(err, no) })
}
