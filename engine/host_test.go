package engine

import "testing"

func TestOwnHost(t *testing.T) {
	names := []string{"front.inference.svc", "Front"}
	for host, want := range map[string]bool{
		"": true, "localhost": true, "LOCALHOST:8000": true, "127.0.0.1": true, "10.0.0.1:8000": true, "[::1]": true, "[::1]:8000": true, "[fe80::1%25eth0]:1": true,
		"front.inference.svc": true, "FRONT:80": true,
		"evil.example": false, "evil.example:8000": false, "localhost.evil.example": false, "front.inference.svc.evil.example": false, "127.0.0.1.evil.example": false, ":8000": false, "[localhost": false,
	} {
		if got := OwnHost(host, names); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}
