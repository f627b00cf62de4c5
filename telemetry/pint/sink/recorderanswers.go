package sink

import (
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
)

// packetState is what is kept of a flow's per-packet digests.
type packetState struct {
	n, lastNs      uint64
	last, min, max uint64 // digests
	sum            float64
	hops           int // of the last packet
}

func (s *packetState) add(digest uint64, value float64, timeNs uint64, hops int) {
	if s.n == 0 {
		s.min, s.max = digest, digest
	}
	s.n++
	s.min, s.max = min(s.min, digest), max(s.max, digest)
	s.sum += value
	s.last, s.lastNs, s.hops = digest, timeNs, hops
}

// PathAnswer is what is known of a flow's path.
type PathAnswer struct {
	// Path holds the hops' values, hop 1 first; nil while it is not known.
	Path []uint64
	// Certain: the path has the decoder's confidence. Confidence is the bound so
	// far.
	Certain    bool
	Confidence float64
	// Left counts the candidates of each hop; 0: not narrowed down.
	Left []int
	// Packets with a digest for the query, changes of the path that were noticed,
	// and digests that contradicted a certain path.
	Packets, Changes, Strays uint64
	// Digests is how many are kept to decode from: of packets with different
	// ids. 0 once the path is certain.
	Digests int
}

// PacketAnswer is what the packets of a flow said, each of its whole path.
type PacketAnswer struct {
	Packets uint64
	// Last is the newest packet's value, of LastNs. Exact and estimated value
	// differ by what Low and High say: for max and min, the values that can have
	// the code; for sums and counts, two standard deviations.
	Last, Low, High float64
	LastNs          uint64
	// Min, Max and Mean over the packets.
	Min, Max, Mean float64
}

// find calls f for the queries of that name, of the newest plan first, until
// it returns true.
func (r *Recorder) find(query string, f func(*recordedQuery) bool) bool {
	for _, p := range slices.Backward(r.plans) {
		for _, q := range p.queries {
			if q.Name == query && f(q) {
				return true
			}
		}
	}
	return false
}

// Path answers a path query. flow is a 5-tuple; it reports false if nothing
// of the flow is known. While two plans are live, the newer one answers, if it
// has heard of the flow: so do the other answers.
func (r *Recorder) Path(query string, flow pint.FlowKey) (a PathAnswer, known bool) {
	return a, r.find(query, func(q *recordedQuery) bool {
		if q.paths == nil {
			return false
		}
		f := q.paths.find(q.Flow.Of(flow))
		if f == nil {
			return false
		}
		a = PathAnswer{Path: slices.Clone(f.Path()), Certain: f.Certain(), Confidence: f.Confidence(),
			Packets: f.Packets, Changes: f.Changes, Strays: f.Strays, Digests: len(f.obs)}
		for hop := 1; hop <= f.Hops(); hop++ {
			a.Left = append(a.Left, f.Left(hop))
		}
		return true
	})
}

// Quantile answers a quantiles query for a hop, from 1; rank is in [0, 1]. It
// reports false without a sample.
func (r *Recorder) Quantile(query string, flow pint.FlowKey, hop int, rank float64) (a Quantile, known bool) {
	r.find(query, func(q *recordedQuery) bool {
		s := q.stream(flow, hop)
		if s == nil || q.Aggregation != pint.Quantiles {
			return false
		}
		a, known = s.estimate(q.streams.of(q.samples.find(q.Flow.Of(flow)).hops), rank)
		return known
	})
	return a, known
}

// Frequent answers a frequent query for a hop, from 1: the values that at
// least the threshold's share of the flow's packets may have had there, the
// most frequent first. It reports false without a sample.
func (r *Recorder) Frequent(query string, flow pint.FlowKey, hop int, threshold float64) (a []FrequentValue, known bool) {
	known = r.find(query, func(q *recordedQuery) bool {
		s := q.stream(flow, hop)
		if s == nil || s.n == 0 || q.Aggregation != pint.Frequent {
			return false
		}
		a = s.frequent(q.streams.of(q.samples.find(q.Flow.Of(flow)).hops), threshold)
		return true
	})
	return a, known
}

// Samples is how many values of a hop, from 1, a query for quantiles or frequent
// values has been given.
func (r *Recorder) Samples(query string, flow pint.FlowKey, hop int) (n uint64) {
	r.find(query, func(q *recordedQuery) bool {
		s := q.stream(flow, hop)
		if s == nil {
			return false
		}
		n = uint64(s.n)
		return true
	})
	return n
}

// stream is what is kept of a flow's hop, nil if nothing is.
func (q *recordedQuery) stream(flow pint.FlowKey, hop int) *stream {
	if q.samples == nil {
		return nil
	}
	h := q.samples.find(q.Flow.Of(flow))
	if h == nil || hop < 1 || hop > h.hops {
		return nil
	}
	return h.stream(q.streams, hop)
}

// Packets answers a query of max, min, sum, product, slow_hops or loop. Of a loop query
// the values are how often switches found their own hash: 1 and more is
// suspicious.
func (r *Recorder) Packets(query string, flow pint.FlowKey) (a PacketAnswer, known bool) {
	return a, r.find(query, func(q *recordedQuery) bool {
		if q.packets == nil {
			return false
		}
		p := q.packets.find(q.Flow.Of(flow))
		if p == nil {
			return false
		}
		s := &q.step
		a = PacketAnswer{Packets: p.n, LastNs: p.lastNs, Last: s.Value(p.last),
			Min: s.Value(p.min), Max: s.Value(p.max), Mean: p.sum / float64(p.n)}
		a.Low, a.High = s.Interval(p.last, p.hops)
		return true
	})
}
