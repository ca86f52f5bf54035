//go:build full

package main

import (
	"strings"
	"testing"

	"plimsoll/engine/enginetest"
)

// serveAffine starts one and gives its address.
func serveAffine(t *testing.T) (url string) {
	t.Helper()
	p := startAs(t, "affineengine", nil)
	enginetest.Eventually(t, "the server's address", func() bool {
		line, _, ok := strings.Cut(p.out.String(), "\n")
		url = line
		return ok
	})
	return url
}
