package virtual

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

func (o Options) tls() (*tls.Config, error) {
	if o.CA == "" && o.Cert == "" && o.Key == "" {
		return nil, nil //nolint:nilnil // none is wanted: the endpoints' scheme decides
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		ca, err := readPEM(o.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("etcd's authority: no PEM certificates in it")
		}
	}
	if o.Cert != "" {
		cert, err := readPEM(o.Cert)
		if err != nil {
			return nil, err
		}
		key, err := readPEM(o.Key)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("etcd's client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// readPEM takes the text itself too, which is what Dynamo has in its environment.
func readPEM(textOrPath string) ([]byte, error) {
	if strings.HasPrefix(textOrPath, "-----BEGIN ") {
		return []byte(textOrPath), nil
	}
	return os.ReadFile(textOrPath)
}
