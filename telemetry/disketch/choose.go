package disketch

import (
	"math"
	"slices"
)

// Errors are mean squared errors of a flow's frequency by n: Errors[k] with n = 2^k in all fragments.
type Errors [SliceLog + 1]float64

// Choose estimates what error each n would have, from the records of an epoch that was counted in slices:
// that of collisions, which more subepochs make smaller, and that of time, which they make larger. The
// first is tried out as FindTarget does. The second is what flows send unevenly, as the records' Squares
// say. It errs where flows that are asked about differ from those that pass, and where the next epochs
// do from this one.
func (r *Records) Choose(s TargetSearch) (e Errors, err error) {
	search, err := r.search(s)
	if err != nil {
		return e, err
	}
	search.idle = true
	for log := range e {
		if e[log] = math.Inf(1); log > 0 && !search.pays(uint8(log)) {
			continue
		}
		e[log] = search.trial(func(*fragmentModel) uint8 { return uint8(log) })
	}
	return e, nil
}

// pays says that so many subepochs can pay in each fragment.
func (s *targetSearch) pays(log uint8) bool {
	if s.empty {
		return false
	}
	for _, m := range s.models {
		if !m.splits(log) {
			return false
		}
	}
	return true
}

// pays is how small the squared error of more subepochs must be beside that of n = 1
// for these to be chosen: estimates err, and n = 1 never extrapolates.
const pays = 0.9

// Choice is the n that suits the traffic, from what Choose found in the epochs so far: about the last 4. The
// zero value chooses n = 1.
type Choice struct {
	ratio  Errors  // mean logarithms of the errors over that of n = 1
	single float64 // mean logarithm of that
	found  int     // of how many epochs these are means, at most 4
	looks  int     // epochs since traffic has grown
}

// grows is how much larger than before the squared error of n = 1 is with traffic of which earlier epochs say little: as of twice the packets.
const grows = 4

// leastLooks is how many epochs it takes to choose more than one subepoch: in a single one flows may happen to send evenly, or cells to say so.
const leastLooks = 2

// Found takes what was found in an epoch, and returns the logarithm of n. What earlier epochs said for more subepochs
// is forgotten where traffic has grown.
func (c *Choice) Found(e Errors) uint8 {
	if e[0] > 0 && !math.IsInf(e[0], 1) {
		single := math.Log(e[0])
		grown := c.found > 0 && single > c.single+math.Log(grows)
		if c.looks++; grown {
			c.looks, c.single = 1, single
		}
		c.found = min(c.found+1, 4)
		c.single += (single - c.single) / float64(c.found)
		for i := range e {
			x := max(math.Log(e[i]/e[0]), -20)
			if math.IsInf(x, 1) {
				x = 20
			}
			if grown && c.ratio[i] < x {
				c.ratio[i] = x
			}
			c.ratio[i] += (x - c.ratio[i]) / float64(c.found)
		}
	}
	return c.Log()
}

// Log is the logarithm of the n that is chosen.
func (c *Choice) Log() uint8 {
	if c.looks < leastLooks {
		return 0
	}
	return c.ratio.least()
}

// least is the logarithm of the n whose logarithm of the ratio of errors is the least; 0 unless that pays.
func (e *Errors) least() uint8 {
	best, at := math.Log(pays), 0
	for i := 1; i < len(e); i++ {
		if e[i] < best {
			best, at = e[i], i
		}
	}
	return uint8(at)
}

// FindPlan is Choose for a network: n of each switch on the paths, as its logarithm, and the squared error
// over that of n = 1 everywhere. Fragments have all one n, or aim at one error by
// Equation 6, or have what each switch would choose alone, whichever errs the least among those with which flows of no number of switches on
// their path err more; n = 1 unless others pay, by draws that did not choose them, too.
func (r *Records) FindPlan(s TargetSearch) (logs map[uint64]uint8, ratio float64, err error) {
	search, err := r.search(s)
	if err != nil {
		return nil, 0, err
	}
	search.idle = true
	byModel := map[*fragmentModel]uint64{}
	logs = map[uint64]uint8{}
	for sw, m := range search.models {
		byModel[m] = sw
		logs[sw] = 0
	}
	assigned := func(m *fragmentModel) uint8 { return logs[byModel[m]] }
	single := search.trial(assigned)
	if search.empty || !(single > 0) {
		return logs, 1, nil
	}
	least, alone := single*pays, search.byHops
	best := map[uint64]uint8{}
	consider := func() bool {
		e := search.trial(assigned)
		for hops, was := range alone {
			if search.byHops[hops] > was {
				return false
			}
		}
		if e < least {
			least = e
			for sw, log := range logs {
				best[sw] = log
			}
			return true
		}
		return false
	}
	set := func(f func(*fragmentModel) uint8) {
		for sw, m := range search.models {
			logs[sw] = 0
			if m.squares != nil {
				log := min(f(m), m.most(), SliceLog)
				for log > 0 && !m.splits(log) {
					log--
				}
				logs[sw] = log
			}
		}
	}
	for log := uint8(1); log <= SliceLog; log++ {
		set(func(*fragmentModel) uint8 { return log })
		consider()
	}
	for target := search.high; target > search.high/4096; target /= 2 {
		set(func(m *fragmentModel) uint8 { return m.settle(target) })
		consider()
	}
	alones, err := r.chooseAlone(s, search)
	if err != nil {
		return nil, 0, err
	}
	set(func(m *fragmentModel) uint8 { return alones[byModel[m]] })
	consider()
	if len(best) > 0 {
		// The least of many estimates is too small.
		search.again = true
		set(func(*fragmentModel) uint8 { return 0 })
		single, alone = search.trial(assigned), search.byHops
		least = single * pays
		set(func(m *fragmentModel) uint8 { return best[byModel[m]] })
		if consider() {
			return best, least / single, nil
		}
	}
	set(func(*fragmentModel) uint8 { return 0 })
	return logs, 1, nil
}

// chooseAlone is what each switch on the paths would choose from this epoch, with other switches like it.
func (r *Records) chooseAlone(s TargetSearch, network *targetSearch) (map[uint64]uint8, error) {
	hops, paths := map[uint64]int{}, map[uint64]int{}
	for _, p := range s.Paths {
		for _, sw := range p {
			hops[sw] += len(p)
			paths[sw]++
		}
	}
	logs := map[uint64]uint8{}
	for sw := range network.models {
		own := s
		own.Paths = [][]uint64{slices.Repeat([]uint64{sw}, (hops[sw]+paths[sw]/2)/paths[sw])}
		own.Trials = min(network.Trials, trialsAlone)
		e, err := r.Choose(own)
		if err != nil {
			return nil, err
		}
		var c Choice
		c.Found(e)
		logs[sw] = c.ratio.least()
	}
	return logs, nil
}

// trialsAlone are enough for one switch.
const trialsAlone = 1000
