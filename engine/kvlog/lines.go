package kvlog

import (
	"bufio"
	"errors"
	"io"
	"regexp"
)

// lineBytes is how much of one log line is looked at.
const lineBytes = 64 << 10

// colour is an escape sequence of a terminal, as loggers put around their prefix.
var colour = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// eachLine calls f for each line, without colours; very long ones are cut.
func eachLine(r io.Reader, f func(string)) error {
	b := bufio.NewReaderSize(r, lineBytes)
	for {
		line, err := b.ReadSlice('\n')
		if len(line) > 0 {
			f(colour.ReplaceAllLiteralString(string(line), ""))
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = b.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
