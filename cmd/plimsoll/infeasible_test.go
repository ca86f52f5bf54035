package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"plimsoll/engine/field"
)

// That nothing meets the SLA is said already; what failed beside it is not.
func TestFailuresBesideInfeasible(t *testing.T) {
	t.Parallel()
	nothing := &infeasibleError{msg: "nothing meets the SLA"}
	left := field.WithHint(errors.New("deleting deployment plimsoll-tp1: forbidden"), "kubectl delete it")
	const said = "plimsoll: error: deleting deployment plimsoll-tp1: forbidden\nplimsoll: hint: kubectl delete it\n"
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nothing, exitInfeasible, ""},
		{errors.Join(nothing, nil), exitInfeasible, ""},
		{fmt.Errorf("profiling: %w", errors.Join(nil, nothing)), exitInfeasible, ""},
		{errors.Join(nothing, left), exitFailed, said},
		{errors.Join(errors.Join(left, nothing), nil), exitFailed, said},
	} {
		var out bytes.Buffer
		if code := report(context.Background(), &out, c.err); code != c.code || out.String() != c.want {
			t.Errorf("%v: exit code %d, said %q", c.err, code, &out)
		}
	}
}
