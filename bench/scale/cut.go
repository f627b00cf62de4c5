package scale

import (
	"cmp"
	"math"
	"slices"

	ldsstage "github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/sink"
	"github.com/weirswitch/weir/telemetry/record"

	sketch "github.com/weirswitch/weir/telemetry/disketch"
)

// cut is what a switch sends of the second within a budget, and how well that answers.
type cut struct {
	Bytes     float64 // per second
	PINTBytes float64 // of these
	Records   float64 // per second
	Digests   float64 // per second, as they are
	Flows     float64 // per second, that the sink lists
	// SketchBytes are those of a record of disketch, and Rounding that of its cells. SampleBytes are those of a record of oblivious, PointBytes those of the
	// records of all points of LDS.
	SketchBytes, SampleBytes, PointBytes float64
	Rounding                             sketch.Rounding
	Quality                              quality
}

// quality are the errors of answers from records.
type quality struct {
	// Path is the share of the flows of pathPackets packets or more that end at the switch whose path is not certain, or wrong.
	Path float64
	// Latency is the mean relative error of switches' median latencies.
	Latency float64
	// FlowLatency is that at the hops of the flows of pathPackets packets or more that end at the switch, 1 where nothing is known; SampleLatency is FlowLatency
	// by the digests that are sent as they are alone.
	FlowLatency, SampleLatency float64
	// Heavy is 1 less the F1 of the flows of a share of heavyShare of the bytes or more.
	Heavy float64
	// Delay is the relative error of the links' mean delays, the root of the mean square, and Loss that of how many packets were lost.
	Delay, Loss float64
	// Known is the share of the flows of pathPackets packets or more whose delay over their link is known.
	Known float64
	// Sketched is the root of the mean squared error of flows by sketches of five switches, in packets, and SketchedHeavy 1 less the F1 of their heavy hitters, mean over heavyShares.
	Sketched, SketchedHeavy float64
	// Entropy is the relative error of the entropy of the flows' shares by UnivMon, the root of the mean square over some networks.
	Entropy float64
}

const (
	pathPackets = 1000
	heavyShare  = 0.001
)

// qualities are the rows of reports.
var qualities = []struct {
	metric, unit, text string
	of                 func(q *quality) float64
}{
	{"path_not_certain", "share", "of flows of 1,000 packets or more", func(q *quality) float64 { return q.Path }},
	{"median_latency_error", "share", "of switches, mean", func(q *quality) float64 { return q.Latency }},
	{"flow_median_latency_error", "share", "at hops of flows of 1,000 packets or more, mean; 1 where none is known", func(q *quality) float64 { return q.FlowLatency }},
	{"flow_median_latency_error_by_sample", "share", "the same, without values of single flows", func(q *quality) float64 { return q.SampleLatency }},
	{"heavy_hitters_1_less_f1", "share", "of flows of 0.1 % of the bytes or more", func(q *quality) float64 { return q.Heavy }},
	{"mean_delay_error", "share", "of links, each by 8 seeds, root of the mean square", func(q *quality) float64 { return q.Delay }},
	{"loss_error", "share", "of links, each by 8 seeds, root of the mean square", func(q *quality) float64 { return q.Loss }},
	{"flows_with_a_delay", "share", "of flows of 1,000 packets or more", func(q *quality) float64 { return q.Known }},
	{"sketched_flows_error", "packets", "of flows of 5 switches, root of the mean square", func(q *quality) float64 { return q.Sketched }},
	{"sketched_heavy_hitters_1_less_f1", "share", "of flows of 0.1 % of a switch's packets or more, mean of shares from half of that to twice it", func(q *quality) float64 { return q.SketchedHeavy }},
	{"entropy_error", "share", "of all flows by UnivMon, root of the mean square of 3 networks", func(q *quality) float64 { return q.Entropy }},
}

// kinds are the systems: what their records take in a slice, all of them and within a budget, and the error of an answer by them.
var kinds = []struct {
	name, text string
	whole      func(s *second) float64
	cut        func(c *cut) float64
	of         func(q *quality) float64
}{
	{"pint", "median latencies at hops of flows of 1,000 packets or more", func(s *second) float64 { return float64(s.Packets) / hops * s.DigestBytes },
		func(c *cut) float64 { return c.PINTBytes * slice }, func(q *quality) float64 { return q.FlowLatency }},
	{"pint", "median latencies of switches", func(s *second) float64 { return float64(s.Packets) / hops * s.DigestBytes },
		func(c *cut) float64 { return c.PINTBytes * slice }, func(q *quality) float64 { return q.Latency }},
	{"disketch", "packets of flows", func(s *second) float64 { return float64(s.Bytes["disketch"]) },
		func(c *cut) float64 { return c.SketchBytes }, func(q *quality) float64 { return q.Sketched }},
	{"oblivious", "1 less F1 of heavy hitters", func(s *second) float64 { return float64(s.Bytes["oblivious"]) },
		func(c *cut) float64 { return c.SampleBytes }, func(q *quality) float64 { return q.Heavy }},
	{"lds", "mean delays of links", func(s *second) float64 { return s.PointBytes },
		func(c *cut) float64 { return c.PointBytes }, func(q *quality) float64 { return q.Delay }},
}

