package text

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// Sequences of a terminal (ECMA-48): to the upper left corner; clear the rest of a line, and of
// the screen.
const (
	terminalHome      = "\x1b[H"
	terminalClearLine = "\x1b[K"
	terminalClearRest = "\x1b[J"
)

// Screen is a terminal on which each text takes the place of the one before.
type Screen struct{ terminal io.Writer }

// NewScreen clears a terminal.
func NewScreen(terminal io.Writer) (*Screen, error) {
	_, err := fmt.Fprint(terminal, terminalHome+terminalClearRest)
	return &Screen{terminal}, err
}

// Show shows a text below its time. What differs from line to line is cleared as it is written, so that
// nothing flickers.
func (s *Screen) Show(text []byte, at time.Time) error {
	b := []byte(terminalHome)
	b = at.AppendFormat(b, time.TimeOnly)
	b = append(b, terminalClearLine+"\n"+terminalClearLine+"\n"...)
	b = append(b, bytes.ReplaceAll(text, []byte("\n"), []byte(terminalClearLine+"\n"))...)
	_, err := s.terminal.Write(append(b, terminalClearRest...))
	return err
}
