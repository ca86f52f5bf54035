package profile

import "time"

// Client is what a measuring client says of its own part in one measurement.
type Client struct {
	Kernel    bool          `json:"kernel_stamps"`        // instants are the kernel's, not the client's
	Lag       Distribution  `json:"lag"`                  // from the kernel's receive time until the client had read it; N = 0 where not known
	CPU       float64       `json:"cpu_share"`            // of the machine's cores that the client's process took, 0..1
	GCPause   time.Duration `json:"gc_pause_ns"`          // the longest stop of the world
	StartSkew time.Duration `json:"start_skew_ns"`        // between the first and the last send of those due first
	LateP99   time.Duration `json:"late_p99_ns"`          // Sent − Due
	Why       string        `json:"bottleneck,omitempty"` // why the client was the bottleneck; empty = client ok
}

// OK reports whether the latencies are the engine's, not the client's.
func (c Client) OK() bool { return c.Why == "" }
