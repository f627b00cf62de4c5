package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// A question over regions is asked of a view of the records of all of them:
//
//	a region's view ── Write: the records that a question needs ──┐
//	               └── Rest: what else answers depend on ─────────┴──> Regions ──> a view

// Needed is which records a question needs.
type Needed struct {
	Kinds []record.Kind
	// Window is of all but digests; the last status before it is needed, too.
	Window Window
	// Digests are needed of this window, of the flows of Has; nil: of all. With Only, records with nothing of them are not.
	Digests Window
	Has     func(*pint.FlowKey) bool
	Only    bool
}

// Write writes the records of a view as they travel, one behind the other.
func (s *Store) Write(out io.Writer, of *Needed) error {
	w := &recordWriter{s: s, out: out, of: of}
	before := map[uint32]*entry{} // the last statuses, in the order of time
	for _, list := range s.entries {
		for _, e := range list {
			if e.kind == record.PINT && s.theirs[e.instance] {
				continue
			}
			if e.kind == record.Status && e.origin.To <= of.Window.From {
				before[e.sw] = e
			}
			if err := w.write(e); err != nil {
				return err
			}
		}
	}
	for _, list := range s.joined {
		for _, e := range list {
			if err := w.write(e); err != nil {
				return err
			}
		}
	}
	for _, e := range before {
		if err := w.append(e); err != nil {
			return err
		}
	}
	return nil
}

// recordWriter writes the records that are needed.
type recordWriter struct {
	s      *Store
	out    io.Writer
	of     *Needed
	buffer []byte
}

func (w *recordWriter) write(e *entry) error {
	window := &w.of.Window
	if e.kind == record.PINT {
		window = &w.of.Digests
	}
	if !e.origin.Overlaps(*window) {
		return nil
	}
	return w.append(e)
}

func (w *recordWriter) append(e *entry) error {
	if !slices.Contains(w.of.Kinds, e.kind) {
		return nil
	}
	some := true
	encoded, err := record.Append(w.buffer[:0], &record.Header{
		Kind: e.kind, Switch: e.sw, Name: w.s.names[e.sw], Instance: e.instance, Plan: e.plan,
		Start: e.origin.From, Span: e.origin.To - e.origin.From, Missed: e.origin.Missed, Partial: e.origin.Partial, Hash: e.origin.Hash,
	}, func(dst []byte) ([]byte, error) {
		switch {
		case e.sample != nil:
			return e.sample.AppendBinary(dst)
		case e.point != nil:
			return append(dst, e.point.body...), nil
		case e.sketch != nil:
			return e.sketch.AppendBinary(dst)
		case e.batch != nil && w.of.Has != nil:
			dst, some = e.batch.AppendOf(dst, w.of.Has)
			return dst, nil
		case e.batch != nil:
			return e.batch.Append(dst), nil
		}
		return append(dst, e.status.body...), nil
	})
	if err != nil {
		return fmt.Errorf("write records: %w", err) // all of it was a record before
	}
	if w.buffer = encoded; !some && w.of.Only {
		return nil
	}
	_, err = w.out.Write(encoded)
	return err
}

// Rest is what a view says beside the records that a question needs, so that a view of several regions answers as one of all records does. It travels as
// JSON.
type Rest struct {
	// Spans are when the first and the last records of each measurement are.
	Spans rows[RestSpan] `json:"spans,omitempty"`
	// Switches that sent records, and when the last one of another kind than status is.
	Switches rows[PartSink] `json:"switches,omitempty"`
	// Ahead is by how much most switches' clocks are ahead of the collector's, in ns.
	Ahead int64 `json:"ahead_ns,omitempty"`
	// Gaps of digests.
	Gaps rows[RestGap] `json:"gaps,omitempty"`
	// Lacks is what is missing of the window for another reason than that it did not come, and partitions of digests that could not be had. Of those of Late the
	// archive has all but what may have come late.
	Lacks rows[Missing] `json:"lacks,omitempty"`
	Late  rows[Missing] `json:"late,omitempty"`
}

// RestSpan is when the first and the last records of a measurement are.
type RestSpan struct {
	Of    string `json:"of"`
	First Window `json:"first"`
	Last  Window `json:"last"`
}

