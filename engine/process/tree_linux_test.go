package process

import (
	"net"
	"os"
	"strings"
	"testing"
)

func TestForeignListener(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", ":0"} {
		var lc net.ListenConfig
		l, err := lc.Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if who, foreign := foreignListener(nil, port); !foreign || !strings.Contains(who, "this program") {
			t.Errorf("%s: %q is not foreign to an empty tree", addr, who)
		}
		if who, foreign := foreignListener([]int{os.Getpid()}, port); foreign {
			t.Errorf("%s: %s is foreign to itself", addr, who)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if who, foreign := foreignListener(nil, port); foreign {
			t.Errorf("%s: %q listens on a closed port", addr, who)
		}
	}
}

func TestReadStat(t *testing.T) {
	s, ok := readStat(os.Getpid())
	if !ok || s.pid != os.Getpid() || s.parent != os.Getppid() || s.zombie {
		t.Errorf("got %+v, %v", s, ok)
	}
	if s, ok := readStat(-1); ok {
		t.Errorf("got %+v for no process", s)
	}
}
