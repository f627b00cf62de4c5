// Package plan decides which queries run on which packets (sections 3.3 and 3.4): it validates queries, finds the shares
// of the query sets by a linear program, and reads and writes plans as TOML.
package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// Carriers of the digest.
const (
	CarrierShim = "shim" // a header of its own, any Ethernet packet
	CarrierIPID = "ipid" // the identification of atomic IPv4 datagrams
)

// Sources of the hop number.
const (
	HopsFromTTL  = "ttl"  // distance to the initial TTL
	HopsFromShim = "shim" // the shim's hop field
)

// Config is what an operator asks for.
type Config struct {
	// ID distinguishes plans while one replaces another; the shim carries it.
	ID uint16
	// Hash is the family of the plan's hash functions: that of the switches.
	Hash hash.Family
	// Seed makes all hash functions of the plan; at most 2^63-1, for TOML.
	Seed uint64
	// Bits is the global budget: the size of a packet's digest, in 1..64.
	Bits int
	// EdgeBits is what the shim has beside the digest for the id of the switch at which a packet enters, 0 to 32: its source writes
	// that, and it stays on the path. 0: the shim has none.
	EdgeBits int
	Carrier  string // "" means CarrierShim
	Hops     string // "" means HopsFromShim, or HopsFromTTL with CarrierIPID
	// InitialTTL is the TTL that hosts send; 0: the nearest of 32, 64, 128 and
	// 255 from above.
	InitialTTL int
	Queries    []pint.Query
}

// Plan is what the switches and the recorder share: which queries run on
// which packets, and with which hash functions.
type Plan struct {
	ID         uint16       `toml:"id"`
	Hash       hash.Family  `toml:"hash"`
	Seed       uint64       `toml:"seed"`
	Bits       int          `toml:"bits"`
	EdgeBits   int          `toml:"edge_bits,omitzero"`
	Carrier    string       `toml:"carrier"`
	Hops       string       `toml:"hops"`
	InitialTTL int          `toml:"initial_ttl"`
	Queries    []pint.Query `toml:"query"`
	Sets       []Set        `toml:"set"`
}

// Set is a set of queries that run together. Of q(packet), the upper 32 bits
// of a hash, it has what is below Below and not below that of an earlier set.
// The digests of its queries lie side by side in their order, the first one
// in the lowest bits.
type Set struct {
	Queries []string `toml:"queries"`
	Below   int64    `toml:"below"` // at most 2^32
}

// New finds the distribution over query sets that gives each query its
// frequency. It returns an *InfeasibleError if there is none.
func New(c Config) (*Plan, error) {
	p := &Plan{
		ID: c.ID, Hash: c.Hash, Seed: c.Seed, Bits: c.Bits, EdgeBits: c.EdgeBits, Carrier: c.Carrier, Hops: c.Hops,
		InitialTTL: c.InitialTTL, Queries: slices.Clone(c.Queries),
	}
	if p.Carrier == "" {
		p.Carrier = CarrierShim
	}
	if p.Hops == "" {
		p.Hops = HopsFromShim
		if p.Carrier == CarrierIPID {
			p.Hops = HopsFromTTL
		}
	}
	if err := errors.Join(p.validateFrame(), p.validateQueries()); err != nil {
		return nil, fmt.Errorf("plan %d: %w", c.ID, err)
	}
	needs, frequencies := make([]int, len(p.Queries)), make([]float64, len(p.Queries))
	for i, q := range p.Queries {
		needs[i], frequencies[i] = q.Bits, q.Frequency
	}
	shares, err := distribute(needs, frequencies, p.Bits)
	if err != nil {
		return nil, fmt.Errorf("plan %d: %w", c.ID, err)
	}
	for i, below := range thresholds(shares) {
		p.Sets = append(p.Sets, Set{Queries: p.names(shares[i].set), Below: below})
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("the query engine made a plan that is not valid: %w", err)
	}
	return p, nil
}

