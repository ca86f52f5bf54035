package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoContexts = `
apiVersion: v1
kind: Config
current-context: first
clusters:
  - {name: a, cluster: {server: "https://a.example:6443"}}
  - {name: b, cluster: {server: "https://b.example:6443"}}
contexts:
  - {name: first, context: {cluster: a, user: u, namespace: serving}}
  - {name: second, context: {cluster: b, user: u}}
users:
  - {name: u, user: {token: t}}
`

func TestConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(twoContexts), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	for name, c := range map[string]struct {
		c               Connection
		variable        string // $KUBECONFIG
		host, namespace string
		wrong           string // in the error
	}{
		"current context":     {Connection{Kubeconfig: path}, "", "https://a.example:6443", "serving", ""},
		"another context":     {Connection{Kubeconfig: path, Context: "second"}, "", "https://b.example:6443", "default", ""},
		"a namespace":         {Connection{Kubeconfig: path, Namespace: "mine"}, "", "https://a.example:6443", "mine", ""},
		"the variable":        {Connection{}, path, "https://a.example:6443", "serving", ""},
		"an unknown context":  {Connection{Kubeconfig: path, Context: "third"}, "", "", "", `context "third" does not exist`},
		"a file that is not":  {Connection{Kubeconfig: path + "x"}, "", "", "", "--kubeconfig FILE"},
		"no cluster anywhere": {Connection{}, path + "x", "", "", "in a pod its service account is taken"},
	} {
		t.Setenv("KUBECONFIG", c.variable)
		config, namespace, err := c.c.Config()
		if err != nil {
			if c.wrong == "" || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: error is %v, want %q", name, err, c.wrong)
			}
			continue
		}
		if config.Host != c.host || namespace != c.namespace || config.Timeout <= 0 || config.UserAgent != "plimsoll" {
			t.Errorf("%s: %s, %s, %v, %s", name, config.Host, namespace, config.Timeout, config.UserAgent)
		}
	}
}
