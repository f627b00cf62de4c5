package parquet

import (
	"slices"

	"github.com/weirswitch/weir/telemetry/query"
)

// flowColumns are a flow and the parts of its key; null: the key does not have the part.
type flowColumns struct {
	Flow      string  `parquet:"flow"`
	IPVersion *int32  `parquet:"ip_version,optional"`
	Src       *string `parquet:"src,optional"`
	Dst       *string `parquet:"dst,optional"`
	SrcPort   *int32  `parquet:"src_port,optional"`
	DstPort   *int32  `parquet:"dst_port,optional"`
	Proto     *int32  `parquet:"proto,optional"`
}

func columnsOf(k query.Key) flowColumns {
	c := flowColumns{Flow: query.FormatKey(k)}
	if k.Version == 0 {
		return c
	}
	version, src, dst := int32(k.Version), k.SrcAddr().String(), k.DstAddr().String()
	c.IPVersion, c.Src, c.Dst = &version, &src, &dst
	if k.Proto != 0 || k.SrcPort != 0 || k.DstPort != 0 {
		srcPort, dstPort, proto := int32(k.SrcPort), int32(k.DstPort), int32(k.Proto)
		c.SrcPort, c.DstPort, c.Proto = &srcPort, &dstPort, &proto
	}
	return c
}

// columnsOfText are those of a flow that an answer names by its text alone.
func columnsOfText(flow string) flowColumns {
	k, err := query.ParseKey(flow)
	if err != nil {
		return flowColumns{Flow: flow} // not IP
	}
	c := columnsOf(k)
	c.Flow = flow
	return c
}

// bounds are the columns of a value with its bounds, in the unit of its row.
type bounds struct {
	Value float64 `parquet:"value"`
	Low   float64 `parquet:"value_low"`
	High  float64 `parquet:"value_high"`
}

type heavyRow struct {
	flowColumns
	bounds
	Unit  string   `parquet:"unit,dict"`
	Share float64  `parquet:"share" unit:"share of the volume"`
	Trust *float64 `parquet:"trust,optional" unit:"share"`
}

func heavyHitters(h *query.HeavyHitters) (*table, error) {
	t := tableOf("heavy-hitters", func(yield func(heavyRow) bool) {
		for i := range h.Flows {
			f := &h.Flows[i]
			c := columnsOf(f.Key)
			c.Flow = f.Flow
			if !yield(heavyRow{c, bounds(f.Bounded), h.Unit, f.Share, f.Trust}) {
				return
			}
		}
	})
	rest := *h
	rest.Flows = nil
	return t.of(&h.Basis, rest)
}

// pathRow is a hop of a flow's path; a flow of which no hop is known has one row without.
type pathRow struct {
	flowColumns
	Packets    uint64  `parquet:"packets" unit:"packets"`
	FirstNs    int64   `parquet:"first_ns" unit:"ns of CLOCK_TAI"`
	LastNs     int64   `parquet:"last_ns" unit:"ns of CLOCK_TAI"`
	Known      bool    `parquet:"known"`
	Certain    bool    `parquet:"certain"`
	Doubt      float64 `parquet:"doubt" unit:"probability"`
	Changes    uint64  `parquet:"changes" unit:"changes"`
	Strays     uint64  `parquet:"strays" unit:"packets"`
	Hops       int32   `parquet:"hops" unit:"hops"`
	Hop        *int32  `parquet:"hop,optional"`
	Switch     *string `parquet:"switch,optional"`
	Number     *uint64 `parquet:"number,optional"`
	Candidates *int32  `parquet:"candidates,optional" unit:"values"`
}

func paths(a *query.PathAnswer) (*table, error) {
	t := tableOf("path", func(yield func(pathRow) bool) {
		for i := range a.Flows {
			f := &a.Flows[i]
			row := pathRow{flowColumns: columnsOfText(f.Flow), Packets: f.Packets, FirstNs: f.FirstNs, LastNs: f.LastNs, Known: f.Known,
				Certain: f.Certain, Doubt: f.Doubt, Changes: f.Changes, Strays: f.Strays, Hops: int32(len(f.Hops))}
			if len(f.Hops) == 0 && !yield(row) {
				return
			}
			for _, h := range f.Hops {
				hop, candidates := int32(h.Hop), int32(h.Candidates)
				row.Hop, row.Switch, row.Number, row.Candidates = &hop, text(h.Switch), nil, &candidates
				if h.Candidates == 1 {
					row.Number = &h.Number
				}
				if !yield(row) {
					return
				}
			}
		}
	})
	rest := *a
	rest.Flows = slices.Clone(a.Flows) // their ways in the course of time stay in the summary
	for i := range rest.Flows {
		rest.Flows[i].Hops = nil
	}
	return t.of(&a.Basis, rest)
}

