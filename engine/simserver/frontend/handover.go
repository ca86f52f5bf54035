package frontend

import (
	"encoding/json"
	"fmt"

	"plimsoll/engine"
)

// handOver takes a request from the prefill worker, whose answer tells where the KV
// is, to a decode worker, which gives all tokens.
func (c *call) handOver(a answer) error {
	data, err := readAll(a)
	a.done()
	if err != nil {
		return err
	}
	var prefilled struct {
		Transfer json.RawMessage `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal(data, &prefilled); err != nil {
		return broken(a.place, fmt.Errorf("it is no answer: %.200s", data))
	}
	b, err := c.send(second, func(engine.Role) ([]byte, error) {
		return c.q.counted(map[string]any{"kv_transfer_params": prefilled.Transfer})
	})
	if err != nil {
		return err
	}
	defer b.done()
	return c.pass(b)
}
