package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/telemetry/status"
	"github.com/weirswitch/weir/telemetry/store"
)

const (
	// silence is how long nothing may be heard of a switch, which says how it is about
	// once a second.
	silence = 5 * time.Second
	// spoolWarning is the share of its bound from which on a spool is worth a warning.
	spoolWarning = 0.8
)

// askNetwork asks about all switches, or about one, or one port of it.
func askNetwork(_ context.Context, e *Engine, q *Question) (any, error) {
	if q.At == "" {
		n, err := e.Network()
		if err != nil {
			return nil, err
		}
		if q.Limit > 0 {
			n.Switches, n.More = limited(n.Switches, q.Limit)
			n.Links, n.MoreLinks = limited(n.Links, q.Limit)
		}
		return n, nil
	}
	at, err := e.ParsePlace(q.At)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: at: %w", ErrInvalid, err)
	case at.Class != "":
		return nil, fmt.Errorf("%w: at: %q has a class: name a switch, or a port of it", ErrInvalid, q.At)
	case q.Step != 0:
		return answer(e.networkPiece(at))
	}
	n, err := e.Network()
	if err != nil {
		return nil, err
	}
	n.limit(at)
	return answer(n, nil)
}

// limit leaves one switch, or one port of it, and the links that end there.
func (n *Network) limit(at Place) {
	ends := func(l NetworkLink) bool {
		return slices.ContainsFunc(l.Ends[:], func(e NetworkEnd) bool {
			return e.HasSwitch && e.Switch == at.Switch && (at.Port < 0 || e.Number == at.Port)
		})
	}
	n.Links = slices.DeleteFunc(n.Links, func(l NetworkLink) bool { return !ends(l) })
	n.Switches = slices.DeleteFunc(n.Switches, func(s NetworkSwitch) bool {
		return s.Switch != at.Switch || s.Health == HealthSilent && s.LastHeardNs == 0
	})
	for i := range n.Switches {
		s := &n.Switches[i]
		s.Ports = slices.DeleteFunc(s.Ports, func(p NetworkPort) bool { return at.Port >= 0 && int(p.Number) != at.Port })
	}
}

// networkPiece is what one switch said of its ports in the window, for a series: health, links and clocks are left out, which take longer.
func (e *Engine) networkPiece(at Place) (*Network, error) {
	n := &networkSearch{e: e, all: map[uint32]*NetworkSwitch{}, only: &at, answer: &Network{Basis: Basis{Window: e.window()}}}
	s := n.sender(at.Switch)
	if err := n.statuses(); err != nil {
		return nil, err
	}
	if !s.HasStatus {
		return nil, fmt.Errorf("%w of the state of switch %s", ErrNoRecords, s.Name)
	}
	n.answer.Switches = []NetworkSwitch{*s}
	n.answer.limit(at)
	return n.answer, nil
}

// Network reports what the switches said of themselves in the window.
func (e *Engine) Network() (*Network, error) {
	basis, err := e.basis(store.OfStatuses)
	if err != nil {
		return nil, err
	}
	if e.wires == nil {
		own := *e
		own.wires, e = newWiring(e), &own
	}
	// A status is of a moment, and each is of a part of its slice.
	basis.Missing = slices.DeleteFunc(basis.Missing, func(m store.Missing) bool { return m.Evicted == 0 && m.Of != store.OfRegion })
	n := &networkSearch{
		e: e, now: e.Now, all: map[uint32]*NetworkSwitch{},
		answer: &Network{Basis: basis, Switches: []NetworkSwitch{}, Links: []NetworkLink{}},
	}
	if e.Now == 0 || basis.To < e.Store.All().To {
		n.now = basis.To // of a time that is past, it says how it was then
	}
	n.findNewest()
	if err := n.statuses(); err != nil {
		return nil, err
	}
	n.links()
	n.silent()
	for _, s := range n.all {
		n.answer.Switches = append(n.answer.Switches, *s)
	}
	slices.SortFunc(n.answer.Switches, func(a, b NetworkSwitch) int {
		return cmp.Or(cmp.Compare(a.Switch, b.Switch), strings.Compare(a.Name, b.Name))
	})
	if len(n.answer.Switches) == 0 {
		return nil, fmt.Errorf("%w of any switch", ErrNoRecords)
	}
	return n.answer, nil
}

// networkSearch makes an answer.
type networkSearch struct {
	e      *Engine
	now    int64
	all    map[uint32]*NetworkSwitch // that were heard of
	only   *Place                    // nil: all switches
	answer *Network
}

