package main

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Two signals within a second are one, as GNU timeout sends them; a later one ends the
// program at once.
func TestSignalsWithinASecondAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, stopped, quit := make(chan os.Signal, 2), 0, 0
		go heed(signals, func() { stopped++ }, func() { quit++ })
		for i, c := range []struct {
			after         time.Duration
			stopped, quit int
		}{{0, 1, 0}, {0, 1, 0}, {999 * time.Millisecond, 1, 0}, {time.Millisecond, 1, 1}} {
			time.Sleep(c.after)
			signals <- syscall.SIGTERM
			synctest.Wait()
			if stopped != c.stopped || quit != c.quit {
				t.Errorf("signal %d: stopped %d times, quit %d times", i, stopped, quit)
			}
		}
	})
}

// A command that returns because its engines are killed does not say how the program ends.
func TestKillingEndsTheProgram(t *testing.T) {
	var codes []int
	end := ending{exit: func(code int) { codes = append(codes, code) }}
	begun, killed := make(chan struct{}), make(chan struct{})
	go end.with(func() int {
		close(begun)
		<-killed
		return exitInterrupted
	})
	<-begun
	close(killed)
	end.with(func() int { return exitDone })
	if !slices.Equal(codes, []int{exitInterrupted}) {
		t.Errorf("it ended with %v", codes)
	}
}
