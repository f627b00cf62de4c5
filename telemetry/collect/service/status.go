package service

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/weirswitch/weir/internal/buildinfo"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/web"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// source is what the metrics and the health checks read of a collector.
type source Collector

// Status implements web.Source.
func (s *source) Status() collect.Status {
	st := s.reader.Status()
	if s.nats != nil {
		if p := s.nats.Problem(); p != "" {
			st.Connected, st.Problem = false, p
		}
	}
	return st
}

// Counters implements web.Source.
func (s *source) Counters(k record.Kind) collect.Counters { return s.reader.Counters(k) }

// Store implements web.Source.
func (s *source) Store() web.StoreStatus {
	held, bound := s.store.Bytes()
	st := web.StoreStatus{Bytes: held, MaxBytes: bound, Kinds: map[record.Kind]web.StoreKind{}}
	for _, k := range collect.Kinds {
		t := s.store.Tally(k)
		st.Kinds[k] = web.StoreKind{Held: uint64(t.Held), Evicted: t.Evicted, Bytes: uint64(t.Bytes), Digests: t.Digests}
	}
	return st
}

// Set implements web.Source.
func (s *source) Set() (c collect.SetCounters, some bool) {
	if s.set == nil {
		return c, false
	}
	return s.set.Counters(), true
}

// Archive implements web.Source.
func (s *source) Archive() (st collect.ArchiveStatus, ok bool) {
	if s.archive == nil {
		return st, false
	}
	return s.archive.Status(), true
}

// Exported implements web.Source.
func (s *source) Exported() (sent, lost, skipped, missed uint64) {
	if s.ipfix == nil {
		return 0, 0, 0, 0
	}
	c, missed := s.ipfix.Counters()
	return c.Records, c.Lost, c.Skipped, missed
}

// status is the collector as the API shows it.
func (s *Collector) status(context.Context) (*api.CollectorStatus, error) {
	c, stream := s.config, (*source)(s).Status()
	held, bound := s.store.Bytes()
	window := s.asker.view().All()
	build := buildinfo.Read()
	m := &api.CollectorStatus{
		Name: c.Collect.Name, Version: build.Version, Revision: build.Revision,
		StartedNs: s.started.UnixNano(), TimeNs: clock.Kernel.TAI(),
		Index: int64(c.Partitions.Index), Of: int64(c.Partitions.Of),
		Stream: &api.StreamStatus{
			Name: jetstream.Stream, Embedded: s.nats != nil, Servers: s.Servers(), Connected: stream.Connected, Error: cmp.Or(stream.Problem, stream.Drift),
			Messages: stream.Messages, Bytes: stream.Bytes, MaxBytes: uint64(c.Retention.Bytes), MaxAgeNs: int64(c.Retention.Age), Replicas: int64(c.NATS.Replicas),
			Pending: stream.Pending, LagNs: int64(stream.Lag), CaughtUp: stream.Ready,
		},
		Store: &api.StoreStatus{Bytes: uint64(held), MaxBytes: uint64(bound), FromNs: window.From, ToNs: window.To, TrafficNs: s.store.Traffic()},
	}
	for _, k := range collect.Kinds {
		c, t := s.reader.Counters(k), s.store.Tally(k)
		if c.Received == 0 {
			continue
		}
		m.Kinds = append(m.Kinds, &api.KindStatus{
			Kind: k.String(), Records: c.By[collect.Applied], Held: uint64(t.Held), Duplicates: c.By[collect.Duplicate],
			Conflicts: c.By[collect.Conflict], Unreadable: c.By[collect.Unreadable] + c.By[collect.Forged], Forgotten: t.Evicted,
		})
	}
	if c := s.reader.Counters(0); c.Received != 0 { // of no kind that is known
		m.Kinds = append(m.Kinds, &api.KindStatus{Kind: "other", Unreadable: c.Received - c.By[collect.Applied]})
	}
	for _, h := range s.switches.List() {
		sw := &api.SwitchStatus{Id: h.Switch, Name: h.Name, Records: h.Records, MissedPackets: h.Missed, LastNs: h.Newest()}
		for _, k := range slices.Sorted(maps.Keys(h.Last)) {
			sw.Last = append(sw.Last, &api.LastRecord{Kind: k.String(), ToNs: h.Last[k]})
		}
		m.Switches = append(m.Switches, sw)
	}
	return m, nil
}