// findNewest notes when each switch made its newest record.
func (n *networkSearch) findNewest() {
	heard := func(o *store.Origin, at int64) {
		s := n.sender(o.Switch)
		s.LastHeardNs = max(s.LastHeardNs, at)
	}
	st := n.e.Store
	newest := map[uint32]*store.Status{}
	for i := range st.Statuses {
		if o := newest[st.Statuses[i].Switch]; o == nil || o.From <= st.Statuses[i].From {
			newest[st.Statuses[i].Switch] = st.Statuses[i]
		}
	}
	for _, s := range newest {
		if at, err := s.Decode(); err == nil {
			heard(&s.Origin, at.Time)
		}
	}
	for i := range st.Samples {
		heard(&st.Samples[i].Origin, st.Samples[i].To)
	}
	for i := range st.Points {
		heard(&st.Points[i].Origin, st.Points[i].To)
	}
	for i := range st.Fragments {
		heard(&st.Fragments[i].Origin, st.Fragments[i].To)
	}
	for i := range st.Batches {
		heard(&st.Batches[i].Origin, st.Batches[i].To)
	}
	for _, o := range st.HeardElsewhere() {
		heard(&o, o.To)
	}
	for _, s := range n.all {
		s.AgeNs = max(n.now-s.LastHeardNs, 0)
		if s.AgeNs > int64(silence) {
			s.Health = HealthSilent
			s.fault("not heard of for %v", time.Duration(s.AgeNs).Round(time.Second))
		}
	}
}

// sender is the switch of a number, of which the answer has nothing yet.
func (n *networkSearch) sender(id uint32) *NetworkSwitch {
	s := n.all[id]
	if s == nil {
		s = &NetworkSwitch{
			Switch: id, Name: n.e.Store.Name(id), Health: HealthOK, Faults: []string{},
			Measurements: []status.Measurement{}, Exports: []status.Export{}, Ports: []NetworkPort{}, Workers: []NetworkWorker{},
			Clock: NetworkClock{Offsets: []NetworkOffset{}},
		}
		n.all[id] = s
	}
	return s
}

// fault notes why a switch is not well.
func (s *NetworkSwitch) fault(format string, a ...any) {
	s.Faults = append(s.Faults, fmt.Sprintf(format, a...))
	if s.Health == HealthOK {
		s.Health = HealthWarning
	}
}

// mostStatuses bounds how many statuses of a switch are read for an answer, so that it takes
// no longer for a week than for an hour. Counters lose nothing by those between.
const mostStatuses = 256

// statuses reports what the switches said, by those of the window and the last one before,
// from which rates begin.
func (n *networkSearch) statuses() error {
	window := n.answer.Window
	lists, ofWindow := map[uint32][]*store.Status{}, map[uint32]int{}
	for _, s := range n.e.Store.Statuses { // they are in the order of time
		switch {
		case n.only != nil && n.only.Switch != s.Switch:
		case s.Overlaps(window):
			ofWindow[s.Switch]++
			lists[s.Switch] = append(lists[s.Switch], s)
		case s.From < window.From:
			lists[s.Switch] = append(lists[s.Switch][:0], s)
		}
	}
	for id, list := range lists {
		if ofWindow[id] == 0 {
			continue
		}
		read, err := n.read(list)
		if err != nil {
			return err
		}
		n.answer.Records += len(read)
		n.answer.Basis.Switches++
		n.all[id].describe(read, ofWindow[id])
	}
	return nil
}

// read decodes mostStatuses of a list at most, the first and the last among them.
func (n *networkSearch) read(list []*store.Status) (read []*status.Status, err error) {
	if err := n.e.stopped(); err != nil {
		return nil, err
	}
	count := min(len(list), mostStatuses)
	for i := range count {
		s, err := list[i*(len(list)-1)/max(count-1, 1)].Decode()
		if err != nil {
			return nil, err // the store took what it could decode
		}
		read = append(read, s)
	}
	slices.SortStableFunc(read, func(a, b *status.Status) int { return cmp.Compare(a.Time, b.Time) })
	return read, nil
}

