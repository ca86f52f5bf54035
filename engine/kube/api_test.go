package kube

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// An API server that is nowhere was waited for in silence, as long as one that is
// replaced: three minutes.
func TestPatienceWithAnAPIServer(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, answered := range map[string]bool{"never there": false, "away": true} {
		synctest.Test(t, func(t *testing.T) {
			a, err := connect(&rest.Config{Host: gone.URL}, "ns")
			if err != nil {
				t.Fatal(err)
			}
			a.answered.Store(answered)
			began := time.Now()
			_, err = a.list(t.Context(), podResource(), "")
			if err == nil || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("%s: %v", name, err)
			}
			want := firstPatience
			if answered {
				want = patience
			}
			if took := time.Since(began); took < want || took > want+requestTimeout {
				t.Errorf("%s: gave up after %v, want %v", name, took, want)
			}
		})
	}
}

// One that answered once is waited for.
func TestAnAnswerIsRemembered(t *testing.T) {
	s := newAPIServer(t)
	a, err := connect(s.config(), "ns")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.list(t.Context(), podResource(), ""); err != nil || !a.answered.Load() {
		t.Errorf("%v, answered %t", err, a.answered.Load())
	}
}
