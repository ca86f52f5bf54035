package forecast

import (
	"encoding/json"
	"math"
)

// gapped are values of which NaN are missing: null in JSON.
type gapped []float64

// MarshalJSON is for Save.
func (g gapped) MarshalJSON() ([]byte, error) {
	values := make([]*float64, len(g))
	for i := range g {
		if !math.IsNaN(g[i]) {
			values[i] = &g[i]
		}
	}
	return json.Marshal(values)
}

// UnmarshalJSON is for Restore.
func (g *gapped) UnmarshalJSON(data []byte) error {
	var values []*float64
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	*g = make(gapped, len(values))
	for i, v := range values {
		(*g)[i] = math.NaN()
		if v != nil {
			(*g)[i] = *v
		}
	}
	return nil
}