// text is a text that may not be known.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// quantileColumns are those of a quantile of some samples; all but Samples null: there is none.
type quantileColumns struct {
	Samples  uint64   `parquet:"samples" unit:"samples"`
	Rank     *float64 `parquet:"rank,optional" unit:"share of the samples"`
	Value    *float64 `parquet:"value,optional"`
	Low      *float64 `parquet:"value_low,optional"`
	High     *float64 `parquet:"value_high,optional"`
	RankLow  *float64 `parquet:"rank_low,optional" unit:"share of the samples"`
	RankHigh *float64 `parquet:"rank_high,optional" unit:"share of the samples"`
	Open     *bool    `parquet:"open,optional"`
}

// each yields the columns of all quantiles.
func quantiles(s *query.ValueStats, yield func(quantileColumns) bool) bool {
	if len(s.Quantiles) == 0 {
		return yield(quantileColumns{Samples: s.Samples})
	}
	for i := range s.Quantiles {
		q := s.Quantiles[i]
		if !yield(quantileColumns{s.Samples, &q.Rank, &q.Value, &q.Low, &q.High, &q.RankLow, &q.RankHigh, &q.Open}) {
			return false
		}
	}
	return true
}

// latencyRow is a quantile of a hop, or of a switch.
type latencyRow struct {
	Hop    *int32  `parquet:"hop,optional"`
	Switch *string `parquet:"switch,optional"`
	Flows  int64   `parquet:"flows" unit:"flows"`
	Unit   string  `parquet:"unit,dict"`
	quantileColumns
}

func latency(a *query.LatencyAnswer) (*table, error) {
	t := tableOf("latency", func(yield func(latencyRow) bool) {
		for i := range a.Hops {
			h := &a.Hops[i]
			row := latencyRow{Switch: text(h.Switch), Flows: int64(h.Flows), Unit: a.Unit}
			if hop := int32(h.Hop); hop != 0 {
				row.Hop = &hop
			}
			if !quantiles(&h.ValueStats, func(c quantileColumns) bool {
				row.quantileColumns = c
				return yield(row)
			}) {
				return
			}
		}
	})
	rest := *a
	rest.Hops = nil
	return t.of(&a.Basis, rest)
}

// congestionRow is a quantile of all packets, or of a flow's.
type congestionRow struct {
	Flow *string `parquet:"flow,optional"` // null: all packets
	Unit string  `parquet:"unit,dict"`
	quantileColumns
}

func congestion(a *query.CongestionAnswer) (*table, error) {
	t := tableOf("congestion", func(yield func(congestionRow) bool) {
		row := congestionRow{Unit: a.Unit}
		each := func(c quantileColumns) bool {
			row.quantileColumns = c
			return yield(row)
		}
		if !quantiles(&a.Packets, each) {
			return
		}
		for i := range a.Flows {
			row.Flow = &a.Flows[i].Flow
			if !quantiles(&a.Flows[i].ValueStats, each) {
				return
			}
		}
	})
	rest := *a
	rest.Flows, rest.Packets = nil, query.ValueStats{}
	return t.of(&a.Basis, rest)
}

type loopRow struct {
	flowColumns
	Packets  uint64   `parquet:"packets" unit:"packets"`
	Marked   uint64   `parquet:"marked" unit:"packets"`
	Doubt    float64  `parquet:"doubt" unit:"probability"`
	Path     []string `parquet:"path,list"`
	Repeated []string `parquet:"repeated,list"`
	FirstNs  int64    `parquet:"first_ns" unit:"ns of CLOCK_TAI"`
	LastNs   int64    `parquet:"last_ns" unit:"ns of CLOCK_TAI"`
}

func loops(a *query.LoopsAnswer) (*table, error) {
	t := tableOf("loops", func(yield func(loopRow) bool) {
		for i := range a.Flows {
			f := &a.Flows[i]
			if !yield(loopRow{columnsOfText(f.Flow), f.Packets, f.Marked, f.Doubt, f.Path, f.Repeated, f.FirstNs, f.LastNs}) {
				return
			}
		}
	})
	rest := *a
	rest.Flows = nil
	return t.of(&a.Basis, rest)
}
