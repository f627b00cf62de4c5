package transport

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirswitch/weir/bench/netsim/event"
)

// Flow is what a host has to send to another one.
type Flow struct {
	From, To int // hosts
	Bytes    int64
	Start    event.Time
}

// Arrivals describes flows that arrive at random.
type Arrivals struct {
	Hosts int
	Sizes *Distribution
	// Load is the share of each host's rate, in bits per second, that payload takes on
	// average.
	Load float64
	Rate uint64
	// Until ends the arrivals, which begin at 0.
	Until event.Time
	Seed  uint64
}

// maxArrivals bounds the flows: events have no numbers for more.
const maxArrivals = event.MaxID

// Flows draws flows in the order of their starts: each host sends to uniformly chosen
// others, at the times of a Poisson process. What a host sends does not depend on how long the
// arrivals last, or on the load but for the times.
func (a Arrivals) Flows() ([]Flow, error) {
	if a.Hosts < 2 || !(a.Load > 0 && a.Load < 1) || a.Rate == 0 || a.Sizes == nil {
		return nil, fmt.Errorf("arrivals: %d hosts, load %v, rate %d bit/s: use two hosts or more, a load between 0 and 1, a rate, and sizes", a.Hosts, a.Load, a.Rate)
	}
	gap := a.Sizes.mean() * 8 / (a.Load * float64(a.Rate)) * float64(event.Second)
	// In floats: what a tiny load leaves between two flows is more than a Time holds.
	until := float64(a.Until)
	if expected := float64(a.Hosts) * until / gap; expected > maxArrivals {
		return nil, fmt.Errorf("arrivals: about %.2g flows of %.3g bytes on average are more than %.2g: use larger flows, a lower load or less time", expected, a.Sizes.mean(), float64(maxArrivals))
	}
	var flows []Flow
	for from := range a.Hosts {
		r := rand.New(rand.NewPCG(a.Seed, uint64(from)))
		for at := 0.0; ; {
			at += gap * r.ExpFloat64()
			if at >= until {
				break
			}
			to := r.IntN(a.Hosts - 1)
			if to >= from {
				to++
			}
			flows = append(flows, Flow{From: from, To: to, Bytes: int64(a.Sizes.Quantile(r.Float64())), Start: event.Time(at)})
		}
	}
	slices.SortStableFunc(flows, func(x, y Flow) int { return cmp.Compare(x.Start, y.Start) })
	return flows, nil
}
