package kubelet_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"plimsoll/testdata/integration/cluster"
)

// forward gives a URL here of a pod's port, until the test ends.
func forward(t *testing.T, c *cluster.Cluster, name string, port int) string {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	at := c.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	stop, up := make(chan struct{}), make(chan struct{})
	f, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", port)}, stop, up, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	t.Cleanup(func() { close(stop) })
	select {
	case <-up:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(10 * time.Second):
		t.Fatal("no port-forward within 10 s")
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0].Local)
}

func get(t *testing.T, url string) (status int, provenance string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body) // only its head is looked at
	_ = response.Body.Close()
	return response.StatusCode, response.Header.Get("X-Plimsoll-Provenance")
}
