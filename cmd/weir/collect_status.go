package main

import (
	"context"
	"maps"
	"slices"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/web"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/view/api"
)

var _ web.Source = (*liveCollector)(nil)

// Status implements web.Source.
func (l *liveCollector) Status() collect.Status {
	s := l.collector.Status()
	if l.nats != nil {
		if p := l.nats.Problem(); p != "" {
			s.Connected, s.Problem = false, p
		}
	}
	return s
}

// Counters implements web.Source.
func (l *liveCollector) Counters(k record.Kind) collect.Counters { return l.collector.Counters(k) }

// Store implements web.Source.
func (l *liveCollector) Store() web.StoreStatus {
	held, bound := l.store.Bytes()
	s := web.StoreStatus{Bytes: held, MaxBytes: bound, Kinds: map[record.Kind]web.StoreKind{}}
	for _, k := range collect.Kinds {
		t := l.store.Tally(k)
		s.Kinds[k] = web.StoreKind{Held: uint64(t.Held), Evicted: t.Evicted, Bytes: uint64(t.Bytes), Digests: t.Digests}
	}
	return s
}

// Exported implements web.Source.
func (l *liveCollector) Exported() (sent, lost, skipped, missed uint64) {
	if l.ipfix == nil {
		return 0, 0, 0, 0
	}
	c, missed := l.ipfix.Counters()
	return c.Records, c.Lost, c.Skipped, missed
}

// status is the collector as the API shows it.
func (l *liveCollector) status(context.Context) (*api.CollectorStatus, error) {
	c := l.config
	now, revision := versionText()
	m := &api.CollectorStatus{
		Name: c.Collect.Name, Version: now, Revision: revision, StartedNs: l.started.UnixNano(), TimeNs: taiNow(),
		Index: int64(c.Partitions.Index), Of: int64(c.Partitions.Of),
		Stream: l.streamStatus(), Store: l.storeStatus(), Kinds: l.kindStatus(),
	}
	for _, h := range l.switches.List() {
		s := &api.SwitchStatus{Id: h.Switch, Name: h.Name, Records: h.Records, MissedPackets: h.Missed, LastNs: h.Newest()}
		for _, k := range slices.Sorted(maps.Keys(h.Last)) {
			s.Last = append(s.Last, &api.LastRecord{Kind: k.String(), ToNs: h.Last[k]})
		}
		m.Switches = append(m.Switches, s)
	}
	return m, nil
}

func (l *liveCollector) streamStatus() *api.StreamStatus {
	c, s := l.config, l.Status()
	return &api.StreamStatus{
		Name: jetstream.Stream, Embedded: l.nats != nil, Servers: l.servers(), Connected: s.Connected, Error: s.Problem,
		Messages: s.Messages, Bytes: s.Bytes, MaxBytes: uint64(c.Retention.Bytes), MaxAgeNs: int64(c.Retention.Age), Replicas: int64(c.NATS.Replicas),
		Pending: s.Pending, LagNs: int64(s.Lag), CaughtUp: s.Ready,
	}
}

func (l *liveCollector) storeStatus() *api.StoreStatus {
	held, bound := l.store.Bytes()
	w := l.asker.view().All()
	return &api.StoreStatus{Bytes: uint64(held), MaxBytes: uint64(bound), FromNs: w.From, ToNs: w.To}
}

func (l *liveCollector) kindStatus() (list []*api.KindStatus) {
	for _, k := range collect.Kinds {
		c, t := l.collector.Counters(k), l.store.Tally(k)
		if c.Received == 0 {
			continue
		}
		list = append(list, &api.KindStatus{
			Kind: k.String(), Records: c.By[collect.Applied], Held: uint64(t.Held), Duplicates: c.By[collect.Duplicate],
			Conflicts: c.By[collect.Conflict], Unreadable: c.By[collect.Unreadable] + c.By[collect.Forged], Forgotten: t.Evicted,
		})
	}
	return list
}
