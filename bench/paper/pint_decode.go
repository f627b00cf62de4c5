package paper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
	pintsink "github.com/weirswitch/weir/telemetry/pint/sink"
)

// pintDecode measures how many digests a core decodes per second
// time, which does not count what other processes take, with the
// online decoder on paths of several lengths, for packets of flows whose path
// is certain (<plan>.<switches>.established) and for whole flows of 1000
// packets, decoding included (<plan>.<switches>.flows). The rows of
// recorder.<flows> are the whole recorder's, with the paper's three queries, records one by one or
// in batches; a record has two digests for queries.
func pintDecode(ctx context.Context, o Options) ([]Row, error) {
	networks, err := fig10Networks(o)
	if err != nil {
		return nil, err
	}
	decoders, err := wrongDecoders(o, networks)
	if err != nil {
		return nil, err
	}
	var t table
	for _, c := range []struct {
		network *network
		length  int
	}{{networks[2], 5}, {networks[1], 20}, {networks[0], 59}} {
		for _, plan := range []string{"dense", "links", "paper"} {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			name := fmt.Sprintf("%s.%d", plan, c.length)
			o.progress(len(t)/2, 9, name)
			established, flows, err := decodeRates(o, c.network, decoders[c.network.name+plan], c.length)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			t.add(name+".established", "digests/s", established, "one core; the path is certain", "higher")
			t.add(name+".flows", "digests/s", flows, "one core; flows of 1000 packets from their first", "higher")
		}
	}
	return t, addRecorderRates(o, &t)
}

// decodeRates times a batch of flows.
func decodeRates(o Options, n *network, d pathDecoder, length int) (established, flows float64, err error) {
	const packets, batch = 1000, 16
	r := rand.New(rand.NewPCG(o.Seed, uint64(length)))
	var obs [batch][]pintpath.Observation
	for i := range obs {
		path := n.path(r, length)
		for range packets {
			id := r.Uint64()
			obs[i] = append(obs[i], pintpath.Observation{ID: id, Digest: d.s.Digest(new(encode.Scratch), id, path)})
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	state := make([]pintsink.Flow, batch)
	round := func(least time.Duration, fresh bool) float64 {
		start, digests := clock.Thread(0), 0
		for clock.Thread(0)-start < least {
			for i := range obs {
				if fresh {
					state[i] = pintsink.Flow{}
				}
				for _, p := range obs[i] {
					d.d.Add(&state[i], p.ID, p.Digest, length)
				}
			}
			digests += batch * packets
		}
		return float64(digests) / (clock.Thread(0) - start).Seconds()
	}
	least := time.Second
	if o.Quick {
		least /= 10
	}
	flows = round(least, true)
	for i := range state {
		if !state[i].Certain() {
			return 0, 0, fmt.Errorf("a path of %d switches is not certain after %d packets", length, packets)
		}
	}
	return round(least, false), flows, nil
}
