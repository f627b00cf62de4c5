package paper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintsink "github.com/weirswitch/weir/telemetry/pint/sink"
)

// wrongCertain counts paths that the online decoder reports with a confidence
// of 1 - 1e-6 and that the flow did not take, over 1e5 flows in all networks,
// with our plans with and without links and the paper's. Half of the flows
// change their path while it is being decoded, to another one of the same
// length, half of them to one between the same ends if there is one: their
// digests are a mixture.
//
// decoded_wrong counts paths that were the only one left and yet wrong, which
// happens to mixtures only: it is why a decoded path is not certain at once.
func wrongCertain(ctx context.Context, o Options, networks []*network, t *table) error {
	flows := o.runs(100000)
	kinds := []string{"dense", "links", "paper"}
	outcomes, err := trials(ctx, o, "wrong_certain", flows, func() (trial, error) {
		decoders, err := wrongDecoders(o, networks)
		if err != nil {
			return nil, err
		}
		return func(r *rand.Rand) (float64, error) {
			// Large networks cost most: 5 of 8 flows go to the fat tree, 2 to US Carrier, 1 to Kentucky.
			n := networks[[]int{2, 2, 2, 1, 2, 2, 1, 0}[r.IntN(8)]]
			d := decoders[n.name+kinds[r.IntN(len(kinds))]]
			return float64(followFlow(r, n, d)), nil
		}, nil
	})
	if err != nil {
		return err
	}
	var count [1 << 3]float64
	for _, x := range outcomes {
		count[int(x)]++
	}
	with := func(bit int) (sum float64) {
		for i, c := range count {
			if i&bit != 0 {
				sum += c
			}
		}
		return sum
	}
	t.against("wrong_certain", "flows", with(wronglyCertain), 0, fmt.Sprintf("of %d flows, at confidence 1 - 1e-6", flows), "lower")
	t.add("decoded_wrong", "flows", with(wronglyDecoded), "of the same flows, before verification", "neither")
	t.add("certain", "flows", with(rightlyCertain), "of the same flows, the last path, right", "higher")
	return nil
}

// What happened to a flow.
const (
	wronglyCertain = 1 << iota
	wronglyDecoded
	rightlyCertain
)

type pathDecoder struct {
	s *encode.Static
	d *pintsink.Decoder
}

// wrongDecoders makes a decoder for each network and plan.
func wrongDecoders(o Options, networks []*network) (map[string]pathDecoder, error) {
	all := map[string]pathDecoder{}
	for _, n := range networks {
		for _, p := range []struct {
			name    string
			config  encode.StaticConfig
			decoder pintsink.DecoderConfig
		}{
			{"dense", densePlan(8, 2), pintsink.DecoderConfig{}},
			{"links", linkPlan(8, 2), pintsink.DecoderConfig{Topology: n.links}},
			{"paper", hashedPlan(8, 2, encode.Hybrid(n.d)), pintsink.DecoderConfig{Values: n.graph.IDs()}},
		} {
			p.config.Seed, p.config.ValueBits = o.Seed, n.valueBits()
			s, err := encode.NewStatic(p.config)
			if err != nil {
				return nil, err
			}
			d, err := pintsink.NewDecoder(s, p.decoder)
			if err != nil {
				return nil, err
			}
			all[n.name+p.name] = pathDecoder{s, d}
		}
	}
	return all, nil
}

// followFlow decodes one flow of 8 packets per hop and 40 more.
func followFlow(r *rand.Rand, n *network, d pathDecoder) int {
	length := n.lengths[r.IntN(len(n.lengths))]
	pair := n.pairs[length][r.IntN(len(n.pairs[length]))]
	first := n.pathBetween(r, pair)
	second, packets := first, 8*length+40
	change := packets
	if r.IntN(2) == 0 {
		change = r.IntN(3*length + 8)
		if second = n.pathBetween(r, pair); r.IntN(2) == 0 || slices.Equal(first, second) {
			second = n.path(r, length)
		}
	}
	outcome, path := 0, first
	var f pintsink.Flow
	for i := range packets {
		if i == change {
			path = second
		}
		id := r.Uint64()
		event := d.d.Add(&f, id, d.s.Digest(new(encode.Scratch), id, path), length)
		right := slices.Equal(f.Path(), first) || slices.Equal(f.Path(), second)
		switch {
		case event == pintsink.Certain && !right:
			outcome |= wronglyCertain
		case event == pintsink.Decoded && !right:
			outcome |= wronglyDecoded
		}
	}
	if f.Certain() && slices.Equal(f.Path(), path) {
		outcome |= rightlyCertain
	}
	return outcome
}
