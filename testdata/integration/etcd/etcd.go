// Package etcd runs real etcd servers within a test's process, on free ports of
// 127.0.0.1.
package etcd

import (
	"net/url"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"plimsoll/testdata/integration/free"
)

// Cluster is one etcd of one or more members.
type Cluster struct {
	// Endpoints are the members' client URLs; they stay over restarts.
	Endpoints []string

	t       testing.TB
	configs []*embed.Config
	members []*embed.Etcd // nil: stopped
}

// Start gives a cluster of so many members that has a leader. Each change is
// made to each member's configuration.
func Start(t testing.TB, members int, changes ...func(*embed.Config)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, members: make([]*embed.Etcd, members)}
	var initial []string
	for i := range members {
		config := embed.NewConfig()
		config.Name, config.Dir = string(rune('a'+i)), t.TempDir()
		config.TickMs, config.ElectionMs = 10, 100
		config.UnsafeNoFsync = true
		config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		config.ListenClientUrls, config.AdvertiseClientUrls = address(t)
		config.ListenPeerUrls, config.AdvertisePeerUrls = address(t)
		for _, change := range changes {
			change(config)
		}
		initial = append(initial, config.Name+"="+config.AdvertisePeerUrls[0].String())
		c.configs = append(c.configs, config)
		c.Endpoints = append(c.Endpoints, config.AdvertiseClientUrls[0].String())
	}
	for _, config := range c.configs {
		config.InitialCluster = strings.Join(initial, ",")
	}
	t.Cleanup(c.Stop)
	c.Restart()
	return c
}

func address(t testing.TB) (listen, advertise []url.URL) {
	u := url.URL{Scheme: "http", Host: free.Address(t)}
	return []url.URL{u}, []url.URL{u}
}

// Restart starts the members that are stopped, with their data, and waits for
// a leader.
func (c *Cluster) Restart() {
	c.t.Helper()
	for i := range c.members {
		if c.members[i] == nil {
			var err error
			if c.members[i], err = embed.StartEtcd(c.configs[i]); err != nil {
				c.t.Fatalf("starting etcd: %v", err)
			}
		}
	}
	for _, m := range c.members {
		select {
		case <-m.Server.ReadyNotify():
		case err := <-m.Err():
			c.t.Fatalf("etcd ended: %v", err)
		case <-time.After(30 * time.Second):
			c.t.Fatal("etcd has no leader after 30 s")
		}
	}
}

// Stop stops all members; StopMember stops one.
func (c *Cluster) Stop() {
	for i := range c.members {
		c.StopMember(i)
	}
}

// StopMember stops one member, if it runs.
func (c *Cluster) StopMember(i int) {
	if c.members[i] != nil {
		c.members[i].Close()
		c.members[i] = nil
	}
}

// Client is a plain client of the cluster.
func (c *Cluster) Client() *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}
