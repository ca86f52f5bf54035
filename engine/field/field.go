// Package field says which field of what was asked for is wrong, and how to put it
// right. A library names a field by a constant of this package; only this package
// knows how a user writes it.
package field

import (
	"errors"
	"fmt"
)

// Error is a wrong asking: a field, or fields that do not go together. Whoever asked
// has to ask otherwise; trying again does not help.
type Error struct {
	Msg   string   // which field, what it holds, what is wanted
	Hints []string // what would do
	cause error
}

// Error implements error.
func (e *Error) Error() string { return e.Msg }

// Unwrap gives the error that Errorf was given for %w.
func (e *Error) Unwrap() error { return e.cause }

// Errorf makes an Error. It takes %w as fmt.Errorf does.
func Errorf(format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Msg: err.Error(), cause: errors.Unwrap(err)}
}

// Hint adds what would do.
func (e *Error) Hint(format string, args ...any) *Error {
	e.Hints = append(e.Hints, fmt.Sprintf(format, args...))
	return e
}

// Failure is an error in the doing, with hints at what would help.
type Failure struct {
	Err   error
	Hints []string
}

// Error implements error.
func (e *Failure) Error() string { return e.Err.Error() }

// Unwrap gives the error alone.
func (e *Failure) Unwrap() error { return e.Err }

// WithHint is err with a hint at what would help.
func WithHint(err error, format string, args ...any) error {
	return &Failure{Err: err, Hints: []string{fmt.Sprintf(format, args...)}}
}
