package frontend

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"plimsoll/engine"
)

// State says whether a worker takes requests.
type State string

// The states of a worker; only a Ready one gets requests. An Unreachable one is ready
// by its list, and does not answer.
const (
	Starting    State = "starting"
	Ready       State = "ready"
	Draining    State = "draining"
	Unreachable State = "unreachable"
)

// Worker is an engine behind the frontend.
type Worker struct {
	Name  string // unique among the workers of the same time
	Role  engine.Role
	URL   string // base URL, without a slash at the end
	State State
}

// Check says what is wrong with a worker.
func (w Worker) Check() error {
	u, err := url.Parse(w.URL)
	switch {
	case w.Name == "":
		return fmt.Errorf("worker at %q: it has no name", w.URL)
	case !slices.Contains(engine.Roles(), w.Role):
		return fmt.Errorf("worker %s: role %q: want aggregated, prefill or decode", w.Name, w.Role)
	case w.State != Starting && w.State != Ready && w.State != Draining:
		return fmt.Errorf("worker %s: state %q: want starting, ready or draining", w.Name, w.State)
	case err != nil:
		return fmt.Errorf("worker %s: URL %q does not parse", w.Name, w.URL) // the error may repeat a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("worker %s: URL %q: want http://host:port", w.Name, u.Redacted())
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("worker %s: URL %q: want no user, query or fragment", w.Name, u.Redacted())
	}
	return nil
}

// mostWorkers bounds a list of workers.
const mostWorkers = 10_000

// ParseWorkers reads a list of workers, role=URL,…; all are ready. They are named
// by their role and place: prefill-0, prefill-1, decode-0.
func ParseWorkers(list string) ([]Worker, error) {
	var out []Worker
	count := map[engine.Role]int{}
	for item := range strings.SplitSeq(list, ",") {
		role, address, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return nil, fmt.Errorf("worker %q: want role=URL", item)
		}
		w := Worker{Role: engine.Role(strings.TrimSpace(role)), URL: strings.TrimRight(strings.TrimSpace(address), "/"), State: Ready}
		w.Name = fmt.Sprintf("%s-%d", w.Role, count[w.Role])
		count[w.Role]++
		if err := w.Check(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o Worker) bool { return o.URL == w.URL }) {
			return nil, fmt.Errorf("worker %s: URL %s is listed twice", w.Name, w.URL)
		}
		if out = append(out, w); len(out) > mostWorkers {
			return nil, fmt.Errorf("more than %d workers", mostWorkers)
		}
	}
	return out, nil
}
