package load

import (
	"context"
	"slices"
	"time"

	"plimsoll/profile"
)

const (
	// ackTries is how many requests of one token are sent with quick acknowledgements,
	// and how many without. The first of each, on a new connection, does not count.
	ackTries = 6
	// ackSlowest is the TTFT beyond which they are not sent: Linux delays
	// acknowledgements by 40 ms, and from the header on, which is less than a fifth.
	ackSlowest = 200 * time.Millisecond
	// ackNoise is what the two groups may differ by.
	ackNoise = 10 * time.Millisecond
)

// probeAcks warns if clients without TCP_QUICKACK get the first token later.
func (c *Client) probeAcks(ctx context.Context, srv server, p *Probe) {
	if !quickAcks || p.TTFT > ackSlowest {
		return
	}
	quick := c.successive(ctx, srv, false)
	ordinary := c.successive(ctx, srv, true)
	p.Warnings = append(p.Warnings, delayedAck(quick, ordinary)...)
}

// successive is the TTFT of small requests sent one after another on one connection.
func (c *Client) successive(ctx context.Context, srv server, ordinary bool) []time.Duration {
	l := c.open(0, false)
	defer l.close()
	l.dialer.ordinary = ordinary
	var ttfts []time.Duration
	for range ackTries {
		r, _ := c.small(ctx, l, srv, 1, l.live, nil)
		if !r.OK() || r.First == 0 {
			return nil
		}
		ttfts = append(ttfts, r.TTFT())
	}
	return ttfts[1:]
}

// delayedAck compares TTFT with quick and with ordinary acknowledgements.
func delayedAck(quick, ordinary []time.Duration) []profile.Warning {
	if len(quick) == 0 || len(ordinary) == 0 {
		return nil
	}
	fast, fastSpread := middle(quick)
	slow, slowSpread := middle(ordinary)
	if slow-fast <= max(ackNoise, fastSpread, slowSpread) {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Millisecond)) / float64(time.Millisecond) }
	return []profile.Warning{profile.Warnf("delayed_ack",
		"clients that keep connections alive get the first token after %g ms, and what was made meanwhile with it. Measured here: %g ms, with TCP_QUICKACK. "+
			"The server sends headers first and does not set TCP_NODELAY: set it there, or have clients set TCP_QUICKACK or open a connection for each request", ms(slow), ms(fast))}
}

// middle gives the median and the interquartile range.
func middle(ds []time.Duration) (median, spread time.Duration) {
	ds = slices.Sorted(slices.Values(ds))
	n := len(ds)
	return ds[n/2], ds[n-1-n/4] - ds[n/4]
}