// cutAll fills in what answers are from all records, and what each budget leaves.
func (m *measuring) cutAll() error {
	m.needs = m.condenser.Needs()
	condensed, sample := m.condenser.Take(sink.Room{Flows: math.MaxInt, FlowValues: math.Inf(1)}), m.sampler.Sample()
	whole, bytes, err := m.sentPoints(func(p *lds.Point, dst []byte) []byte {
		dst, _ = p.AppendBinary(dst) // which cannot fail
		return dst
	})
	if err != nil {
		return err
	}
	m.second.PointBytes = bytes
	if m.second.Whole, err = m.quality(nil, sample, whole); err != nil {
		return err
	}
	if err := m.crowds.quality(&m.second.Whole, sketch.Rounding{}); err != nil {
		return err
	}
	m.second.Cuts = map[float64]*cut{}
	for _, s := range settings {
		if s.Budget == 0 {
			continue
		}
		if m.second.Cuts[s.Budget], err = m.cut(s.Budget, condensed, sample); err != nil {
			return err
		}
	}
	return nil
}

// cut is what a budget leaves, once the exporter has divided it.
func (m *measuring) cut(budget float64, condensed []pint.Condensed, sample *oblivious.Sample) (*cut, error) {
	c := &cut{}
	add := func(kind record.Kind, body func([]byte) ([]byte, error)) (float64, error) {
		n, err := m.weigh(kind, body)
		c.Bytes += float64(n) / slice
		c.Records += 1 / slice
		return float64(n) / slice, err
	}
	// Each of the two stages bounds the records of its points by itself, budget or not.
	const stages = 2
	pointed := min(m.second.PointBytes, stages*float64(ldsstage.DefaultConfig().RecordBytes)*slice) / slice
	fixed := float64(m.second.Bytes["status"]) / slice
	sketched := m.counter.Record()
	cells, usefulCells := float64(sketched.Size(sketch.Rounding{}))/slice, float64(sketched.Size(sketched.Useful()))/slice
	entries := float64(m.second.Bytes["oblivious"]) / slice
	all := sink.DigestBytes(m.sunk) / slice
	shares := export.Divide(export.Usable*budget-fixed, []export.Demand{{All: all, Useful: min(all, m.needs.Useful()/slice)}, {All: entries, Useful: entries}, {All: pointed, Useful: pointed}, {All: cells, Useful: usefulCells}})
	c.Bytes, c.Records = fixed, 1/slice

	room := m.needs.Divide(shares[0] * slice)
	batches := m.batches(limit(condensed, room), sink.Share(m.sunk, room.Digests))
	for i := range batches {
		b := &batches[i]
		n, err := add(record.PINT, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
		if err != nil {
			return nil, err
		}
		c.PINTBytes += n
		c.Digests += float64(len(b.Records)) / slice
		c.Flows += float64(len(b.Condensed.Flows)) / slice
	}
	small := sample.Clone()
	small.Shrink(int(float64(len(sample.Entries)) * min(shares[1]/entries, 1)))
	sampleBytes, err := add(record.Oblivious, small.AppendBinary)
	if err != nil {
		return nil, err
	}
	c.SampleBytes = sampleBytes * slice
	sketched.Round(shares[3] * slice)
	c.Rounding = sketched.Rounding
	n, err := add(record.DiSketch, sketched.AppendBinary)
	if err != nil {
		return nil, err
	}
	c.SketchBytes = n * slice
	each := int(min(shares[2], pointed) * slice / points)
	sent, bytes, err := m.sentPoints(func(p *lds.Point, dst []byte) []byte {
		dst, _, _ = p.AppendWithin(dst, each)
		return dst
	})
	if err != nil {
		return nil, err
	}
	c.PointBytes = bytes
	c.Bytes, c.Records = c.Bytes+bytes/slice, c.Records+points/slice
	if c.Quality, err = m.quality(batches, small, sent); err != nil {
		return nil, err
	}
	return c, m.crowds.quality(&c.Quality, c.Rounding)
}

// ends are the points of a link by each seed, those that are sent first.
type ends [linkSeeds][2]*lds.Point

// sentPoints are the points as their records have them, of all links, and what these take in a slice.
func (m *measuring) sentPoints(form func(*lds.Point, []byte) []byte) (links []ends, bytes float64, err error) {
	for i := range m.links {
		var sent ends
		for k, pair := range m.links[i].ends() {
			for e, p := range pair {
				body := form(p, nil)
				if sent[k][e], err = lds.Decode(body, p.Config().Hash); err != nil {
					return nil, 0, err
				}
				if k > 0 {
					continue
				}
				n, err := m.weigh(record.LDS, func(dst []byte) ([]byte, error) { return append(dst, body...), nil })
				if err != nil {
					return nil, 0, err
				}
				bytes += float64(n)
			}
		}
		links = append(links, sent)
	}
	return links, bytes, nil
}

// limit keeps what there is room for of what was condensed, the flows of most packets, as Condenser.Take does.
func limit(condensed []pint.Condensed, room sink.Room) []pint.Condensed {
	all := slices.Clone(condensed)
	var order []*pint.CondensedFlow
	for i := range all {
		all[i].Flows = slices.Clone(all[i].Flows)
		for j := range all[i].Flows {
			order = append(order, &all[i].Flows[j])
		}
	}
	slices.SortFunc(order, func(a, b *pint.CondensedFlow) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), a.Flow.Compare(&b.Flow))
	})
	listed := order[:min(len(order), room.Flows)]
	values := make([][]pint.HopValues, len(listed))
	for i, f := range listed {
		for _, v := range f.Values {
			v.Counts = slices.Clone(v.Counts)
			values[i] = append(values[i], v)
		}
	}
	step := sink.FitValues(values, &[256]bool{}, room.FlowValues) // the default plan has no values that are counted one by one
	for i, f := range listed {
		f.Values = values[i]
	}
	for _, f := range order[len(listed):] {
		f.Packets = 0
	}
	for i := range all {
		all[i].Step = step
	}
	for i := range all {
		all[i].Flows = slices.DeleteFunc(all[i].Flows, func(f pint.CondensedFlow) bool { return f.Packets == 0 })
	}
	return all
}

