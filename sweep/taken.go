package sweep

import "plimsoll/profile"

// hopeless is after how many repeats in a row that were disturbed too no load is repeated
// any more, until one was not disturbed: the machine is simply shared.
const hopeless = 3

// repeats reports whether a load is to be sent once more because others held the machine,
// and notes in repeated that it was.
func (r *runner) repeats(m *profile.Machine, repeated *bool) bool {
	switch {
	case !m.Contended():
		if m != nil {
			r.disturbed = 0
		}
		return false
	case *repeated:
		r.disturbed++
		return false
	}
	*repeated = r.disturbed < hopeless
	return *repeated
}
