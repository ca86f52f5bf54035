package profile

import (
	"cmp"
	"fmt"
	"time"
)

// Server is what an engine itself counted of a load, beside this client's records of the
// same requests.
type Server struct {
	TTFT Compared `json:"ttft"`
	ITL  Compared `json:"itl"`
}

// Compared is the mean of one latency by both, over as many observations; N is 0 where the
// engine does not tell.
type Compared struct {
	N      int           `json:"n"`
	Server time.Duration `json:"server_ns"`
	Client time.Duration `json:"client_ns"`
}

// Both is a mean of the engine's and of the client's beside it, where they are of the same
// observations; else nothing, as other clients' requests may be among the engine's.
func Both(server, client Observed) Compared {
	const strays = 0.02 // of a load that was cut off
	if off := server.N - client.N; client.N == 0 || float64(max(off, -off)) > strays*float64(client.N) {
		return Compared{}
	}
	return Compared{N: client.N, Server: server.Of, Client: client.Of}
}

// Observed is a mean over N observations.
type Observed struct {
	N  int
	Of time.Duration
}

// Means are the client's of TTFT, and of the gaps between chunks, that end in a window.
func Means(rs []Request, w Window) (ttft, itl Observed) {
	var first, gaps time.Duration
	for _, r := range rs {
		if t := r.TTFT(); t > 0 && w.holds(r.First) {
			first += t
			ttft.N++
		}
		for i := 1; i < len(r.Chunks); i++ {
			if w.holds(r.Chunks[i].At) {
				gaps += r.Chunks[i].At - r.Chunks[i-1].At
				itl.N++
			}
		}
	}
	ttft.Of, itl.Of = first/time.Duration(max(ttft.N, 1)), gaps/time.Duration(max(itl.N, 1))
	return ttft, itl
}

// A client's mean may differ from the engine's by 3 % and a fixed time. For TTFT that is 2 ms:
// the engine counts neither its HTTP server nor the network. Every token takes that way, so the
// gaps between tokens hardly change, and 0.5 ms is enough. Fewer than three observations are
// not compared: a single delay would decide.
const (
	serverShare = 0.03
	serverTTFT  = 2 * time.Millisecond
	serverITL   = time.Millisecond / 2
	serverLeast = 3
)

// agrees reports whether both say the same, or too little to differ.
func (c Compared) agrees(fixed time.Duration) bool {
	off := c.Client - c.Server
	return c.N < serverLeast || max(off, -off) <= fixed+time.Duration(serverShare*float64(c.Server))
}

// Warnings say where the client's means are not the engine's own.
func (s *Server) Warnings() (ws []Warning) {
	if s == nil {
		return nil
	}
	for _, l := range []struct {
		name string
		Compared
		fixed time.Duration
	}{{"TTFT", s.TTFT, serverTTFT}, {"ITL", s.ITL, serverITL}} {
		if l.agrees(l.fixed) {
			continue
		}
		off := Milliseconds(l.Client - l.Server)
		text := fmt.Sprintf("mean %s is %.1f ms here and %.1f ms by the engine's own count of the same requests", l.name, Milliseconds(l.Client), Milliseconds(l.Server))
		if off > 0 {
			text += fmt.Sprintf(": %.1f ms are lost between them, on the way, in a proxy or on this machine", off)
		} else {
			text += ". One of them is wrong: compare with another client"
		}
		ws = append(ws, Warnf("server_differs", "%s", text).By(max(off, -off)/Milliseconds(l.Server)))
	}
	return ws
}

// With is what is said of two loads together.
func (s *Server) With(o *Server) *Server {
	if s == nil || o == nil {
		return cmp.Or(s, o)
	}
	return &Server{TTFT: s.TTFT.with(o.TTFT), ITL: s.ITL.with(o.ITL)}
}

func (c Compared) with(o Compared) Compared {
	n := c.N + o.N
	mean := func(a, b time.Duration) time.Duration {
		return (time.Duration(c.N)*a + time.Duration(o.N)*b) / time.Duration(max(n, 1))
	}
	return Compared{N: n, Server: mean(c.Server, o.Server), Client: mean(c.Client, o.Client)}
}