func (p *Plan) names(set uint) []string {
	var names []string
	for i := range p.Queries {
		if set>>i&1 != 0 {
			names = append(names, p.Queries[i].Name)
		}
	}
	return names
}

// ShimBytes are what the digest and the edge take in a shim.
func (p *Plan) ShimBytes() (digest, edge int) { return (p.Bits + 7) / 8, (p.EdgeBits + 7) / 8 }

// Query finds a query by its name.
func (p *Plan) Query(name string) (*pint.Query, bool) {
	i := slices.IndexFunc(p.Queries, func(q pint.Query) bool { return q.Name == name })
	if i < 0 {
		return nil, false
	}
	return &p.Queries[i], true
}

// Frequency is the share of the packets that the plan gives to a query.
func (p *Plan) Frequency(name string) float64 {
	var sum, from int64
	for _, s := range p.Sets {
		if slices.Contains(s.Queries, name) {
			sum += s.Below - from
		}
		from = s.Below
	}
	return float64(sum) / thresholdOne
}

// Validate reports all faults at once, each with its key and remedy.
func (p *Plan) Validate() error {
	err := errors.Join(p.validateFrame(), p.validateQueries(), p.validateSets())
	if err != nil {
		return fmt.Errorf("plan %d: %w", p.ID, err)
	}
	return nil
}

// validateFrame is for what does not depend on the queries.
func (p *Plan) validateFrame() error {
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	if err := p.Hash.Check(); err != nil {
		fault("%w", err)
	}
	if p.Seed > math.MaxInt64 {
		fault("seed %d: use at most 2^63-1, which TOML can hold", p.Seed)
	}
	if p.Bits < 1 || p.Bits > 64 {
		fault("bits %d: use 1 to 64", p.Bits)
	}
	if digest, edge := p.ShimBytes(); p.EdgeBits < 0 || p.EdgeBits > 32 || edge > 0 && digest+edge > header.MaxShimDigest {
		fault("edge_bits %d: use 1 to 32 and, in whole bytes, no more than the digest's %d bits leave of %d bytes, or 0 for none", p.EdgeBits, p.Bits, header.MaxShimDigest)
	}
	if p.InitialTTL < 0 || p.InitialTTL > 255 {
		fault("initial_ttl %d: use 1 to 255, or 0 for the nearest of 32, 64, 128 and 255", p.InitialTTL)
	}
	switch p.Carrier {
	case CarrierShim:
	case CarrierIPID:
		if p.Bits > 16 {
			fault("bits %d: carrier %q has 16", p.Bits, p.Carrier)
		}
		if p.EdgeBits != 0 {
			fault("edge_bits %d: carrier %q has no room for an edge: leave it out, or use carrier %q", p.EdgeBits, p.Carrier, CarrierShim)
		}
		if p.Hops == HopsFromShim {
			fault("hops %q: carrier %q has no hop field: use %q", p.Hops, p.Carrier, HopsFromTTL)
		}
	default:
		fault("carrier %q: use %q or %q", p.Carrier, CarrierShim, CarrierIPID)
	}
	if p.Hops != HopsFromShim && p.Hops != HopsFromTTL {
		fault("hops %q: use %q or %q", p.Hops, HopsFromTTL, HopsFromShim)
	}
	return errors.Join(faults...)
}

func (p *Plan) validateQueries() error {
	var faults []error
	if n := len(p.Queries); n == 0 || n > MaxQueries {
		faults = append(faults, fmt.Errorf("%d queries: use 1 to %d", n, MaxQueries))
	}
	seen := map[string]bool{}
	for i := range p.Queries {
		q := &p.Queries[i]
		faults = append(faults, validateQuery(q))
		if q.Bits > p.Bits {
			faults = append(faults, fmt.Errorf("query %q: bits %d: the plan has %d for all", q.Name, q.Bits, p.Bits))
		}
		if seen[q.Name] {
			faults = append(faults, fmt.Errorf("query %q: the name occurs twice", q.Name))
		}
		seen[q.Name] = true
	}
	return errors.Join(faults...)
}