// RestGap are records of digests of a partition that did not come.
type RestGap struct {
	PartGap
	Partition uint16 `json:"partition"`
}

// maxRestRows bounds each list of a Rest.
const maxRestRows = 1 << 15

// rows is a list of a bounded number of rows: it comes from elsewhere, and a row of two bytes would take two hundred.
type rows[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (r *rows[T]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.New("no list of rows")
	}
	for d.More() {
		if len(*r) == maxRestRows {
			return fmt.Errorf("more than %d rows", maxRestRows)
		}
		var row T
		if err := d.Decode(&row); err != nil {
			return err
		}
		*r = append(*r, row)
	}
	return nil
}

var measurements = []string{OfSamples, OfFlowSamples, OfPoints, OfFragments, OfDigests, OfStatuses}

// Rest is what the view says beside its records, for a question about a window. It must be frozen.
func (s *Store) Rest(w Window) *Rest {
	r := &Rest{Ahead: s.ahead, Late: s.late}
	s.restSpans(r)
	var gaps []RestGap
	for _, g := range s.gaps() {
		if g.Overlaps(w) {
			gaps = append(gaps, RestGap{PartGap{g.Window, g.sw, g.boot, g.records, g.digests}, g.partition})
		}
	}
	r.Gaps = joinRows(gaps, func(a, b RestGap) RestGap {
		a.Window, a.Records, a.Digests = a.Join(b.Window), sum(a.Records, b.Records), sum(a.Digests, b.Digests)
		return a
	})
	r.Lacks = append(r.Lacks, s.unreached...)
	for _, of := range measurements {
		var lacks []Missing
		for _, m := range s.Missing(of, w) {
			if m.Unreached == "" && m.Evicted|m.Skewed|m.Disputed != 0 {
				lacks = append(lacks, Missing{Switch: m.Switch, Of: of, Instance: m.Instance, Point: m.Point, Evicted: m.Evicted, Skewed: m.Skewed, Disputed: m.Disputed})
			}
		}
		r.Lacks = append(r.Lacks, joinRows(lacks, func(a, b Missing) Missing {
			return Missing{Of: of, Evicted: sum(a.Evicted, b.Evicted), Skewed: sum(a.Skewed, b.Skewed), Disputed: sum(a.Disputed, b.Disputed)}
		})...)
	}
	return r
}

// restSpans notes when records are.
func (s *Store) restSpans(r *Rest) {
	at, of := map[uint32]int{}, map[string]int{}
	span := func(kind string, w Window) {
		i, known := of[kind]
		if !known {
			i = len(r.Spans)
			of[kind] = i
			r.Spans = append(r.Spans, RestSpan{kind, w, w})
		}
		x := &r.Spans[i]
		if w.From < x.First.From {
			x.First = w
		}
		if w.To > x.Last.To {
			x.Last = w
		}
	}
	heard := func(o *Origin) {
		i, known := at[o.Switch]
		if !known {
			if i = len(r.Switches); i == maxPartSinks {
				return
			}
			at[o.Switch] = i
			r.Switches = append(r.Switches, PartSink{Switch: o.Switch, Name: s.names[o.Switch]})
		}
		if x := &r.Switches[i]; o.To > x.Last.To {
			x.Last = o.Window
		}
	}
	for i := range s.elsewhere {
		span(s.elsewhere[i].of, s.elsewhere[i].Window)
	}
	s.each(func(of string, o *Origin) {
		span(of, o.Window)
		if of == OfStatuses { // which say themselves of when they are
			o = &Origin{Switch: o.Switch}
		}
		heard(o)
	})
	for i := range s.heard {
		heard(&s.heard[i])
	}
	for sw := range s.names {
		heard(&Origin{Switch: sw})
	}
	slices.SortFunc(r.Switches, func(a, b PartSink) int { return cmp.Compare(a.Switch, b.Switch) })
}

// The longest texts of a Rest.
const (
	maxRestName   = 128
	maxRestReason = 1 << 10
)

