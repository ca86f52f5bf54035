package policy

import (
	"encoding/json"
	"fmt"
)

// restored reads a policy's state and makes sure that it is that policy's.
func restored(b json.RawMessage, into any, policy *string, want string) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("it is not the state of a policy: %w", err)
	}
	if *policy != want {
		return fmt.Errorf("it is of the policy %q, not of %s", *policy, want)
	}
	return nil
}
