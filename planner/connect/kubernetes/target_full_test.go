//go:build full

package kubernetes

import (
	"strings"
	"testing"
)

func TestNobodyAnswers(t *testing.T) {
	s := newAPIServer(t, twoDeployments())
	target := newTarget(t, s, nil)
	s.Close()
	_, err := target.State(t.Context())
	if err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "is the kubeconfig's server the right one") {
		t.Errorf("error is %v", err)
	}
}
