package engine

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// OwnHost reports whether a request's Host header may name a server of ours: an
// address, localhost or one of the names; or nothing, which no browser sends. It keeps
// a foreign page from reading the server through a name of its own that it points
// here (DNS rebinding).
func OwnHost(header string, names []string) bool {
	host := (&url.URL{Host: header}).Hostname()
	_, err := netip.ParseAddr(host)
	named := func(name string) bool { return strings.EqualFold(host, name) }
	return err == nil || header == "" || named("localhost") || slices.ContainsFunc(names, named)
}
