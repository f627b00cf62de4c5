package plan

import (
	"fmt"
	"io"

	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// queryText is a query as an operator writes it: with the keys of a plan's
// [[query]], of which most may be missing.
type queryText struct {
	pint.Query
	Static *staticText `toml:"static"`
}

// staticText names a scheme instead of a plan's layers.
type staticText struct {
	pint.StaticQuery
	Code *pint.ValueCode `toml:"code"`
	// Scheme is one of schemes; Hops the typical length of a path, where the
	// scheme depends on it.
	Scheme string `toml:"scheme"`
	Hops   int    `toml:"hops"`
}

// schemes makes layers from a typical number of hops.
var schemes = []struct {
	name   string
	hops   bool // is it needed?
	layers func(code pint.ValueCode, hops int) []pint.Layer
}{
	{"dense", false, func(c pint.ValueCode, _ int) []pint.Layer { return encode.Dense(c) }},
	{"baseline", false, func(pint.ValueCode, int) []pint.Layer { return encode.Baseline() }},
	{"xor", true, func(_ pint.ValueCode, d int) []pint.Layer { return encode.XOR(1 / float64(d)) }},
	{"hybrid", true, func(_ pint.ValueCode, d int) []pint.Layer { return encode.Hybrid(d) }},
	{"multilayer", true, func(_ pint.ValueCode, d int) []pint.Layer { return encode.MultiLayer(d) }},
	{"multilayer_revised", true, func(_ pint.ValueCode, d int) []pint.Layer { return encode.MultiLayerRevised(d) }},
}

// ReadQueries reads what an operator asks for, as a plan's [[query]] in TOML,
// and fills in what is missing: a frequency of 1, the scheme and code of paths,
// the range of a value. Unknown keys are faults. The queries are validated by
// New.
func ReadQueries(r io.Reader) ([]pint.Query, error) {
	text, err := readText(r)
	if err != nil {
		return nil, fmt.Errorf("read queries: %w", err)
	}
	var file struct {
		Queries []queryText `toml:"query"`
	}
	f := tomlfile.Decode(text, &file, nil)
	var queries []pint.Query
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

func (t *queryText) complete() (pint.Query, error) {
	q := t.Query
	if q.Frequency == 0 {
		q.Frequency = 1
	}
	if q.Numeric == nil {
		q.Numeric = usualRange(q.Value, q.Aggregation)
	}
	s := t.Static
	if s == nil {
		if q.Aggregation != pint.Path {
			return q, nil
		}
		s = &staticText{}
	}
	static := s.StaticQuery
	q.Static = &static
	static.Code = pint.Linear
	if s.Code != nil {
		static.Code = *s.Code
	}
	if static.ValueBits == 0 && static.Code != pint.Hashed {
		static.ValueBits = 10
		if q.Value != pint.SwitchID {
			static.ValueBits = 8
		}
	}
	var err error
	static.Layers, err = s.layers(static.Code)
	return q, err
}

// layers are those that are given, or those of the scheme.
func (s *staticText) layers(code pint.ValueCode) ([]pint.Layer, error) {
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
		case known.hops && (s.Hops < 1 || s.Hops > pint.MaxHops):
			return nil, fmt.Errorf("static.hops %d: scheme %q needs the typical number of hops, 1 to %d", s.Hops, name, pint.MaxHops)
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
func usualRange(v pint.Value, a pint.Aggregation) *pint.NumericQuery {
	switch a {
	case pint.Quantiles, pint.Frequent, pint.Maximum, pint.Minimum:
	default:
		return nil
	}
	switch v {
	case pint.HopLatency:
		return &pint.NumericQuery{Multiplicative: true, Min: 100, Max: 100_000_000}
	case pint.EgressUtilisation:
		return &pint.NumericQuery{Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4}
	case pint.QueueOccupancy:
		return &pint.NumericQuery{Multiplicative: true, Min: 1, Max: 1 << 16}
	case pint.QueueCongestion:
		return &pint.NumericQuery{Max: 100}
	}
	return &pint.NumericQuery{} // ids, ports and times in steps of 1
}
