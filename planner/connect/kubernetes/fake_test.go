package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v1"
	"k8s.io/client-go/rest"

	"plimsoll/engine"
)

// apiServer answers from a map of paths as an API server would, and keeps what
// was asked. It understands a merge patch of /spec/replicas on a scale and
// nothing more: what patches do to objects is tested on a real API server.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]string // path → JSON
	asked   []string          // METHOD path?query body
	// fault answers in its place, where it gives true; n counts the requests to a path.
	fault func(w http.ResponseWriter, r *http.Request, n int) bool
	seen  map[string]int
}

func newAPIServer(t *testing.T, objects map[string]string) *apiServer {
	t.Helper()
	s := &apiServer{objects: objects, seen: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) config() *rest.Config { return &rest.Config{Host: s.URL, QPS: -1} }

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	line := r.Method + " " + r.URL.Path
	if r.URL.RawQuery != "" {
		line += "?" + r.URL.RawQuery
	}
	s.asked = append(s.asked, strings.TrimSpace(line+" "+string(body)))
	s.seen[r.URL.Path]++
	w.Header().Set("Content-Type", "application/json")
	if s.fault != nil && s.fault(w, r, s.seen[r.URL.Path]) {
		return
	}
	s.answer(w, r, body)
}

func (s *apiServer) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
		return
	}
	at := r.URL.Path
	if selector := r.URL.Query().Get("labelSelector"); selector != "" {
		at += "?" + selector
	}
	object, ok := s.objects[at]
	if !ok {
		notFound(w, at)
		return
	}
	if r.Method == http.MethodPatch && strings.HasSuffix(at, "/scale") {
		var patch autoscaling.Scale
		_ = json.Unmarshal(body, &patch)
		object = scaleJSON(int(patch.Spec.Replicas), "app=x")
		s.objects[at] = object
	}
	_, _ = io.WriteString(w, object)
}

// patches are the patches that arrived.
func (s *apiServer) patches() []string { return s.requests(http.MethodPatch) }

func (s *apiServer) requests(method string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, a := range s.asked {
		if strings.HasPrefix(a, method) {
			found = append(found, a)
		}
	}
	return found
}

func status(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)
}

// notFound is what the API server says of an object that is not there; of a kind
// that it does not serve it says "404 page not found".
func notFound(w http.ResponseWriter, path string) {
	status(w, 404, "NotFound", path+" not found")
}

func scaleJSON(n int, selector string) string {
	return fmt.Sprintf(`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"x"},"spec":{"replicas":%d},"status":{"replicas":%d,"selector":%q}}`, n, n, selector)
}

const deployments = "/apis/apps/v1/namespaces/ns/deployments/"

// twoDeployments are prefill and decode, 2 replicas each, one pod of which is ready.
func twoDeployments() map[string]string {
	objects := map[string]string{}
	for _, name := range []string{"prefill", "decode"} {
		objects[deployments+name] = fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":"ns","uid":"u"},
			"spec":{"template":{"spec":{"containers":[{"name":"engine","args":["--model","m"],"resources":{"limits":{"nvidia.com/gpu":"4"}}}]}}}}`, name)
		objects[deployments+name+"/scale"] = scaleJSON(2, "app=x")
	}
	objects["/api/v1/namespaces/ns/pods?app=x"] = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
		{"metadata":{"name":"a"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}},
		{"metadata":{"name":"b"},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"4 Insufficient nvidia.com/gpu"}]}}]}`
	return objects
}

func newTarget(t *testing.T, s *apiServer, change func(*Options)) *Target {
	t.Helper()
	o := Options{Namespace: "ns", Targets: map[engine.Role]string{
		engine.RolePrefill: "apps/v1/Deployment/prefill", engine.RoleDecode: "apps/v1/Deployment/decode",
	}}
	if change != nil {
		change(&o)
	}
	target, err := New(s.config(), o)
	if err != nil {
		t.Fatal(err)
	}
	return target
}
