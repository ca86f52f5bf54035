package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The administrator's token; it is good for this one cluster on this machine.
const token = "administrator"

// certificate is what the API server makes itself, with its authority.
const certificate = "apiserver.crt"

func (c *Cluster) certificates() string { return filepath.Join(c.dir, "certificates") }

// KubeconfigOf writes a kubeconfig for a user, who may do nothing but what
// roles are bound to that name ("system:serviceaccount:NAMESPACE:NAME" for a
// service account), and gives its path. An empty name is the administrator.
func (c *Cluster) KubeconfigOf(user string) string {
	c.t.Helper()
	return c.must(c.writeKubeconfig(user, "", api.AuthInfo{Token: token, Impersonate: user}))
}

// KubeconfigOfAccount is for a service account that there is, with a token of its
// own as its pods have; its namespace is the account's.
func (c *Cluster) KubeconfigOfAccount(namespace, name string) string {
	c.t.Helper()
	seconds := int64(3600)
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds}}
	made, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(c.t.Context(), name, request, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.must(c.writeKubeconfig(namespace+"/"+name, namespace, api.AuthInfo{Token: made.Status.Token}))
}

func (c *Cluster) writeKubeconfig(name, namespace string, as api.AuthInfo) (string, error) {
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: c.url, CertificateAuthority: filepath.Join(c.certificates(), certificate)}
	config.AuthInfos["test"] = &as
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test", Namespace: namespace}
	config.CurrentContext = "test"
	path := filepath.Join(c.dir, "kubeconfig"+strings.NewReplacer(":", "-", "/", "-").Replace(name))
	return path, clientcmd.WriteToFile(*config, path)
}

func (c *Cluster) must(path string, err error) string {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	return path
}

// ConfigOf is a client's configuration for such a user.
func (c *Cluster) ConfigOf(user string) *rest.Config {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.KubeconfigOf(user))
	if err != nil {
		c.t.Fatal(err)
	}
	// Tests poll; the default of 5 requests per second is for one well-behaved
	// program.
	config.QPS, config.Burst = 200, 200
	return config
}

// A row is token, user, user id, groups.
func (c *Cluster) writeTokens() string {
	return c.write("tokens.csv", []byte(token+",administrator,1,system:masters\n"))
}

func (c *Cluster) writeServiceAccountKey() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write("service-account.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func (c *Cluster) write(name string, data []byte) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}