// Validate refuses what no view says, and makes its texts printable.
func (r *Rest) Validate() error {
	if len(r.Spans) > len(measurements) || len(r.Switches) > maxPartSinks || len(r.Gaps) > maxPartRows || len(r.Late) > record.Partitions {
		return fmt.Errorf("%d spans, %d switches, %d gaps, %d late partitions", len(r.Spans), len(r.Switches), len(r.Gaps), len(r.Late))
	}
	if r.Ahead < 0 || r.Ahead > maxSpan {
		return fmt.Errorf("clocks that are ahead by %d ns", r.Ahead)
	}
	for i := range r.Spans {
		if s := &r.Spans[i]; !slices.Contains(measurements, s.Of) || !s.First.valid() || !s.Last.valid() {
			return fmt.Errorf("records of %q from %v to %v", printable.Text(s.Of), s.First, s.Last)
		}
	}
	for i := range r.Switches {
		if s := &r.Switches[i]; !s.Last.valid() || s.Name != "" && !printable.IsName(s.Name) {
			return fmt.Errorf("switch %d, %q, has records of %v", s.Switch, printable.Text(s.Name), s.Last)
		}
	}
	for i := range r.Gaps {
		if g := &r.Gaps[i]; !g.valid() || int(g.Partition) >= record.Partitions {
			return fmt.Errorf("a gap of %v in partition %d", g.Window, g.Partition)
		}
	}
	for i := range r.Lacks {
		if err := r.Lacks[i].fromElsewhere(); err != nil {
			return err
		}
	}
	for i := range r.Late {
		if err := r.Late[i].fromElsewhere(); err != nil || r.Late[i].Unreached == "" {
			return errors.Join(err, errors.New("a late partition without a reason"))
		}
	}
	return nil
}

// fromElsewhere refuses what no Rest says, and keeps what it can say.
func (m *Missing) fromElsewhere() error {
	partition := m.Unreached != ""
	if !slices.Contains(measurements, m.Of) || partition && (m.Of != OfDigests || int(m.Instance) >= record.Partitions) ||
		len(m.Switch) > maxRestName || len(m.Point) > maxRestName || len(m.Unreached) > maxRestReason {
		return fmt.Errorf("what is missing of %.64q, instance %d", m.Of, m.Instance)
	}
	*m = Missing{
		Switch: printable.Text(m.Switch), Of: m.Of, Instance: m.Instance, Point: printable.Text(m.Point), Unreached: printable.Text(m.Unreached),
		Evicted: min(m.Evicted, maxGone), Skewed: min(m.Skewed, maxGone), Disputed: min(m.Disputed, maxGone),
	}
	return nil
}

// Gathered is what a region has for a question.
type Gathered struct {
	Region string
	Rest   Rest
	// Records are as Write wrote them.
	Records []byte
	// Unreached is why there is nothing.
	Unreached string
}

// ErrFull says that records take more memory than they may.
var ErrFull = errors.New("the records take too much memory")

// Regions is a view of what several regions have, of so many bytes at most. A region is there whole or not at all: whose records cannot be read, or are of a time
// to come, by now in ns of CLOCK_TAI, or of a switch of a region before it, is left out, and its Unreached says why.
func Regions(all []Gathered, bytes, now int64) (*Store, error) {
	for {
		l, err := NewLive(LiveConfig{Bytes: max(bytes, MinBytes)})
		if err != nil {
			return nil, err
		}
		again, of := false, map[uint32]string{}
		for i := range all {
			g := &all[i]
			if g.Unreached != "" {
				continue
			}
			switch err := l.gather(g, of, now+futureSlack); {
			case errors.Is(err, ErrFull):
				return nil, fmt.Errorf("region %s: %w", g.Region, err)
			case err != nil:
				g.Unreached, again = err.Error(), true
			}
		}
		if !again {
			return l.View(Window{}).regionsView(all), nil
		}
	}
}

// futureSlack is by how much records of a region may be ahead of the clock of who asks: its collector has judged them by its own.
const futureSlack = int64(2 * DefaultAhead)

var errFuture = errors.New("its collector sent records of a time to come: is one of the clocks wrong?")

