package process

import "time"

// tick is the unit of processor times in /proc: USER_HZ is 100 on all systems that Go
// runs on (proc_stat(5)).
const tick = time.Second / 100

// Share is what was done with this machine's processors between two readings.
type Share struct {
	Cores  int
	Time   time.Duration // of all cores together, idle or not
	Others float64       // of Time, 0..1: taken by processes that are neither this program nor the engine, and Steal
	Steal  float64       // of Time: taken by other virtual machines
	Busy   float64       // of Time: not idle, Steal and interrupts included
}

// Meter tells what others took of this machine while an engine was under load. A nil
// Meter knows nothing.
type Meter struct{ read func() (usage, bool) }

// Begin takes a reading; end takes another, and is false where one of them could not be
// had or they do not fit together, as when processes left the engine.
func (m *Meter) Begin() (end func() (Share, bool)) {
	if m == nil {
		return func() (Share, bool) { return Share{}, false }
	}
	before, ok := m.read()
	return func() (Share, bool) {
		after, also := m.read()
		if !ok || !also {
			return Share{}, false
		}
		return before.until(after)
	}
}

// usage is what processors have done since the boot, in ticks.
type usage struct {
	cores  int
	total  uint64 // idle or not
	busy   uint64
	worked uint64 // for processes; the rest of busy are interrupts and steal
	steal  uint64
	ours   uint64 // of worked: this program, the engine and what they started
}

// until is what was done between two readings. Interrupts are nobody's: some of them are
// the load's own packets. The kernel samples worked but measures ours exactly, so that
// their difference has noise and may even be negative.
func (u usage) until(v usage) (Share, bool) {
	if v.total <= u.total || v.worked < u.worked || v.steal < u.steal || v.busy < u.busy || v.ours < u.ours || v.cores != u.cores {
		return Share{}, false
	}
	of := func(ticks uint64) float64 { return min(1, float64(ticks)/float64(v.total-u.total)) }
	steal := v.steal - u.steal
	others := v.worked - u.worked - min(v.worked-u.worked, v.ours-u.ours) + steal
	return Share{
		Cores: v.cores, Time: time.Duration(v.total-u.total) * tick, //nolint:gosec // ticks of one load
		Others: of(others), Steal: of(steal), Busy: max(of(v.busy-u.busy), of(others)),
	}, true
}
