package text

import (
	"fmt"
	"io"
	"time"

	"github.com/weirswitch/weir/telemetry/view/api"
)

// WriteCollector writes the status of a collector.
func WriteCollector(w io.Writer, c *api.CollectorStatus) error {
	fmt.Fprintf(w, "collector %s, version %s, since %s\n", c.Name, c.Version, time.Unix(0, c.StartedNs).UTC().Format(time.RFC3339))
	if c.Of > 1 {
		fmt.Fprintf(w, "its share of PINT's digests: %d of %d\n", c.Index+1, c.Of)
	}
	if s := c.Stream; s != nil {
		fmt.Fprintln(w, streamText(s))
	}
	if s := c.Store; s != nil {
		fmt.Fprintf(w, "memory: %s of %s, records over %v\n", byteCount(s.Bytes), byteCount(s.MaxBytes), time.Duration(s.ToNs-s.FromNs).Round(time.Millisecond))
	}
	if a := c.Api; a != nil {
		fmt.Fprintf(w, "questions: %d answered, %d without an answer, %d refused; %d watches\n", a.Answered, a.Failed, a.Refused, a.Watches)
	}
	t := NewTable("records", ">taken", ">in memory", ">duplicates", ">in conflict", ">unreadable", ">forgotten")
	for _, k := range c.Kinds {
		t.Row(k.Kind, k.Records, k.Held, k.Duplicates, k.Conflicts, k.Unreadable, k.Forgotten)
	}
	if err := writeBelow(w, t); err != nil {
		return err
	}
	t = NewTable("switch", ">id", ">records", ">packets not measured", ">newest record")
	for _, s := range c.Switches {
		t.Row(s.Name, s.Id, s.Records, s.MissedPackets, time.Duration(max(c.TimeNs-s.LastNs, 0)).Round(time.Millisecond).String()+" ago")
	}
	return writeBelow(w, t)
}

// streamText says how the stream is, and how far behind it is read.
func streamText(s *api.StreamStatus) string {
	text := fmt.Sprintf("stream %s: %d messages, %s", s.Name, s.Messages, byteCount(s.Bytes))
	if s.MaxBytes > 0 {
		text += " of " + byteCount(s.MaxBytes)
	}
	if s.Embedded {
		text += ", in the collector's own server"
	}
	switch {
	case !s.Connected:
		return text + "; not connected: " + s.Error
	case s.Pending > 0:
		return text + fmt.Sprintf("; %d to be read yet, %v behind", s.Pending, time.Duration(s.LagNs).Round(time.Millisecond))
	}
	return text + "; all read"
}
