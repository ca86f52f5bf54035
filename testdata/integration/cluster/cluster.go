// Package cluster runs a real Kubernetes control plane for tests: etcd and the
// API server, and as asked the controllers, the scheduler, and nodes whose GPUs
// are made up; so are the pods on them, by kwok. All of it listens on 127.0.0.1,
// takes free ports, and ends with the test.
package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plimsoll/testdata/integration/free"
)

// Servers is the environment variable that names the folder of the servers'
// programs, which build.sh makes.
const Servers = "PLIMSOLL_SERVERS"

// Options say how much of a cluster is wanted.
type Options struct {
	// Workloads runs the controllers, the scheduler and kwok too: deployments
	// become pods, and pods on fake nodes become ready.
	Workloads bool
	// PodStartup is how long a pod takes from its node to being ready; 0 is at
	// once. With Workloads only.
	PodStartup time.Duration
}

// Cluster is a running control plane.
type Cluster struct {
	// Client and Config act as the cluster's administrator.
	Client kubernetes.Interface
	Config *rest.Config
	// Kubeconfig is the path of the administrator's.
	Kubeconfig string

	t       testing.TB
	dir     string // of data, credentials and logs
	servers string // where the programs are
	url     string // of the API server

	apiServer *server
	apiArgs   []string
}

// Start gives a cluster that answers, or fails the test with the end of the log
// of the part that did not start.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dir: t.TempDir(), servers: os.Getenv(Servers)}
	if c.servers == "" {
		t.Fatalf("%s is not set: it names the folder with etcd, kube-apiserver, …; run make integration, or build.sh by hand", Servers)
	}
	c.startAPIServer(c.startEtcd())
	c.connect()
	c.await("the API server is ready", 60*time.Second, c.answers)
	if o.Workloads {
		c.startWorkloads(o)
	}
	return c
}

// The API server stops before etcd, because cleanups run last first: the other
// way round it hangs.
func (c *Cluster) startEtcd() (endpoint string) {
	client, peer := "http://"+free.Address(c.t), "http://"+free.Address(c.t)
	c.run("etcd", "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	return client
}

func (c *Cluster) startAPIServer(etcd string) {
	host, port, _ := net.SplitHostPort(free.Address(c.t))
	c.url = "https://" + net.JoinHostPort(host, port)
	key := c.writeServiceAccountKey()
	c.apiArgs = []string{
		"--etcd-servers", etcd,
		"--bind-address", host, "--advertise-address", host, "--secure-port", port, "--cert-dir", c.certificates(),
		"--service-account-issuer", c.url, "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--token-auth-file", c.writeTokens(), "--authorization-mode", "RBAC",
		// Pods get no service accounts: nothing in them would use one.
		"--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none",
	}
	c.apiServer = c.start("kube-apiserver", c.apiArgs...)
	// Started again or not, it stops after those that watch it, or it waits for them.
	c.t.Cleanup(func() { c.stop(c.apiServer) })
}

// KillAPIServer ends the API server at once; what it stored stays.
func (c *Cluster) KillAPIServer() {
	c.t.Helper()
	c.apiServer.kill()
}

// RestartAPIServer starts a killed API server again, at its address, and returns
// once it answers.
func (c *Cluster) RestartAPIServer() {
	c.t.Helper()
	c.apiServer = c.start("kube-apiserver", c.apiArgs...)
	c.await("the API server is ready again", 60*time.Second, c.answers)
}

func (c *Cluster) startWorkloads(o Options) {
	c.run("kube-controller-manager", "--kubeconfig", c.Kubeconfig, "--leader-elect=false", "--secure-port=0",
		// Without the node lifecycle, new nodes stay tainted as not ready.
		"--controllers", "deployment-controller,replicaset-controller,statefulset-controller,node-lifecycle-controller,"+
			"garbage-collector-controller,namespace-controller,disruption-controller,resourcequota-controller")
	c.run("kube-scheduler", "--kubeconfig", c.Kubeconfig, "--leader-elect=false", "--secure-port=0")
	c.run("kwok", "--kubeconfig", c.Kubeconfig, "--config", c.writeKwok(o.PodStartup))
}

// connect makes the administrator's client, once the API server has written its
// certificate.
func (c *Cluster) connect() {
	c.await("the API server's certificate", 60*time.Second, func(context.Context) error {
		// The key is written last: without it the certificate may be a part of itself,
		// which nobody would trust.
		file := filepath.Join(c.certificates(), certificate)
		_, err := tls.LoadX509KeyPair(file, strings.TrimSuffix(file, ".crt")+".key")
		return err
	})
	c.Kubeconfig = c.KubeconfigOf("")
	c.Config = c.ConfigOf("")
	var err error
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) answers(ctx context.Context) error {
	return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// await polls until done gives nil, and fails the test with its last error
// after the limit, or as soon as a server has died.
func (c *Cluster) await(what string, limit time.Duration, done func(context.Context) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	if err := Poll(ctx, done); err != nil {
		c.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// Poll calls done until it gives nil. Its error is done's last one, with the
// context's.
func Poll(ctx context.Context, done func(context.Context) error) error {
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
