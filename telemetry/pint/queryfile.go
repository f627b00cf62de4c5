package pint

import (
	"fmt"
	"io"

	"github.com/weirswitch/weir/internal/tomlfile"
)

// queryText is a query as an operator writes it: with the keys of a plan's
// [[query]], of which most may be missing.
type queryText struct {
	Query
	Static *staticText `toml:"static"`
}

// staticText names a scheme in place of a plan's layers.
type staticText struct {
	StaticQuery
	Code *ValueCode `toml:"code"`
	// Scheme is one of schemes; Hops the typical length of a path, where the
	// scheme depends on it.
	Scheme string `toml:"scheme"`
	Hops   int    `toml:"hops"`
}

// schemes makes layers from a typical number of hops.
var schemes = []struct {
	name   string
	hops   bool // is it needed?
	layers func(code ValueCode, hops int) []Layer
}{
	{"dense", false, func(c ValueCode, _ int) []Layer { return Dense(c) }},
	{"baseline", false, func(ValueCode, int) []Layer { return Baseline() }},
	{"xor", true, func(_ ValueCode, d int) []Layer { return XOR(1 / float64(d)) }},
	{"hybrid", true, func(_ ValueCode, d int) []Layer { return Hybrid(d) }},
	{"multilayer", true, func(_ ValueCode, d int) []Layer { return MultiLayer(d) }},
	{"multilayer_revised", true, func(_ ValueCode, d int) []Layer { return MultiLayerRevised(d) }},
}

// ReadQueries reads what an operator asks for, as a plan's [[query]] in TOML,
// and fills in what is missing: a frequency of 1, the scheme and code of paths,
// the range of a value. Unknown keys are faults. The queries are validated by
// NewPlan.
func ReadQueries(r io.Reader) ([]Query, error) {
	text, err := readText(r)
	if err != nil {
		return nil, fmt.Errorf("read queries: %w", err)
	}
	var file struct {
		Queries []queryText `toml:"query"`
	}
	f := tomlfile.Decode(text, &file, nil)
	var queries []Query
	for i := range file.Queries {
		q, err := file.Queries[i].complete()
		f.AddAll(fmt.Sprintf("query[%d]", i), err)
		queries = append(queries, q)
	}
	if err := f.Err(""); err != nil {
		return nil, fmt.Errorf("read queries: %w", err)
	}
	return queries, nil
}

func (t *queryText) complete() (Query, error) {
	q := t.Query
	if q.Frequency == 0 {
		q.Frequency = 1
	}
	if q.Numeric == nil {
		q.Numeric = usualRange(q.Value, q.Aggregation)
	}
	s := t.Static
	if s == nil {
		if q.Aggregation != Path {
			return q, nil
		}
		s = &staticText{}
	}
	static := s.StaticQuery
	q.Static = &static
	static.Code = Linear
	if s.Code != nil {
		static.Code = *s.Code
	}
	if static.ValueBits == 0 && static.Code != Hashed {
		static.ValueBits = 10
		if q.Value != SwitchID {
			static.ValueBits = 8
		}
	}
	var err error
	static.Layers, err = s.layers(static.Code)
	return q, err
}

// layers are those that are given, or those of the scheme.
func (s *staticText) layers(code ValueCode) ([]Layer, error) {
	if s.Layers != nil {
		if s.Scheme != "" || s.Hops != 0 {
			return nil, fmt.Errorf("static.layer and static.scheme: give one of them")
		}
		return s.Layers, nil
	}
	name := s.Scheme
	if name == "" {
		name = schemes[0].name
	}
	var names []string
	for _, known := range schemes {
		names = append(names, known.name)
		switch {
		case known.name != name:
		case known.hops && (s.Hops < 1 || s.Hops > MaxHops):
			return nil, fmt.Errorf("static.hops %d: scheme %q needs the typical number of hops, 1 to %d", s.Hops, name, MaxHops)
		case !known.hops && s.Hops != 0:
			return nil, fmt.Errorf("static.hops: scheme %q does not depend on it: leave it out", name)
		default:
			return known.layers(code, s.Hops), nil
		}
	}
	return nil, fmt.Errorf("static.scheme %q: use one of %q", name, names)
}

// usualRange is the range of a value where the operator gives none, nil where
// that would be a guess: sums and slow hops need a limit.
func usualRange(v Value, a Aggregation) *NumericQuery {
	switch a {
	case Quantiles, Frequent, Maximum, Minimum:
	default:
		return nil
	}
	switch v {
	case HopLatency:
		return &NumericQuery{Multiplicative: true, Min: 100, Max: 100_000_000}
	case EgressUtilisation:
		return &NumericQuery{Multiplicative: true, Min: UtilisationOne >> 10, Max: UtilisationOne << 4}
	case QueueOccupancy:
		return &NumericQuery{Multiplicative: true, Min: 1, Max: 1 << 16}
	case QueueCongestion:
		return &NumericQuery{Max: 100}
	}
	return &NumericQuery{} // ids, ports and times in steps of 1
}
