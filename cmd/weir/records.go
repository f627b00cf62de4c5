package main

import (
	"fmt"
	"io"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// printRecords writes the record path for people.
func printRecords(w io.Writer, r *api.Records) error {
	if r == nil {
		return nil
	}
	where := "they stay there, since no collector is configured"
	since := time.Unix(0, r.SinceNs).Format(time.DateTime)
	switch r.State {
	case string(export.Connected):
		where = fmt.Sprintf("sent to %s since %s (connection %d)", r.Server, since, r.Connects)
	case string(export.Connecting):
		where = fmt.Sprintf("waiting for a connection since %s", since)
	}
	if _, err := fmt.Fprintf(w, "\nrecords: spooled in %s, %s\n", r.Spool, where); err != nil {
		return err
	}
	if r.State != string(export.Off) || r.Published != 0 {
		if _, err := fmt.Fprintf(w, "published %d, %d of them again; acknowledged %d, of which JetStream had %d already\n",
			r.Published, r.Retried, r.Acknowledged, r.Duplicates); err != nil {
			return err
		}
	}
	if r.LastError != "" {
		if _, err := fmt.Fprintf(w, "last error, %s: %s\n", time.Unix(0, r.LastErrorNs).Format(time.DateTime), r.LastError); err != nil {
			return err
		}
	}
	return printRecordKinds(w, r)
}

func printRecordKinds(w io.Writer, r *api.Records) error {
	kinds := text.NewTable("RECORDS", ">MADE", ">FOUND", ">SENT", ">WAITING", ">DROPPED", ">LOST", ">WAITING BYTES")
	drops := text.NewTable("RECORDS", "DROPPED BECAUSE", ">RECORDS", ">BYTES", ">FIRST EPOCH", ">LAST EPOCH", "WHEN")
	drop := func(d *api.RecordDrop, when string) {
		drops.Row(d.Kind, d.Reason, d.Records, d.Bytes, d.FirstEpoch, d.LastEpoch, when)
	}
	for _, k := range r.Kinds {
		kinds.Row(k.Kind, k.Made, k.Found, k.Sent, k.Waiting, k.Dropped, k.Lost, k.WaitingBytes)
		for _, d := range k.Drops {
			drop(d, "in this run")
		}
	}
	for _, d := range r.DroppedBefore {
		drop(d, "before")
	}
	for _, t := range []*text.Table{kinds, drops} {
		if t.Empty() {
			continue
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	return nil
}
