package main

import (
	"github.com/urfave/cli/v2"

	"plimsoll/planner/connect/virtual"
)

// etcdFlags say where a deployment's decisions are, to whoever writes or reads
// them. The names in the environment are Dynamo's.
func etcdFlags() []cli.Flag {
	const category = "etcd"
	return []cli.Flag{
		&cli.StringFlag{Name: "namespace", Value: "dynamo", Usage: "`NAME` of the deployment", EnvVars: []string{"DYN_NAMESPACE"}, Category: category},
		&cli.StringFlag{Name: "etcd-endpoints", Value: "http://127.0.0.1:2379", Usage: "`URLS` of etcd's members, with commas between", EnvVars: []string{"ETCD_ENDPOINTS"}, Category: category},
		&cli.StringFlag{Name: "etcd-user", Usage: "`NAME` to log in with; the password is taken from $ETCD_AUTH_PASSWORD", EnvVars: []string{"ETCD_AUTH_USERNAME"}, Category: category},
		&cli.StringFlag{Name: "etcd-password", Hidden: true, EnvVars: []string{"ETCD_AUTH_PASSWORD"}, Category: category},
		&cli.StringFlag{Name: "etcd-ca", Usage: "PEM `FILE` of the authority of etcd's certificate", EnvVars: []string{"ETCD_AUTH_CA"}, Category: category},
		&cli.StringFlag{Name: "etcd-cert", Usage: "PEM `FILE` of the client's certificate", EnvVars: []string{"ETCD_AUTH_CLIENT_CERT"}, Category: category},
		&cli.StringFlag{Name: "etcd-key", Usage: "PEM `FILE` of the certificate's key", EnvVars: []string{"ETCD_AUTH_CLIENT_KEY"}, Category: category},
	}
}

func etcdOptions(c *cli.Context) virtual.Options {
	return virtual.Options{
		Endpoints: fields(c.String("etcd-endpoints")),
		Namespace: c.String("namespace"),
		User:      c.String("etcd-user"), Password: c.String("etcd-password"),
		CA: c.String("etcd-ca"), Cert: c.String("etcd-cert"), Key: c.String("etcd-key"),
	}
}
