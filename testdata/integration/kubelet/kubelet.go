// Package kubelet is a small kubelet for tests: the pods that a scheduler binds
// to its nodes are processes of this machine. It takes a client, what images
// run, and a folder; it gives nodes, pods whose status says what became of their
// processes, and the two endpoints that the API server passes on: containers'
// logs and port-forwards (by the kubelet's own streaming library).
//
// Written here rather than made of kwok, which can serve logs and port-forwards
// of fixed files and addresses, but starts nothing: it plays a pod's statuses
// by the clock, so that no pod is ready because its engine answers, none fails
// because its engine ended, and nothing stops when a pod is deleted.
//
// A pod has a loopback address of its own, so that a container's port needs no
// mapping and no privileges. What differs from a container for that:
//   - 0.0.0.0 in arguments becomes the pod's address, and so do the addresses that
//     --…listen=:PORT and --…listen=127.0.0.1:PORT mean;
//   - the mount paths of volumes in arguments and environment become folders here;
//   - the service account is in KUBECONFIG, not in files under /var/run;
//   - of a root that is read-only just the home is;
//   - an OOM kill is by the first process's resident memory, looked at often.
//
// A namespace of mounts, network or processes there is not; nor init containers,
// exec probes, or hooks: a pod that asks for them fails, and says so.
package kubelet

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Options say what pods are made of.
type Options struct {
	Client kubernetes.Interface
	// Dir takes logs and volumes.
	Dir string
	// Images are what can be pulled: an image's name, and what it runs where the
	// container gives no command. The folder of its program comes first in PATH.
	Images map[string][]string
	// Startup is how long a pod takes to the start of its containers.
	Startup time.Duration
	// Kubeconfig writes one for a service account and gives its path.
	Kubeconfig func(ctx context.Context, namespace, account string) (string, error)
}

// Kubelet runs the pods of its nodes.
type Kubelet struct {
	options Options
	t       testing.TB
	ctx     context.Context // until the test ends
	server  *httptest.Server
	subnet  int
	running sync.WaitGroup

	mu    sync.Mutex
	nodes map[string]bool
	pods  map[types.UID]*pod
	made  int // pods, ever
}

// Start gives a kubelet without nodes. With the test it ends, and all processes of its
// pods.
func Start(t testing.TB, o Options) *Kubelet {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	k := &Kubelet{options: o, t: t, ctx: ctx, subnet: subnet(t), nodes: map[string]bool{}, pods: map[types.UID]*pod{}}
	k.server = httptest.NewTLSServer(k.handler())
	t.Cleanup(func() {
		cancel()
		k.running.Wait()
		k.server.CloseClientConnections()
		k.server.Close()
	})
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(o.Client.CoreV1().RESTClient(), "pods", corev1.NamespaceAll, fields.Everything()),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { k.sees(o.(*corev1.Pod)) },
			UpdateFunc: func(_, o any) { k.sees(o.(*corev1.Pod)) },
			DeleteFunc: k.lost,
		},
	})
	k.background(func() { informer.RunWithContext(ctx) })
	return k
}

func (k *Kubelet) background(what func()) { k.running.Go(what) }

// sees starts a pod that is bound to a node here, and stops one that is deleted.
func (k *Kubelet) sees(object *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.nodes[object.Spec.NodeName] {
		return
	}
	p, known := k.pods[object.UID]
	if !known {
		if over(object.Status.Phase) {
			return
		}
		k.made++
		p = newPod(k, object, k.address(k.made))
		k.pods[object.UID] = p
		k.background(p.run)
		k.background(p.report)
	}
	if object.DeletionTimestamp != nil {
		grace := time.Duration(0)
		if s := object.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		p.delete(grace)
	}
}

// lost ends a pod that is no longer there, as after a deletion by force.
func (k *Kubelet) lost(o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	object, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.pods[object.UID]; p != nil {
		p.delete(0)
	}
}

// pod finds a pod by its name.
func (k *Kubelet) pod(namespace, name string) *pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if p.object.Namespace == namespace && p.object.Name == name {
			return p
		}
	}
	return nil
}

func (k *Kubelet) forget(p *pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, p.object.UID)
}

// Evict ends a pod as a node short of memory does: at once, with its reason.
func (k *Kubelet) Evict(namespace, name string) error {
	p := k.pod(namespace, name)
	if p == nil {
		return fmt.Errorf("no pod %s/%s runs here", namespace, name)
	}
	p.fail("Evicted", "The node was low on resource: memory.")
	return nil
}

// address is the nth one of a subnet of 127.0.0.0/8.
func (k *Kubelet) address(n int) string {
	return fmt.Sprintf("127.%d.%d.%d", k.subnet, n/250%250, 1+n%250)
}

func over(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
