// Command answers says what this program's planner reads from a profile's decode
// surface.
//
// usage: answers DIR <QUESTIONS
//
// QUESTIONS is a JSON object. "at" has pairs of KV use and context (tokens); each is
// answered with ITL (ms) and output tokens/s/GPU. "best" has pairs of an ITL limit
// (ms) and a context; each is answered with the KV use of the largest load within
// the limit, or null where no load is.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"plimsoll/interpolation"
	"plimsoll/profile/store"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "answers:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: answers DIR <QUESTIONS")
	}
	var questions struct{ At, Best [][2]float64 }
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		return err
	}
	surface, err := store.LoadDecode(os.Args[1], store.LoadOptions{})
	if err != nil {
		return err
	}
	fit, err := interpolation.FitDecode(surface, 1) // the throughput per GPU is the file's, whatever their number
	if err != nil {
		return err
	}
	var answers struct {
		At   [][2]float64 `json:"at"`
		Best []*float64   `json:"best"`
	}
	for _, q := range questions.At {
		itl := fit.ITL(q[0], q[1]).Value
		answers.At = append(answers.At, [2]float64{itl.Seconds() * 1e3, fit.ThroughputPerGPU(q[0], q[1]).Value})
	}
	for _, q := range questions.Best {
		var usage *float64
		if b := fit.BestThroughput(time.Duration(q[0]*1e6), q[1]); b.Feasible {
			usage = &b.KVUsage
		}
		answers.Best = append(answers.Best, usage)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}
