package main

import (
	"fmt"
	"io"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// lostReason is that of records that the disk did not take.
const lostReason = "lost"

// records tells where the records go, and what became of them; nil without a spool.
func (e *exporting) records() *api.Records {
	if e == nil || e.spool == nil {
		return nil
	}
	s := e.sending()
	r := &api.Records{
		Spool: e.spool.Folder(), State: string(s.State), Server: s.Server, SinceNs: unixNano(s.Since), Connects: s.Connects,
		Published: s.Published, Acknowledged: s.Acknowledged, Retried: s.Retried, Duplicates: s.Duplicates,
		LastError: s.LastError, LastErrorNs: unixNano(s.LastErrorAt),
	}
	for _, d := range e.spool.DroppedBefore() {
		r.DroppedBefore = append(r.DroppedBefore, dropMessage(d))
	}
	counts := map[record.Kind]export.KindCounts{}
	for _, c := range e.spool.Counts() {
		counts[c.Kind] = c
	}
	for k := range record.Kind(255) {
		c, there := counts[k]
		if lost := e.Lost(k); there || lost.Records != 0 {
			r.Kinds = append(r.Kinds, kindMessage(k, c, lost))
		}
	}
	return r
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func kindMessage(k record.Kind, c export.KindCounts, lost export.Tally) *api.RecordKind {
	m := &api.RecordKind{
		Kind: k.String(), Made: c.Spooled.Records + lost.Records, Spooled: c.Spooled.Records, Found: c.Found.Records,
		Sent: c.Sent.Records, Waiting: c.Waiting.Records, Lost: lost.Records,
		SpooledBytes: c.Spooled.Bytes, SentBytes: c.Sent.Bytes, WaitingBytes: c.Waiting.Bytes,
	}
	for _, d := range c.Dropped {
		m.Dropped += d.Records
		m.Drops = append(m.Drops, dropMessage(d))
	}
	if lost.Records != 0 {
		m.Drops = append(m.Drops, dropMessage(export.Drop{Reason: lostReason, Tally: lost}))
	}
	return m
}

func dropMessage(d export.Drop) *api.RecordDrop {
	return &api.RecordDrop{
		Kind: d.Kind.String(), Reason: d.Reason, Records: d.Records, Bytes: d.Bytes,
		FirstEpoch: d.FirstEpoch, LastEpoch: d.LastEpoch, FirstNs: d.First, LastNs: d.Last,
	}
}

// metrics are those of the record path.
func (e *exporting) metrics(emit func(pipeline.Metric)) {
	if r := e.records(); r != nil {
		recordMetrics(r, e.spool.Dropped(), emit)
	}
}

func recordMetrics(r *api.Records, droppedFiles uint64, emit func(pipeline.Metric)) {
	send := func(gauge bool, name, help string, value float64, labels ...[2]string) {
		emit(pipeline.Metric{Name: name, Help: help, Labels: labels, Value: value, Gauge: gauge})
	}
	for _, k := range r.Kinds {
		kind := [2]string{"kind", k.Kind}
		count := func(name, help string, n uint64) { send(false, name, help, float64(n), kind) }
		count("made_records_total", "records made: spooled + lost", k.Made)
		count("spooled_records_total", "records written to the spool", k.Spooled)
		count("spooled_bytes_total", "bytes of the records written to the spool", k.SpooledBytes)
		count("found_records_total", "records that an earlier run left in the spool", k.Found)
		count("sent_records_total", "records that JetStream has acknowledged", k.Sent)
		count("sent_bytes_total", "bytes of the records sent", k.SentBytes)
		count("lost_records_total", "records that could not be encoded, or that the disk did not take", k.Lost)
		send(true, "waiting_records", "records in the spool that are not sent yet", float64(k.Waiting), kind)
		send(true, "waiting_bytes", "bytes of these", float64(k.WaitingBytes), kind)
		for _, d := range k.Drops {
			reason := [2]string{"reason", d.Reason}
			if d.Reason != lostReason {
				send(false, "dropped_records_total", "records that the spool dropped, by reason", float64(d.Records), kind, reason)
			}
			send(true, "dropped_first_epoch", "the first epoch of the records dropped or lost", float64(d.FirstEpoch), kind, reason)
			send(true, "dropped_last_epoch", "the last epoch of the records dropped or lost", float64(d.LastEpoch), kind, reason)
		}
	}
	connected := 0.
	if r.State == string(export.Connected) {
		connected = 1
	}
	send(false, "dropped_files_total", "spool files that went to make room", float64(droppedFiles))
	send(true, "connected", "whether the switch is connected to its collector's servers", connected)
	send(true, "state_seconds", "since when, in Unix time, it is, or is not", float64(r.SinceNs)/1e9)
	send(false, "connects_total", "times it connected", float64(r.Connects))
	send(false, "published_records_total", "records published, each time", float64(r.Published))
	send(false, "retried_records_total", "records published again, since nothing was heard of them", float64(r.Retried))
	send(false, "duplicate_records_total", "records sent that JetStream had already", float64(r.Duplicates))
}

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
	if r.State != sendingOff {
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