// batches are the records' bodies, by partition.
func (m *measuring) batches(condensed []pint.Condensed, share uint8) []pint.DigestBatch {
	list := make([]pint.DigestBatch, len(condensed))
	for i := range list {
		condensed[i].Share = max(share, keptShare)
		list[i] = pint.DigestBatch{Boot: 1, Plan: m.batch.Plan, Condensed: &condensed[i]}
	}
	for i := range m.kept {
		if o := &m.kept[i]; pint.Sampled(o.ID, share) {
			b := &list[o.Flow.Partition(len(list))]
			b.Records = append(b.Records, *o)
		}
	}
	return list
}

// quality compares answers with what is true, by what is sent: batches nil: all digests.
func (m *measuring) quality(batches []pint.DigestBatch, sample *oblivious.Sample, links []ends) (q quality, err error) {
	m.digestQuality(&q, batches)
	if q.Heavy, err = m.heavyQuality(sample); err != nil {
		return q, err
	}
	return q, m.pointQuality(&q, links)
}

func (m *measuring) digestQuality(q *quality, batches []pint.DigestBatch) {
	readings := &m.readings
	if batches != nil {
		readings = new([pathSwitches]tally)
		for i := range batches {
			for _, v := range batches[i].Condensed.Values {
				for _, n := range v.Counts {
					readings[v.Switch-1][n.Code] += n.Count
				}
			}
		}
	}
	for i := range readings {
		median := m.medianOr0(&readings[i])
		q.Latency += math.Abs(median/medianOf(uint64(i+1))-1) / pathSwitches
	}
	sampled := m.sampled(batches)
	wrong, all := 0., 0.
	for key, f := range m.flows {
		if f.path == nil || f.packets < pathPackets {
			continue
		}
		all++
		values, step := m.valuesOf(pint.FlowKey(key), batches)
		for hop, sw := range f.path {
			bySample := f.medians[hop]
			if batches != nil {
				bySample = m.medianOr0(&sampled[pint.FlowKey(key)][hop])
			}
			byAll := bySample
			if i := slices.IndexFunc(values, func(v pint.HopValues) bool { return int(v.Hop) == hop+1 }); i >= 0 {
				counts := tally{}
				for _, n := range values[i].Counts {
					counts.spread(n, step)
				}
				byAll = m.medianOr0(&counts)
			}
			q.FlowLatency += math.Abs(byAll/medianOf(sw) - 1)
			q.SampleLatency += math.Abs(bySample/medianOf(sw) - 1)
		}
		if !slices.Equal(m.pathOf(pint.FlowKey(key), f, batches), f.path) {
			wrong++
		}
	}
	q.Path = wrong / all
	q.FlowLatency /= all * hops
	q.SampleLatency /= all * hops
}

