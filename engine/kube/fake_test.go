package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// apiServer keeps objects as an API server would, by path, and knows create, get,
// list by labels, merge patches of one level, delete, and what the user may not
// do. All else is tested on a real one.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]map[string]any // path → object
	asked   []string                  // METHOD path
	denied  []string                  // "verb resource"
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string]map[string]any{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) config() *rest.Config { return &rest.Config{Host: s.URL} }

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	var body map[string]any
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &body)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		at := body["spec"].(map[string]any)["resourceAttributes"].(map[string]any)
		what := fmt.Sprint(at["verb"], " ", at["resource"])
		if at["subresource"] != "" {
			what += fmt.Sprint("/", at["subresource"])
		}
		body["status"] = map[string]any{"allowed": !slices.Contains(s.denied, what)}
		answer(w, http.StatusCreated, body)
	case r.Method == http.MethodPost:
		s.create(w, r.URL.Path, body)
	case r.Method == http.MethodGet && s.objects[r.URL.Path] == nil:
		s.list(w, r)
	case s.objects[r.URL.Path] == nil:
		status(w, http.StatusNotFound, "NotFound", r.URL.Path+" not found")
	case r.Method == http.MethodPatch:
		merge(s.objects[r.URL.Path], body)
		answer(w, http.StatusOK, s.objects[r.URL.Path])
	case r.Method == http.MethodDelete:
		answer(w, http.StatusOK, s.objects[r.URL.Path])
		delete(s.objects, r.URL.Path)
	default:
		answer(w, http.StatusOK, s.objects[r.URL.Path])
	}
}

func (s *apiServer) create(w http.ResponseWriter, path string, body map[string]any) {
	about := body["metadata"].(map[string]any)
	at := path + "/" + fmt.Sprint(about["name"])
	if s.objects[at] != nil {
		status(w, http.StatusConflict, "AlreadyExists", at+" already exists")
		return
	}
	about["uid"] = fmt.Sprint("uid-", len(s.asked))
	s.objects[at] = body
	answer(w, http.StatusCreated, body)
}

// list answers a watch with nothing, as if nothing ever changed.
func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	items := []any{}
	for path, o := range s.objects {
		rest, in := strings.CutPrefix(path, r.URL.Path+"/")
		if in && !strings.Contains(rest, "/") && matches(o, r.URL.Query().Get("labelSelector")) {
			items = append(items, o)
		}
	}
	switch {
	case strings.Count(r.URL.Path, "/") > 0 && r.URL.Query().Get("watch") != "":
		status(w, http.StatusUnprocessableEntity, "Invalid", "no watches here")
	case len(items) == 0 && strings.HasSuffix(r.URL.Path, "/leaderworkersets"):
		http.NotFound(w, r)
	default:
		kind := map[string]string{"nodes": "NodeList", "pods": "PodList"}[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]] // a typed client is particular
		answer(w, http.StatusOK, map[string]any{"kind": cmp.Or(kind, "List"), "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	}
}

func matches(o map[string]any, selector string) bool {
	labels, _ := o["metadata"].(map[string]any)["labels"].(map[string]any)
	for word := range strings.SplitSeq(selector, ",") {
		key, value, equal := strings.Cut(word, "=")
		if key != "" && (labels[key] == nil || equal && labels[key] != value) {
			return false
		}
	}
	return true
}

func merge(o, patch map[string]any) {
	for k, v := range patch {
		below, isMap := v.(map[string]any)
		old, wasMap := o[k].(map[string]any)
		switch {
		case v == nil:
			delete(o, k)
		case isMap && wasMap:
			merge(old, below)
		default:
			o[k] = v
		}
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func status(w http.ResponseWriter, code int, reason, message string) {
	answer(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})
}

// put keeps an object with labels, without asking anybody.
func (s *apiServer) put(path, kind string, labels map[string]any, more map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": path[strings.LastIndexByte(path, '/')+1:], "namespace": "ns", "labels": labels}}
	merge(o, more)
	s.objects[path] = o
}

func (s *apiServer) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for path := range s.objects {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}
