// Package trace gives the requests of a workload, one Arrival after the other:
// when each is due, how long its prompt and its answer are, and which blocks of
// its prompt others share.
//
// It generates them (Generate, from a Spec and a seed) or reads them (Open,
// from a file that someone recorded), changes them (Between, Thin, Superpose, …) and
// sums them up (Summarize). All of these speak one type, Trace, and none holds
// more than a few arrivals at once, however long the trace is; where one does,
// its comment says so.
//
// The package is pure: a trace is a function of its arguments, seeds among
// them, and of the bytes of its reader.
package trace

import (
	"fmt"
	"iter"
	"math"
	"time"
)

// MaxTokens bounds the length of a prompt and of an answer, far beyond any use:
// sums over a trace stay in range.
const MaxTokens = 1 << 24

// An Arrival is one request of a trace.
type Arrival struct {
	At  time.Duration // since the trace's start; never before the arrival that precedes it
	ISL int           // prompt tokens, 1 to MaxTokens
	OSL int           // output tokens, 1 to MaxTokens

	// Blocks are ids of the prompt's blocks of BlockTokens tokens, from its
	// head: two prompts with the same first k ids have the same first k blocks.
	// The last may be a part of a block, where ISL is no multiple. Nil shares
	// nothing. The slice is the receiver's, to keep.
	Blocks      []uint64
	BlockTokens int // of each block but the last; 0 where Blocks is nil

	Line int // of the file; 0 where generated
}

// A Trace is a sequence of arrivals in order of time. An error ends it. One
// that was generated can be ranged over again and gives the same arrivals; one
// that was read from a file, and what is made of it, only once.
type Trace = iter.Seq2[Arrival, error]

// Of is the trace of the arrivals given, which have to be in order of time.
func Of(arrivals ...Arrival) Trace {
	return func(yield func(Arrival, error) bool) {
		for _, a := range arrivals {
			if !yield(a, nil) {
				return
			}
		}
	}
}

// Collect holds a whole trace in memory, up to its first error.
func Collect(t Trace) ([]Arrival, error) {
	var all []Arrival
	for a, err := range t {
		if err != nil {
			return all, err
		}
		all = append(all, a)
	}
	return all, nil
}

// seconds is s as a Duration, and whether there is one so long.
func seconds(s float64) (time.Duration, bool) {
	ns := math.Round(s * 1e9)
	return time.Duration(ns), ns >= 0 && ns < math.MaxInt64
}

// within complains about a v outside lo to hi, NaN included.
func within(name string, v, lo, hi float64) error {
	if v >= lo && v <= hi {
		return nil
	}
	return fmt.Errorf("%s %v is out of range: want %.10g to %.10g", name, v, lo, hi)
}