// gather takes the records of a region, which end before a time. of is which region has a switch.
func (l *Live) gather(g *Gathered, of map[uint32]string, before int64) error {
	for i := range g.Rest.Spans {
		if g.Rest.Spans[i].Last.To > before {
			return errFuture
		}
	}
	has := func(sw uint32) error {
		if other, known := of[sw]; known && other != g.Region {
			return fmt.Errorf("it has a switch of number %d, as region %s has: each switch of all regions needs a number of its own, and each region is named once", sw, other)
		}
		of[sw] = g.Region
		return nil
	}
	for i := range g.Rest.Switches {
		if err := has(g.Rest.Switches[i].Switch); err != nil {
			return err
		}
	}
	for b := g.Records; len(b) > 0; {
		h, body, rest, err := record.Decode(b)
		if err != nil {
			return fmt.Errorf("its collector sent what cannot be read: %w", err)
		}
		if err := has(h.Switch); err != nil {
			return err
		}
		if h.Span > maxSpan || h.Start > before-h.Span {
			return errFuture
		}
		outcome := l.AddAt(h, body, unknownArrival)
		if l.Counts().Evicted != 0 {
			return ErrFull
		}
		switch outcome {
		case Taken, Duplicate, Conflict: // as records of a stream are
		default:
			return fmt.Errorf("its collector sent a record of kind %v that is %v", h.Kind, outcome)
		}
		b = rest
	}
	return nil
}

// regionsView is the view with what the regions say beside their records. Partitions that one region lacks are left out of all, so that what answers say of the flows
// of the others holds.
func (s *Store) regionsView(all []Gathered) *Store {
	var parts []Elsewhere
	for i := range all {
		g := &all[i]
		for k := range g.Rest.Lacks {
			m := &g.Rest.Lacks[k]
			if g.Unreached != "" || m.Unreached == "" {
				continue
			}
			why := fmt.Sprintf("region %s: %s", g.Region, m.Unreached)
			at := slices.IndexFunc(parts, func(p Elsewhere) bool { return p.Partition == int(m.Instance) })
			if at < 0 {
				parts = append(parts, Elsewhere{Part: Part{Partition: int(m.Instance)}, Unreached: why})
			} else {
				parts[at].Unreached += "; " + why
			}
		}
	}
	u := s.With(parts)
	gaps, most := []gap(nil), -1
	for i := range all {
		g := &all[i]
		if g.Unreached != "" {
			u.regions = append(u.regions, Missing{Of: OfRegion, Region: g.Region, Unreached: printable.Text(g.Unreached)})
			continue
		}
		u.takeRest(g)
		for k := range g.Rest.Gaps {
			if x := &g.Rest.Gaps[k]; !u.theirs[x.Partition] {
				gaps = append(gaps, gap{sender{x.Switch, x.Partition, x.Boot}, x.Window, x.Records, x.Digests})
			}
		}
		if n := len(g.Rest.Switches); n > most {
			most, u.ahead = n, g.Rest.Ahead
		}
	}
	u.memo = &memo{gaps: func() []gap { return gaps }}
	return u
}

// takeRest adds what a region says beside its records.
func (s *Store) takeRest(g *Gathered) {
	r := &g.Rest
	for i := range r.Spans {
		s.elsewhere = append(s.elsewhere, span{r.Spans[i].Of, r.Spans[i].First}, span{r.Spans[i].Of, r.Spans[i].Last})
	}
	for i := range r.Switches {
		x := &r.Switches[i]
		s.call(x.Switch, x.Name)
		if x.Last != (Window{}) {
			s.heard = append(s.heard, Origin{Switch: x.Switch, Window: x.Last})
		}
	}
	for _, m := range r.Lacks {
		if m.Unreached == "" {
			m.Region = g.Region
			s.regions = append(s.regions, m)
		}
	}
	for _, m := range r.Late {
		m.Unreached = fmt.Sprintf("region %s: %s", g.Region, m.Unreached)
		s.late = append(s.late, m)
	}
}

// RegionsUnreached are the regions of which the store has nothing, although a question may be about them.
func (s *Store) RegionsUnreached() (list []Missing) {
	for _, m := range s.regions {
		if m.Of == OfRegion {
			list = append(list, m)
		}
	}
	return list
}
