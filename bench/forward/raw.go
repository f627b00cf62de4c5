package forward

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/weirswitch/weir/bench"
)

// ReadRaw reads the figures of each round from what Config.Raw wrote, one JSON object a line, the first of which may be a
// head without a device. Values of rounds that are no result (see Invalid) are left out, and such
// rounds counted.
func ReadRaw(r io.Reader) (all []bench.Runs, invalid int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	index := map[string]int{}
	for n := 1; lines.Scan(); n++ {
		var s Sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		if s.Device == "" {
			continue
		}
		bad := s.Invalid() != ""
		if bad {
			invalid++
		}
		for _, f := range allFigures() {
			value := f.of(&s)
			if f.searched && value == 0 {
				continue
			}
			metric := s.Device + "." + s.Size + "." + f.name
			i, ok := index[metric]
			if !ok {
				i = len(all)
				index[metric] = i
				all = append(all, bench.Runs{Metric: metric, Unit: f.unit, Better: f.better})
			}
			all[i].Add(value, limited(f, []Sample{s}), bad)
		}
	}
	return all, invalid, lines.Err()
}

// aboveMRR is how far a rate without loss may be above what arrived under overload, for their precision. stolenMost is the
// share of the cores' time that a hypervisor may give to others.
const (
	aboveMRR   = 1.05
	stolenMost = 0.05
)

// Invalid says why a round is no result; empty: it is one. A device that carries a rate without loss also lets that
// much arrive when more is offered, unless something else than the device changed between the two trials, or it
// collapses under load: then MRR, not NDR, is what it does, and the two must not be printed as if they agreed.
func (s *Sample) Invalid() string {
	switch {
	case s.NDR.Rate > aboveMRR*s.MRR:
		return fmt.Sprintf("ndr %.0f is above mrr %.0f: the machine changed during the round, or the device collapses under load; measure again on a quiet machine", s.NDR.Rate, s.MRR)
	case s.PDR.Rate > aboveMRR*s.MRR:
		return fmt.Sprintf("pdr %.0f is above mrr %.0f: the machine changed during the round, or the device collapses under load; measure again on a quiet machine", s.PDR.Rate, s.MRR)
	case s.NDR.Rate > s.PDR.Rate*1.001 && s.PDR.Rate > 0:
		return fmt.Sprintf("ndr %.0f is above pdr %.0f, which may lose more", s.NDR.Rate, s.PDR.Rate)
	case s.CPU.Steal > stolenMost:
		return fmt.Sprintf("the hypervisor gave %.0f %% of the cores' time to others", 100*s.CPU.Steal)
	}
	return ""
}