func (p *Plan) validateSets() error {
	var faults []error
	fault := func(i int, format string, a ...any) {
		faults = append(faults, fmt.Errorf("set %d: "+format, append([]any{i + 1}, a...)...))
	}
	if n := len(p.Sets); n == 0 || n > 1<<MaxQueries {
		faults = append(faults, fmt.Errorf("%d sets: use 1 to %d", n, 1<<MaxQueries))
	}
	from := int64(0)
	for i, s := range p.Sets {
		if s.Below <= from || s.Below > thresholdOne {
			fault(i, "below %d: it must be above that of the set before, %d, and at most 2^32", s.Below, from)
		}
		from = s.Below
		sum := 0
		for j, name := range s.Queries {
			q, known := p.Query(name)
			if !known {
				fault(i, "query %q is not in the plan", name)
				continue
			}
			if slices.Contains(s.Queries[:j], name) {
				fault(i, "query %q occurs twice", name)
			}
			sum += q.Bits
		}
		p.checksums(s.Queries, func(format string, a ...any) { fault(i, format, a...) })
		if len(s.Queries) == 0 {
			fault(i, "it has no query: leave it out, packets of no set carry nothing")
		}
		if sum > p.Bits {
			fault(i, "its queries take %d bits, the plan has %d", sum, p.Bits)
		}
	}
	for i := range p.Queries {
		q := &p.Queries[i]
		if got := p.Frequency(q.Name); math.Abs(got-q.Frequency) > 1e-6 {
			faults = append(faults, fmt.Errorf("query %q: the sets give it %.6g of the packets, its frequency is %.6g", q.Name, got, q.Frequency))
		}
	}
	return errors.Join(faults...)
}

// Checksum returns the number of the query that tells apart the paths of a query for paths, both by their number in the plan; -1: the plan has
// none.
func (p *Plan) Checksum(path int) int {
	return slices.IndexFunc(p.Queries, func(q pint.Query) bool {
		return q.Aggregation == pint.Checksum && q.Value == p.Queries[path].Value
	})
}

// checksums reports the queries for paths of a set whose packets have not the checksum that the plan has for them.
func (p *Plan) checksums(set []string, fault func(string, ...any)) {
	for i := range p.Queries {
		q := &p.Queries[i]
		if q.Aggregation != pint.Path || !slices.Contains(set, q.Name) {
			continue
		}
		if n := p.Checksum(i); n >= 0 && !slices.Contains(set, p.Queries[n].Name) {
			fault("query %q without %q, which tells its paths apart: give both a frequency of 1", q.Name, p.Queries[n].Name)
		}
	}
}

// seeds are the hash functions of all queries together. They are hashes of each other under XXH64 whatever the
// family: only what is hashed of packets goes by that. So a P4 target gets them as numbers.
func (p *Plan) seeds() encode.SharedSeeds {
	return encode.SharedSeeds{Set: hash.Uint64(p.Seed, 'q'), Writer: hash.Uint64(p.Seed, 'g')}
}

// Step is how packets carry a query of the plan. Its hash functions do not depend on the other queries.
func (p *Plan) Step(q *pint.Query) (encode.Step, error) {
	return encode.NewStep(q, p.Hash, hash.Uint64x2(p.Seed, hash.Bytes(p.Seed, []byte(q.Name)), 'Q'), p.seeds())
}

// Compile makes the plan's encoder.
func (p *Plan) Compile() (*encode.Encoder, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	sets := make([]encode.Set, len(p.Sets))
	for i, set := range p.Sets {
		sets[i].Below = uint64(set.Below)
		for _, name := range set.Queries {
			q, _ := p.Query(name)
			step, err := p.Step(q)
			if err != nil {
				return nil, fmt.Errorf("plan %d: query %q: %w", p.ID, name, err)
			}
			sets[i].Steps = append(sets[i].Steps, step)
		}
	}
	return encode.New(p.ID, p.Hash, p.seeds(), sets), nil
}
