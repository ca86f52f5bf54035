package forecast

import (
	"errors"
	"math"
)

// smoothed predicts an exponentially smoothed level, which each value moves
// towards itself by weight: right for a random walk measured with noise. It is
// for auto, in two weights.
type smoothed struct {
	Begun bool    `json:"begun"`
	Level float64 `json:"level"`

	weight float64
}

func (s *smoothed) observe(window []float64) {
	v := window[len(window)-1]
	switch {
	case math.IsNaN(v):
	case !s.Begun:
		s.Begun, s.Level = true, v
	default:
		s.Level += s.weight * (v - s.Level)
	}
}

func (s *smoothed) resume([]float64) error {
	if !s.Begun || !(s.Level >= 0 && s.Level <= MaxValue) {
		return errors.New("smoothed: level out of range")
	}
	return nil
}

func (s *smoothed) forecast(int) float64 { return s.Level }
