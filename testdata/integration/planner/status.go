package planner

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// Status is what the planner's API says of its one deployment.
type Status struct {
	Ready bool `json:"ready"`
	State struct {
		Scaling string
		Pools   []struct {
			Role                                     string
			Want, Ready, Starting, Pending, Draining int
		}
	} `json:"state"`
}

// Pool is how many replicas a pool wants, and how many are ready; -1 where there is none.
func (s Status) Pool(role string) (want, ready int) {
	for _, p := range s.State.Pools {
		if p.Role == role {
			return p.Want, p.Ready
		}
	}
	return -1, -1
}

// Get is the body of a 200.
func Get(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, b)
	}
	return string(b), err
}

// StatusOf asks a planner that answers.
func StatusOf(t testing.TB, site string) Status {
	t.Helper()
	body, err := Get(site + "/api/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Deployments []Status }
	if err := json.Unmarshal([]byte(body), &all); err != nil || len(all.Deployments) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	return all.Deployments[0]
}
