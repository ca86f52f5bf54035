package simserver

import "time"

// fineSleep is the last part of a sleep, which is left to the precise clock.
// Go's own timers are good to 1 ms, rounded up by epoll, plus what the scheduler
// adds; but while they run the processor is free for the handlers' goroutines at once.
const fineSleep = 2 * time.Millisecond

// sleeper waits for instants. It belongs to one goroutine, locked to its thread.
type sleeper struct {
	timer *time.Timer
	fine  fineClock
}

func newSleeper() *sleeper {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &sleeper{timer: t, fine: newFineClock()}
}

func (s *sleeper) close() { s.timer.Stop() }

// until waits until t; false where quit was closed or wake brought something
// before, either of which may be nil.
func (s *sleeper) until(t time.Time, quit, wake <-chan struct{}) bool {
	if d := time.Until(t) - fineSleep; d > 0 {
		s.timer.Reset(d)
		select {
		case <-s.timer.C:
		case <-quit:
			return false
		case <-wake:
			return false
		}
	}
	s.fine.until(t)
	return true
}
