package engine

import (
	"fmt"
	"strings"
)

// Count is a number and what it counts: "1 GPU", "2 GPUs", "3 launches".
func Count[N int | int64](n N, word string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(word, "ch"):
		word += "es"
	default:
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}