// describe fills in what the statuses of a switch say, the newest last.
func (s *NetworkSwitch) describe(list []*status.Status, ofWindow int) {
	last, done := list[len(list)-1], progressOf(list)
	s.HasStatus, s.Statuses, s.BootNs, s.Restarts, s.Program = true, ofWindow, last.Boot, done.restarts, last.Program
	s.SpanNs = int64(math.Round(done.seconds * 1e9))
	s.Spool, s.Clock.Clock = last.Spool, last.Clock
	s.Exports = append(s.Exports, last.Exports...)
	s.Measurements = append(s.Measurements, done.measurements...)
	for _, m := range s.Measurements {
		s.Epochs, s.Overruns, s.Missed = s.Epochs+m.Epochs, s.Overruns+m.Overruns, s.Missed+m.Missed
	}
	for i := range last.Ports {
		s.Ports = append(s.Ports, networkPort(&last.Ports[i], done.ports[last.Ports[i].Name]))
	}
	for _, w := range last.Workers {
		s.Workers = append(s.Workers, networkWorker(&w, done.workers[w.ID]))
	}
	s.examine(list)
}

func networkPort(p *status.Port, done *portProgress) NetworkPort {
	at := NetworkPort{
		Number: p.Number, Name: p.Name, Interface: p.Interface, Mode: p.Mode, Up: p.Up, Speed: p.Speed,
		Backlog: p.Backlog, MostBacklog: done.mostBacklog, Drops: []status.Drop{},
	}
	if done.seconds == 0 {
		at.Drops = append(at.Drops, p.Drops...)
		return at
	}
	at.HasRates = true
	at.Received, at.Sent = done.received.rate(done.seconds, p.Speed), done.sent.rate(done.seconds, p.Speed)
	for reason, packets := range done.drops {
		at.Drops = append(at.Drops, status.Drop{Reason: reason, Packets: packets})
		at.DropsPS += float64(packets) / done.seconds
	}
	slices.SortFunc(at.Drops, func(a, b status.Drop) int { return strings.Compare(a.Reason, b.Reason) })
	return at
}

func networkWorker(w *status.Worker, done *workerProgress) NetworkWorker {
	at := NetworkWorker{ID: w.ID, Core: w.Core}
	if done == nil {
		return at
	}
	at.HasRates = true
	at.CPU, at.PacketsPS = float64(done.cpu)/1e9/done.seconds, float64(done.fromWires)/done.seconds
	if done.rounds > 0 {
		at.Busy = min(float64(done.batches)/float64(done.rounds), 1)
	}
	return at
}

// examine looks for what is not well in the window.
func (s *NetworkSwitch) examine(list []*status.Status) {
	first, last := list[0], list[len(list)-1]
	if s.Restarts > 0 {
		s.fault("restarted %s", times(uint64(s.Restarts), "time", "times"))
	}
	for i := range last.Ports {
		if !last.Ports[i].Up {
			s.fault("port %s is down", last.Ports[i].Name)
		}
	}
	if s.Overruns > 0 {
		s.fault("%s, %s not measured", times(s.Overruns, "overrun", "overruns"), times(s.Missed, "packet", "packets"))
	}
	for _, to := range last.Exports {
		from := status.Export{}
		if k := slices.IndexFunc(first.Exports, func(e status.Export) bool { return e.Kind == to.Kind }); k >= 0 && first.Boot == last.Boot {
			from = first.Exports[k]
		}
		if n := less(to.Dropped, from.Dropped); n > 0 {
			s.fault("%s of %s dropped", times(n, "record", "records"), to.Kind)
		}
		if n := less(to.Lost, from.Lost); n > 0 {
			s.fault("%s of %s lost", times(n, "record", "records"), to.Kind)
		}
	}
	if !s.Spool.Remote {
		return // its oldest files make room, as is meant
	}
	if !s.Spool.Connected {
		s.fault("no collector takes its records")
	}
	if full := float64(s.Spool.Bytes) / float64(max(s.Spool.Bound, 1)); full >= spoolWarning {
		s.fault("its spool is %.0f %% full", 100*full)
	}
}

// times is a number with its noun.
func times(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// silent adds switches of the links that were never heard of.
func (n *networkSearch) silent() {
	known := map[string]bool{}
	for _, s := range n.all {
		known[s.Name] = true
	}
	for i := range n.answer.Links {
		for _, end := range n.answer.Links[i].Ends {
			if end.HasSwitch || end.Port == "" || known[end.Name] {
				continue
			}
			known[end.Name] = true
			s := NetworkSwitch{
				Name: end.Name, Health: HealthSilent, Faults: []string{"never heard of"}, Measurements: []status.Measurement{},
				Exports: []status.Export{}, Ports: []NetworkPort{}, Workers: []NetworkWorker{}, Clock: NetworkClock{Offsets: []NetworkOffset{}},
			}
			n.answer.Switches = append(n.answer.Switches, s)
		}
	}
}
