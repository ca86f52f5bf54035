package store

import (
	"strings"
	"time"

	"plimsoll/profile"
)

// ClientOK is the verdict on a client that was nowhere the bottleneck.
const ClientOK = "client ok"

// Client is what run.json says of the measuring client's own part.
type Client struct {
	Verdict   string        `json:"verdict"`          // ClientOK, or at which points it was the bottleneck
	Rule      string        `json:"rule,omitempty"`   // by which the verdict is given, in words
	Points    []string      `json:"points,omitempty"` // ids of those points; they are invalid
	Kernel    bool          `json:"kernel_stamps"`    // instants are the kernel's: LagP99 is in no latency
	LagP99    time.Duration `json:"lag_p99_ns"`       // the worst of any point; 0 = not known
	CPU       float64       `json:"cpu_share"`        // likewise, 0..1 of the cores that it may use
	GCPause   time.Duration `json:"gc_pause_ns"`      // likewise
	StartSkew time.Duration `json:"start_skew_ns"`    // likewise
}

// NewClient sums up what the client said of itself at each point; nil where it
// said nothing.
func NewClient(points []profile.Point) *Client {
	var c Client
	judged := false
	for _, p := range points {
		if p.Client == nil {
			continue
		}
		judged = true
		c.Kernel = c.Kernel || p.Client.Kernel // false of a point where nothing came
		c.LagP99, c.CPU = max(c.LagP99, p.Client.Lag.P99), max(c.CPU, p.Client.CPU)
		c.GCPause, c.StartSkew = max(c.GCPause, p.Client.GCPause), max(c.StartSkew, p.Client.StartSkew)
		if !p.Client.OK() {
			c.Points = append(c.Points, p.ID)
		}
	}
	if !judged {
		return nil
	}
	c.Verdict = ClientOK
	if len(c.Points) > 0 {
		c.Verdict = "client was the bottleneck at " + strings.Join(c.Points, ", ")
	}
	return &c
}
