package cluster

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plimsoll/engine/field"
)

// Connection says where the cluster is. The zero value is kubectl's choice:
// $KUBECONFIG, then ~/.kube/config, then the pod that the program runs in.
type Connection struct {
	Kubeconfig string // path
	Context    string // of the kubeconfig; empty: its current one
	Namespace  string // empty: the context's, or the pod's own
}

// requestTimeout bounds one request.
const requestTimeout = 20 * time.Second

// Manager is the name that owns what the program writes on a cluster.
const Manager = "plimsoll"

// Config gives the client's configuration and the namespace.
func (c Connection) Config() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("finding the cluster: %w (hint: "+field.Kubeconfig+" FILE, "+field.Context+" NAME; in a pod its service account is taken)", err)
	}
	namespace := c.Namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, "", fmt.Errorf("finding the namespace: %w (hint: "+field.KubeNamespace+" NAME)", err)
		}
	}
	config.Timeout = requestTimeout
	config.UserAgent = Manager
	config.WarningHandler = rest.NoWarnings{} // of deprecated versions; both are known here
	return config, namespace, nil
}
