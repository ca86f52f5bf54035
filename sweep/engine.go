package sweep

import (
	"context"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Launcher starts engines.
type Launcher interface {
	// Launch starts an engine and returns when it answers, or says why it never
	// did. The caller stops what it gets.
	Launch(ctx context.Context, cfg engine.Config) (*Instance, error)
}

// Measurer sends load to one engine.
type Measurer interface {
	// Measure sends w and returns one record per request; failures are records.
	// The error is for a load that could not be sent at all.
	Measure(ctx context.Context, w profile.Workload) (Measurement, error)
}

// Measurement is what came back from one load.
type Measurement struct {
	Requests []profile.Request
	Running  []Running         // the engine's own count while it ran; empty where it has none
	Warnings []profile.Warning // what puts the client's part in the records in doubt
	Client   *profile.Client   // what the client says of itself; nil in virtual time
	Cached   *float64          // share of prompt tokens from the prefix cache, by the engine's own counts; nil = unknown
	Server   *profile.Server   // what the engine itself counted of them; nil where it does not tell
	Machine  *profile.Machine  // what others took of the machine meanwhile; nil where that is not known
	Window   profile.Window    // the part that counts, where the measurer cut it; zero = the caller cuts
	Void     string            // why it must not count ("2 preemptions"); empty = it may
	Broken   *profile.Request  // the stream of stairs that failed and made it void; nil = none did
}

// summarize is profile.Summarize; where the records do not tell what came from the
// prefix cache, the engine's own counts do.
func (m Measurement) summarize(rs []profile.Request, w profile.Window) profile.Summary {
	s := profile.Summarize(rs, w)
	if math.IsNaN(s.Cached) && m.Cached != nil {
		s.Cached = *m.Cached
	}
	return s
}

// Stairs is a set of streams that decode for as long as the sweep looks on: one
// fill serves many in-flight levels, and contexts grow meanwhile.
type Stairs interface {
	// Level brings the streams to n (cancels the latest, or sends more), waits
	// until all stream and the engine runs n, and measures until each has given
	// tokens more. The records hold the chunks of that window only (Before says
	// how many there were); such a request has neither usage nor an end. Level
	// with the same n goes on where it stopped. An error is for a level that
	// could not be had: growth used up (profile.ErrGrown), the engine gone.
	Level(ctx context.Context, n, tokens int) (Measurement, error)
	// Close cancels what streams, and waits until the engine is idle.
	Close(ctx context.Context) error
}

// Running is what the engine itself says of its requests at one instant, on the
// same base as the records. NaN where it does not tell.
type Running struct {
	At        time.Duration
	N         float64 // that run; always known
	Waiting   float64 // that wait
	Preempted float64 // ever
}

// Instance is an engine that answers.
type Instance struct {
	Facts    profile.EngineFacts
	Measurer Measurer
	// Found: it ran before, and nothing was started.
	Found bool
	// Climb begins Stairs: w.ISL and w.OSL are of each stream, OSL the most that
	// it may give before the stairs end; w.InFlight is the most at once. nil
	// where the engine cannot.
	Climb func(ctx context.Context, w profile.Workload) (Stairs, error)
	// Busy is for how long the engine has worked, or was held, in its own time
	// since its start; nil = as long as the clock on the wall says.
	Busy func() time.Duration
	// Play sends requests at instants of their own, one record each; stop is asked
	// after each that ended, one call at a time, and ends the load by true. A load
	// that something else came between is Void, and may be sent again. nil where
	// the engine cannot be loaded so.
	Play func(ctx context.Context, s profile.Script, stop func(profile.Request) bool) (Measurement, error)
	// Surfaces is what surfaces are measured on instead: the same engine in virtual
	// time. nil = this one.
	Surfaces *Instance
	// Died returns why the engine ended, nil while it runs.
	Died func() error
	// Stop ends the engine; it is called exactly once.
	Stop func(context.Context) error
}
