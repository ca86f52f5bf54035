package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// PlainJSON says what encoding/json complains about without Go's types; what is
// "the file" or "the line" that was read.
func PlainJSON(what string, err error) error {
	var (
		syntax *json.SyntaxError
		kind   *json.UnmarshalTypeError
	)
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s is empty", what)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &syntax) && strings.Contains(syntax.Error(), "unexpected end"):
		return fmt.Errorf("bad JSON: %s ends within a value: it may be cut off", what)
	case errors.As(err, &syntax):
		return fmt.Errorf("bad JSON: %w at byte %d", syntax, syntax.Offset)
	case errors.As(err, &kind):
		field := cmp.Or(kind.Field[strings.LastIndex(kind.Field, ".")+1:], what)
		return fmt.Errorf("%s: got %s, want %s", field, got(kind.Value), wanted(kind.Type.Kind()))
	}
	return err
}

// got is a kind of JSON value with its article.
func got(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "string", "bool", "number":
		return "a " + value
	}
	return value // "number 3.5"
}

// wanted is what a field of a Go type takes.
func wanted(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	default:
		return "an object"
	}
}
