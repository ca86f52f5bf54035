package virtual_test

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"plimsoll/planner/connect/virtual"
	"plimsoll/testdata/integration/etcd"
	"plimsoll/testdata/integration/program"
)

func TestCommand(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	env := []string{"ETCD_ENDPOINTS=" + c.Endpoints[0]}
	client := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		program.Wants(t, code, stdout, stderr, env, append([]string{"planner", "client"}, args...)...)
	}
	client(0, "No decision\n", "", "get")
	client(1, "", "plimsoll: error: acknowledging decision 0: the last that was made is -1\n", "complete", "0")
	client(1, "", "plimsoll: error: no new decision within 1s; so far no decision\n", "wait", "--timeout", "1s")

	p := newPlanner(t, virtual.PlannerOptions{Options: options(c)})
	scale(t, p, 2, 3)
	client(0, "Decision 0 (prefill=2, decode=3), not acknowledged\n", "", "get")
	client(0, "{\n  \"num_prefill_workers\": 2,\n  \"num_decode_workers\": 3,\n  \"decision_id\": 0,\n  \"scaled_decision_id\": -1\n}\n", "", "wait", "--format", "json")
	client(0, "Acknowledged decision 0\n", "", "complete", "0")
	client(0, "Acknowledged decision 0\n", "", "complete", "0")
	client(0, "Decision 0 (prefill=2, decode=3), acknowledged\n", "", "wait", "--after", "-1")
	client(1, "", "plimsoll: error: no new decision within 1s; so far decision 0 (prefill=2, decode=3), acknowledged\n", "wait", "--timeout", "1s")

	put(t, c.Client(), "num_decode_workers", "three")
	client(1, "", "plimsoll: error: reading v1/dynamo/planner/ from etcd: num_decode_workers is \"three\": want a number of 0 to 1000000\n", "get")
	put(t, c.Client(), "num_decode_workers", "3")
	state(t, p) // sees what was done by hand

	// One that waits is told of what is decided then, and Ctrl-C ends it.
	told := make(chan program.Result, 1)
	go func() { told <- program.Run(t.Context(), t, env, "planner", "client", "wait", "--after", "0") }()
	scale(t, p, 4, 3)
	if r := <-told; r.Stdout != "Decision 1 (prefill=4, decode=3), not acknowledged\n" {
		t.Errorf("told %+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r := program.Run(ctx, t, env, "planner", "client", "wait", "--after", "1"); r.Code != 130 {
		t.Errorf("interrupted, it ends with %+v", r)
	}
}

// etcd's users, by the names that Dynamo has in its environment.
func TestUsers(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw := c.Client()
	lease, err := raw.Grant(t.Context(), 300) // with a key that planner and client may not see
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{prefix + "decision_id", "v1/instances/x"} {
		if _, err := raw.Put(t.Context(), key, "0", clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
	}
	for _, do := range []func() error{
		func() error { _, err := raw.RoleAdd(t.Context(), "root"); return err },
		func() error { _, err := raw.UserAdd(t.Context(), "root", "secret"); return err },
		func() error { _, err := raw.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := raw.UserAdd(t.Context(), "stranger", "word"); return err },
		func() error { _, err := raw.RoleAdd(t.Context(), "planner"); return err },
		func() error {
			_, err := raw.RoleGrantPermission(t.Context(), "planner", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := raw.UserAdd(t.Context(), "planner", "pass"); return err },
		func() error { _, err := raw.UserGrantRole(t.Context(), "planner", "planner"); return err },
		func() error { _, err := raw.AuthEnable(t.Context()); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	login := func(user, password string) []string {
		return []string{"ETCD_ENDPOINTS=" + c.Endpoints[0], "ETCD_AUTH_USERNAME=" + user, "ETCD_AUTH_PASSWORD=" + password}
	}
	program.Wants(t, 0, "Decision 0, not acknowledged\n", "", login("root", "secret"), "planner", "client", "get")
	o := options(c)
	o.User, o.Password = "planner", "pass"
	state(t, newPlanner(t, virtual.PlannerOptions{Options: o}))
	if err := newClient(t, o).Complete(t.Context(), 0); err != nil {
		t.Error(err)
	}
	for name, env := range map[string][]string{"a wrong password": login("root", "guess"), "nobody": login("", ""), "no rights": login("stranger", "word")} {
		began := time.Now()
		r := program.Run(t.Context(), t, env, "planner", "client", "wait")
		if r.Code != 1 || !strings.Contains(r.Stderr, "etcdserver: ") || strings.Contains(r.Stderr, "does not answer") {
			t.Errorf("%s: %+v after %v", name, r, time.Since(began))
		}
		for _, secret := range []string{"secret", "guess", "word:"} {
			if strings.Contains(r.Stderr, secret) {
				t.Errorf("%s: %q tells a password", name, r.Stderr)
			}
		}
	}
}

// TLS with a certificate of the client's: the server's own here.
func TestCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made, err := transport.SelfCert(zap.NewNop(), dir, []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	c := etcd.Start(t, 1, func(config *embed.Config) {
		config.ListenClientUrls[0].Scheme, config.AdvertiseClientUrls[0].Scheme = "https", "https"
		config.ClientTLSInfo = transport.TLSInfo{CertFile: made.CertFile, KeyFile: made.KeyFile, TrustedCAFile: made.CertFile, ClientCertAuth: true}
	})
	text, err := os.ReadFile(made.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	get := []string{"planner", "client", "get", "--timeout", "5s", "--etcd-endpoints", c.Endpoints[0]}
	program.Wants(t, 0, "No decision\n", "", nil, append(get, "--etcd-ca", made.CertFile, "--etcd-cert", made.CertFile, "--etcd-key", made.KeyFile)...)
	// Dynamo takes the text itself from its environment.
	program.Wants(t, 0, "No decision\n", "", []string{"ETCD_AUTH_CA=" + string(text), "ETCD_AUTH_CLIENT_CERT=" + made.CertFile, "ETCD_AUTH_CLIENT_KEY=" + made.KeyFile}, get...)

	o := options(c)
	o.Timeout = short
	for name, change := range map[string]func(*virtual.Options){
		"no authority":          func(o *virtual.Options) { o.CA = "" },
		"no client certificate": func(o *virtual.Options) { o.Cert, o.Key = "", "" },
	} {
		o := o
		o.CA, o.Cert, o.Key = made.CertFile, made.CertFile, made.KeyFile
		change(&o)
		if _, err := newClient(t, o).Get(t.Context()); !errors.Is(err, virtual.ErrUnreachable) {
			t.Errorf("%s: %v, want ErrUnreachable", name, err)
		}
	}
	o.CA = filepath.Join(dir, "none.pem")
	if _, err := virtual.NewClient(o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an authority that is not there: %v", err)
	}
}
