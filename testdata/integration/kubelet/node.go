package kubelet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heartbeat is well within the 40 seconds after which a node counts as dead.
const heartbeat = 10 * time.Second

// subnet is 127.N that no other kubelet of this machine has: a socket with an
// abstract name holds it until the test ends.
func subnet(t testing.TB) int {
	t.Helper()
	var config net.ListenConfig
	for range 100 {
		n := 2 + rand.IntN(250) //nolint:gosec // any will do
		l, err := config.Listen(t.Context(), "unix", fmt.Sprintf("@plimsoll-kubelet-%d", n))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = l.Close() })
		return n
	}
	t.Fatal("no subnet of 127.0.0.0/8 is free")
	return 0
}

// AddNode makes a node of this kubelet, with its name, labels and room; it is
// ready as soon as its controller looks.
func (k *Kubelet) AddNode(node *corev1.Node) {
	k.t.Helper()
	host, port, err := net.SplitHostPort(k.server.Listener.Addr().String())
	if err != nil {
		k.t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		k.t.Fatal(err)
	}
	now := metav1.Now()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	k.mu.Lock()
	k.nodes[node.Name] = true
	k.mu.Unlock()
	if _, err := k.options.Client.CoreV1().Nodes().Create(k.t.Context(), node, metav1.CreateOptions{}); err != nil {
		k.t.Fatal(err)
	}
	k.background(func() { k.renew(node.Name) })
}

// renew says by a lease that the node is alive.
func (k *Kubelet) renew(node string) {
	leases := k.options.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	seconds := int32(40)
	write := func(ctx context.Context) error {
		lease, err := leases.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			lease = &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: node}}
		}
		lease.Spec = coordination.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: time.Now()}}
		if err != nil {
			_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
			return err
		}
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	}
	for k.until(write) == nil {
		select {
		case <-k.ctx.Done():
			return
		case <-time.After(heartbeat):
		}
	}
}

// until tries again as long as the test runs: the API server may be away. The
// error is the end of the test.
func (k *Kubelet) until(done func(context.Context) error) error {
	for {
		ctx, cancel := context.WithTimeout(k.ctx, 5*time.Second)
		err := done(ctx)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-k.ctx.Done():
			return fmt.Errorf("%w: %w", k.ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