// valuesOf are the latencies of a flow that batches have.
func (m *measuring) valuesOf(key pint.FlowKey, batches []pint.DigestBatch) (values []pint.HopValues, step uint8) {
	if batches == nil {
		return nil, 0
	}
	c := batches[key.Partition(len(batches))].Condensed
	if f := c.Find(&key); f != nil {
		return f.ValuesOf(latencyQuery), c.Step
	}
	return nil, 0
}

// spread adds readings of 2^step codes, evenly.
func (t *tally) spread(n pint.CodeCount, step uint8) {
	for i := range uint64(1) << step {
		t[uint64(n.Code)+i] += (i+1)*n.Count>>step - i*n.Count>>step
	}
}

// sampled are the latencies of flows of pathPackets packets or more by digests as they are.
func (m *measuring) sampled(batches []pint.DigestBatch) map[pint.FlowKey]*[hops]tally {
	by := map[pint.FlowKey]*[hops]tally{}
	for key, f := range m.flows {
		if f.path != nil && f.packets >= pathPackets {
			by[pint.FlowKey(key)] = new([hops]tally)
		}
	}
	for i := range batches {
		for j := range batches[i].Records {
			o := &batches[i].Records[j]
			if t := by[o.Flow]; t != nil {
				if x, ok := m.reader.Read(latencyQuery, o); ok {
					t[x.Hop-1][x.Digest]++
				}
			}
		}
	}
	return by
}

// medianOr0 is the median of readings, 0 of none.
func (m *measuring) medianOr0(t *tally) float64 {
	if *t == (tally{}) {
		return 0
	}
	return m.reader.Codec(latencyQuery).Between(t.median())
}

// pathOf is the path of a flow by records, nil if it is not certain.
func (m *measuring) pathOf(key pint.FlowKey, f *flow, batches []pint.DigestBatch) []uint64 {
	if batches == nil {
		if !f.decoded.Certain() {
			return nil
		}
		return f.decoded.Path()
	}
	c := batches[key.Partition(len(batches))].Condensed
	if x := c.Find(&key); x != nil {
		return c.PathOf(x)
	}
	return nil
}

// median is a code, and where in its step the median is.
func (t *tally) median() (code uint64, part float64) {
	n, sum := uint64(0), uint64(0)
	for _, c := range t {
		n += c
	}
	for code, c := range t {
		if sum += c; sum >= (n+1)/2 && c > 0 {
			return uint64(code), max((float64(n)/2-float64(sum-c))/float64(c)-0.5, -0.5)
		}
	}
	return 0, 0
}

func (m *measuring) heavyQuality(sample *oblivious.Sample) (float64, error) {
	found, err := sample.HeavyHitters(oblivious.Bytes, heavyShare, 0, 0.05)
	if err != nil {
		return 0, err
	}
	total := uint64(0)
	for _, f := range m.flows {
		total += f.bytes
	}
	heavy := func(f *flow) bool { return f != nil && float64(f.bytes) >= heavyShare*float64(total) }
	right, all := 0., 0.
	for _, f := range found {
		if heavy(m.flows[f.Key]) {
			right++
		}
	}
	for _, f := range m.flows {
		if heavy(f) {
			all++
		}
	}
	if len(found) == 0 || all == 0 {
		return 1, nil
	}
	return 1 - 2*right/(float64(len(found))+all), nil
}

func (m *measuring) pointQuality(q *quality, links []ends) error {
	var differences []*lds.Difference
	for i := range m.links {
		x := &m.links[i]
		for k, pair := range links[i] {
			pair := lds.Alike(pair[0], pair[1])
			d, err := lds.Subtract(pair[0], pair[1], lds.AnyDelay())
			if err != nil {
				return err
			}
			if k == 0 {
				differences = append(differences, d)
			}
			mean, ok := d.MeanNs()
			lost, known := d.Lost()
			off, missed := 1., 1.
			if ok {
				off = mean/(x.delay/float64(x.n)) - 1
			}
			if known {
				missed = float64(lost)/float64(x.lost) - 1
			}
			q.Delay += off * off
			q.Loss += missed * missed
		}
	}
	measured := float64(len(m.links) * linkSeeds)
	q.Delay, q.Loss = math.Sqrt(q.Delay/measured), math.Sqrt(q.Loss/measured)
	known, all := 0., 0.
	for _, f := range m.flows {
		if f.packets >= pathPackets {
			all++
			if differences[f.link].Flow(f.number, 1, lds.Balanced).HasDelay {
				known++
			}
		}
	}
	q.Known = known / all
	return nil
}
