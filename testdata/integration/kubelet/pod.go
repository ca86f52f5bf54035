package kubelet

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod is one pod's run here. Its containers stop when stopping ends, and are
// killed when killing does.
type pod struct {
	k      *Kubelet
	object *corev1.Pod // as it was bound
	ip     string
	dir    string
	began  metav1.Time

	stopping, killing context.Context
	stop, kill        context.CancelFunc
	deleted, gone     chan struct{} // are closed when it is asked for, and when it is done
	once              sync.Once     // closes deleted

	changed    chan struct{} // has one when the status is to be written
	containers []*container

	mu      sync.Mutex
	reason  string // why the whole pod failed, if it did
	message string
}

func newPod(k *Kubelet, object *corev1.Pod, ip string) *pod {
	p := &pod{
		k: k, object: object, ip: ip, dir: filepath.Join(k.options.Dir, string(object.UID)), began: metav1.Now(),
		deleted: make(chan struct{}), gone: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	p.killing, p.kill = context.WithCancel(k.ctx)
	p.stopping, p.stop = context.WithCancel(p.killing)
	for i := range object.Spec.Containers {
		p.containers = append(p.containers, newContainer(p, &object.Spec.Containers[i]))
	}
	return p
}

// run is a pod's whole life: its containers, then its deletion.
func (p *pod) run() {
	defer close(p.gone)
	defer p.kill()
	if why := unsupported(p.object); why != "" {
		p.fail("Unsupported", "the test's kubelet has no "+why)
	}
	if s := p.object.Spec.ActiveDeadlineSeconds; s != nil {
		timer := time.AfterFunc(time.Duration(*s)*time.Second, func() {
			p.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
		})
		defer timer.Stop()
	}
	var all sync.WaitGroup
	for _, c := range p.containers {
		all.Go(c.run)
	}
	p.change()
	all.Wait()
	select {
	case <-p.deleted:
		p.remove()
		p.k.forget(p)
	case <-p.k.ctx.Done():
	}
}

func unsupported(object *corev1.Pod) string {
	if len(object.Spec.InitContainers) > 0 {
		return "init containers"
	}
	for _, c := range object.Spec.Containers {
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if probe != nil && probe.HTTPGet == nil && probe.TCPSocket == nil {
				return "probes but httpGet and tcpSocket"
			}
		}
		if c.Lifecycle != nil {
			return "hooks"
		}
	}
	return ""
}

// delete stops the pod, the first time with its grace.
func (p *pod) delete(grace time.Duration) {
	p.once.Do(func() { close(p.deleted) })
	p.stop()
	if grace == 0 {
		p.kill()
		return
	}
	time.AfterFunc(grace, p.kill)
}

// fail ends the pod at once, as the kubelet does by itself.
func (p *pod) fail(reason, message string) {
	p.mu.Lock()
	p.reason, p.message = reason, message
	p.mu.Unlock()
	p.kill()
	p.change()
}

// remove tells the API server that nothing runs any more.
func (p *pod) remove() {
	zero, uid := int64(0), p.object.UID
	_ = p.k.until(func(ctx context.Context) error { // it ends with the test
		if err := p.write(ctx); err != nil {
			return err
		}
		err := p.k.options.Client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &uid},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// change has the status written.
func (p *pod) change() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// report writes the status whenever it has changed.
func (p *pod) report() {
	for {
		select {
		case <-p.k.ctx.Done():
			return
		case <-p.changed:
			if p.k.until(p.write) != nil {
				return
			}
		case <-p.gone:
			return
		}
	}
}
