package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/weirswitch/weir/telemetry/query"
)

// The bounds of --watch, as the collector has them.
const leastWatch, longestWatch = 100 * time.Millisecond, time.Hour

// Sequences of a terminal (ECMA-48): to the upper left corner; clear the rest of a line, and of
// the screen.
const (
	terminalHome      = "\x1b[H"
	terminalClearLine = "\x1b[K"
	terminalClearRest = "\x1b[J"
)

// watchOn writes the answer again and again, until Ctrl-C: on a terminal in the place of the one
// before, else behind it.
func (o *queryOptions) watchOn(ctx context.Context, from querySource, q *query.Question, stdout io.Writer, write func(io.Writer, any) error) error {
	if o.watch < leastWatch || o.watch > longestWatch {
		return usageError(fmt.Errorf("--watch %v: choose %v to %v", o.watch, leastWatch, longestWatch))
	}
	redraw := isTerminal(stdout) && !o.asJSON
	if redraw {
		fmt.Fprint(stdout, terminalHome+terminalClearRest)
	}
	first := true
	err := from.Watch(ctx, q, o.watch, func(answer any, why error) error {
		var text bytes.Buffer
		if err := o.writeWatched(&text, answer, why, write); err != nil {
			return err
		}
		b := text.Bytes()
		switch {
		case redraw:
			b = redrawn(b, time.Now())
		case !first && !o.asJSON:
			b = append([]byte("\n"), b...)
		}
		first = false
		_, err := stdout.Write(b)
		return err
	})
	if ctx.Err() != nil {
		return nil // asked for
	}
	return refused(err)
}

// writeWatched writes an answer, or why there is none this time.
func (o *queryOptions) writeWatched(w io.Writer, answer any, why error, write func(io.Writer, any) error) error {
	switch {
	case why == nil:
		return write(w, answer)
	case o.asJSON:
		return json.NewEncoder(w).Encode(map[string]string{"fault": why.Error()})
	}
	_, err := fmt.Fprintln(w, "no answer:", why)
	return err
}

// redrawn is a text that takes the place of the one before. What differs from line to line
// is cleared as it is written, so that nothing flickers.
func redrawn(text []byte, at time.Time) []byte {
	b := []byte(terminalHome)
	b = at.AppendFormat(b, time.TimeOnly)
	b = append(b, terminalClearLine+"\n"+terminalClearLine+"\n"...)
	b = append(b, bytes.ReplaceAll(text, []byte("\n"), []byte(terminalClearLine+"\n"))...)
	return append(b, terminalClearRest...)
}
