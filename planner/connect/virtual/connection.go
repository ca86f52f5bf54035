package virtual

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"
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

// reachWithin bounds Reach for one endpoint.
const reachWithin = time.Second

// Reach connects to each endpoint and says what is in the way: a refused
// connection, a certificate that is not trusted. etcd's client does not say; it
// waits for a better time.
func (o Options) Reach(ctx context.Context) error {
	secure, err := o.tls()
	if err != nil {
		return err
	}
	var errs []error
	for _, endpoint := range o.Endpoints {
		if err := reach(ctx, endpoint, secure); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", endpoint, err))
		}
	}
	return errors.Join(errs...)
}

func reach(ctx context.Context, endpoint string, secure *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return errors.New("want a URL such as http://127.0.0.1:2379")
	}
	dial := (&net.Dialer{}).DialContext
	if u.Scheme == "https" {
		dial = (&tls.Dialer{Config: secure}).DialContext
	}
	connection, err := dial(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	return connection.Close()
}
