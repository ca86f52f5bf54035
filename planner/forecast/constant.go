package forecast

import (
	"fmt"
	"math"
)

// constant predicts the last value: right for a random walk.
type constant struct {
	Last float64 `json:"last"`
}

func (c *constant) observe(window []float64) {
	if v := window[len(window)-1]; !math.IsNaN(v) {
		c.Last = v
	}
}

func (c *constant) resume([]float64) error {
	if !(c.Last >= 0 && c.Last <= MaxValue) {
		return fmt.Errorf("last value is %v: want 0 to %g", c.Last, float64(MaxValue))
	}
	return nil
}

func (c *constant) forecast(int) float64 { return c.Last }
