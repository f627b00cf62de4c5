package plan

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Report is a plan in figures, for programs and for tables.
type Report struct {
	ID       uint16        `json:"id"`
	Bits     int           `json:"bits"`
	EdgeBits int           `json:"edge_bits,omitempty"`
	Carrier  string        `json:"carrier"`
	Hops     string        `json:"hops"`
	Hash     hash.Family   `json:"hash"`
	Seed     uint64        `json:"seed"`
	GrowthBy int           `json:"growth_bytes"` // of a packet
	Queries  []QueryReport `json:"queries"`
	Sets     []SetReport   `json:"sets"`
	Idle     float64       `json:"idle"` // share of the packets without a query
}

// QueryReport is one query of a plan; Frequency is the share of the packets that it runs on.
type QueryReport struct {
	Name        string  `json:"name"`
	Value       string  `json:"value"`
	Aggregation string  `json:"aggregation"`
	Bits        int     `json:"bits"`
	Frequency   float64 `json:"frequency"`
}

// SetReport is a set of queries that run on a packet together, and on which share of the packets.
type SetReport struct {
	Queries []string `json:"queries"`
	Bits    int      `json:"bits"`
	Share   float64  `json:"share"`
}

// Report describes the plan.
func (p *Plan) Report() *Report {
	r := &Report{ID: p.ID, Bits: p.Bits, EdgeBits: p.EdgeBits, Carrier: p.Carrier, Hops: p.Hops, Hash: p.Hash, Seed: p.Seed, Idle: 1}
	if p.Carrier == CarrierShim {
		digest, edge := p.ShimBytes()
		r.GrowthBy = header.ShimLen(digest + edge)
	}
	for i := range p.Queries {
		q := &p.Queries[i]
		r.Queries = append(r.Queries, QueryReport{q.Name, q.Value.String(), q.Aggregation.String(), q.Bits, p.Frequency(q.Name)})
	}
	from := int64(0)
	for _, s := range p.Sets {
		set := SetReport{Queries: s.Queries, Share: float64(s.Below-from) / (1 << 32)}
		for _, name := range s.Queries {
			q, _ := p.Query(name)
			set.Bits += q.Bits
		}
		from = s.Below
		r.Sets = append(r.Sets, set)
	}
	r.Idle = 1 - float64(from)/(1<<32)
	return r
}
