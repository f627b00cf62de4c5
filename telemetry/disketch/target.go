package disketch

import (
	"errors"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// TargetSearch finds the target error, which the paper leaves open (Section 7),
// from the records of one epoch. What a target will do is tried out: from a record's
// cells follows what the fragment's cells would hold with other n; flows of
// ordinary size are put in, packet by packet; the query's own code estimates
// them; and the target whose mean squared error is the least wins. So it weighs
// the noise of other flows, which more subepochs make smaller, against the error of
// extrapolation, which they make larger.
type TargetSearch struct {
	Query // its Sketch, Hash and Composition
	Epoch uint64
	// Paths of flows, to draw from. A switch on its own gives its own id, as often
	// as a path has hops.
	Paths [][]uint64
	// Trials is the number of flows to try out; 0 means 4000.
	Trials int
	Seed   uint64
}

// ErrNoRecords says that there is nothing to find a target from.
var ErrNoRecords = errors.New("no records of the epoch on these paths")

// tried is a fragment as it would be with n = 2^log.
type tried struct {
	level
	cells []int32
}

// fragmentModel is what a fragment's records say of it.
type fragmentModel struct {
	records []*Prepared
	log     uint8
	// twice says that flows of one hop have two subepochs.
	twice bool
	// single is the error that n = 1 would have, and power by how much n reduces it:
	// rho(n) = single / n^power. A subepoch has 1/n of the flows with 1/n of
	// their packets, which divides a mean by n^2 and a root of squares by n^1.5.
	single, power float64
	// flows, packets and value of the epoch.
	flows, packets, value float64
	// squares are those of the record, nil: when flows send is not known.
	squares []float64
	width   float64
	counts  bool // it has empty cells, which say how many flows there are
	byLog   [MaxLog + 1]*tried
	// now is what a trial takes it to have: n as its logarithm, 1/n, and by how much the squared error of time exceeds that of packets that
	// come independently.
	now struct {
		log          uint8
		part, excess float64
	}
}

// triedCells is how many cells of a fragment are made up.
const triedCells = 2048

// FindTarget returns the target error that suits the traffic best. Where records have no Squares, it takes
// packets of a flow to come independently of each other.
func (r *Records) FindTarget(s TargetSearch) (rho float64, err error) {
	search, err := r.search(s)
	if err != nil {
		return 0, err
	}
	return search.best(), nil
}

// search prepares one.
func (r *Records) search(s TargetSearch) (*targetSearch, error) {
	search := &targetSearch{TargetSearch: s, models: map[uint64]*fragmentModel{}, r: rand.New(rand.NewPCG(s.Seed, s.Epoch))}
	if search.Trials == 0 {
		search.Trials = 4000
	}
	for _, p := range s.Paths {
		for _, sw := range p {
			if search.models[sw] == nil {
				if m := r.model(&s.Query, ID{sw, s.Sketch}, s.Epoch); m != nil {
					search.models[sw] = m
				}
			}
		}
	}
	if len(search.models) == 0 {
		return nil, ErrNoRecords
	}
	for _, p := range s.Paths {
		along := make([]*fragmentModel, len(p))
		for i, sw := range p {
			along[i] = search.models[sw]
		}
		search.along = append(search.along, along)
	}
	for _, sw := range slices.Sorted(maps.Keys(search.models)) {
		search.order = append(search.order, search.models[sw])
	}
	search.measure()
	return search, nil
}

func (r *Records) model(q *Query, id ID, epoch uint64) *fragmentModel {
	f := r.epochs[epoch][id]
	if !q.asks(id, f) {
		return nil
	}
	m := &fragmentModel{log: f.schedule.Log, twice: f.schedule.SingleHop, power: 1.5}
	sum, clean, width := 0.0, 0.0, 0.0
	for _, x := range f.records {
		if x == nil {
			continue
		}
		m.records = append(m.records, x)
		sum += x.rho
		clean += x.levels[0].clean
		width = float64(x.rows.width())
		if x.Squares != nil {
			m.squares = x.Squares
		}
		m.packets += float64(x.Packets)
		m.value += float64(x.Value)
	}
	if len(m.records) == 0 {
		return nil
	}
	if kinds[m.records[0].Kind()].minimum {
		m.power = 2
	}
	m.width, m.counts = width, clean*width >= 2
	got := float64(len(m.records))
	n := math.Ldexp(1, int(m.log))
	m.single = sum / got * math.Pow(n, m.power)
	// Linear counting: a cell stays empty with probability exp(-flows/width).
	m.flows = -math.Log(max(clean/got, 1/width)) * width * n
	if m.records[0].Kind() == UnivMon {
		m.flows *= 2 // half of them are of level 0
	}
	m.packets *= n / got
	m.value *= n / got
	if counted := m.records[0].Flows; counted > 0 {
		m.flows, m.counts = min(counted, m.packets), true
	}
	return m
}

// settle is the n, as its logarithm, at which Equation 6 stays when it comes
// from n = 1.
func (m *fragmentModel) settle(target float64) uint8 {
	log := uint8(0)
	for log < m.most() && m.single/math.Pow(2, float64(log)*m.power) > 2*target {
		log++
	}
	return log
}

// most is the largest n, as its logarithm, of which is known what the error of time would be.
func (m *fragmentModel) most() uint8 {
	if m.squares != nil {
		return uint8(len(m.squares) - 1)
	}
	return MaxLog
}

// dispersion is how much larger the squared error of time is with n = 2^log than it would be if packets came
// independently of each other, at least 1. The sum over all flows of the squared error of n times what
// a random one of n slices has is n*Squares[log] - Squares[0], and (n-1) times the sum of the squares of all packets' sizes
// if they come independently. Both are of the same cells, so that flows that send evenly cancel out whatever
// their size.
func (m *fragmentModel) dispersion(log uint8, size float64) float64 {
	if m.squares == nil || log == 0 || m.packets == 0 {
		return 1
	}
	n := math.Ldexp(1, int(log))
	sum := n*m.squares[min(int(log), len(m.squares)-1)] - m.squares[0]
	return max(sum/((n-1)*m.packets*size*size), 1)
}

// leastCells is how many cells it takes to know when flows send: of so many a second moment has a relative standard
// error of a quarter (sliceCells).
const leastCells = 32

// splits says that n = 2^log makes the squared error of a single row smaller, without a prior: what it adds for time, over the
// flows, is less than what it takes from collisions, over the cells. Where flows send in bursts no n does.
func (m *fragmentModel) splits(log uint8) bool {
	if m.squares == nil || int(log) >= len(m.squares) || m.width < leastCells {
		return false
	}
	before, after := m.squares[0], m.squares[log]
	return (math.Ldexp(after, int(log))-before)/max(m.flows, 1) < (before-after)/m.width
}

// with makes up the fragment's cells for n = 2^log.
func (m *fragmentModel) with(log uint8, r *rand.Rand) *tried {
	if m.byLog[log] != nil {
		return m.byLog[log]
	}
	t := &tried{cells: make([]int32, triedCells)}
	squares, sum := 0.0, 0.0
	for i := range t.cells {
		c := m.cell(log, r)
		t.cells[i] = int32(max(min(c, math.MaxInt32), -math.MaxInt32))
		squares += c * c
		sum += c
	}
	t.measure(t.cells)
	t.rho = math.Sqrt(squares / triedCells)
	if m.power == 2 {
		t.rho = sum / triedCells
	}
	m.byLog[log] = t
	return t
}

// cell makes up one cell. With more subepochs than there were, a cell's flows
// are there in some of them only, and then with fewer packets; with fewer,
// the flows of several subepochs meet, with more packets each.
func (m *fragmentModel) cell(log uint8, r *rand.Rand) float64 {
	draw := func() float64 {
		x := m.records[r.IntN(len(m.records))]
		// Half of the flows are of level 0, a quarter of level 1, ...
		level := 0
		if x.Kind() == UnivMon {
			level = min(bits.TrailingZeros64(r.Uint64()), len(x.levels)-1)
		}
		return x.rows.at(level, r.IntN(x.rows.width()))
	}
	if log >= m.log {
		ratio := math.Ldexp(1, int(m.log)-int(log))
		if r.Float64() >= ratio {
			return 0
		}
		// Randomised rounding keeps the mean.
		return math.Floor(draw()*ratio + r.Float64())
	}
	sum, parts := 0.0, 1<<(m.log-log)
	for range parts {
		sum += draw() * float64(parts)
	}
	return sum
}

type targetSearch struct {
	TargetSearch
	models map[uint64]*fragmentModel
	order  []*fragmentModel   // by switch
	along  [][]*fragmentModel // of the switches of Paths; nil: there is none
	r      *rand.Rand
	// tried are the trials so far, by the logarithms of n in order, and again.
	tried   map[string]trialErrors
	compose composer
	arrival []float64
	size    float64 // value of a packet
	mean    float64 // packets of a flow
	second  float64 // mean of the squares of the packets of a flow; 0: it is not known
	high    float64 // the largest error that n = 1 has
	empty   bool    // no packet was counted
	// idle has three of four flows send nothing: who asks about several epochs asks about flows that send in some of
	// them, and what other flows add to these is an error, too.
	idle bool
	// again has trials make other draws.
	again bool
	// byHops are the sums of the last trial, by the switches on a path.
	byHops map[int]float64
}

// windowEpochs is of how many epochs the sum is that is asked about. What errs to one side in each of them, as the decoder does where
// cells are crowded, adds up, while the rest cancels out in part.
const windowEpochs = 16

// trialErrors are what a trial found.
type trialErrors struct {
	all    float64
	byHops map[int]float64
}

// class are the errors of the flows of a trial that have one length of path, and are idle or not.
type class struct {
	hops int
	idle bool
}

type classErrors struct{ n, sum, squares, uneven float64 }

// total is the sum of the squared errors, for each epoch of a window.
func (c *classErrors) total() float64 {
	bias := c.sum / c.n
	// The square of a mean is too large by the variance of that.
	square := max(bias*bias-(c.squares/c.n-bias*bias)/max(c.n-1, 1), 0)
	return c.squares + c.uneven + (windowEpochs-1)*square*c.n
}

// mostArrivals bounds a made-up flow's mean number of packets, for the time
// that it takes.
const mostArrivals = 1000

// measure finds the flows to draw.
func (s *targetSearch) measure() {
	flows, packets, value, squares := 0.0, 0.0, 0.0, 0.0
	some, all := false, true
	for _, m := range s.models {
		some = some || m.counts
	}
	for _, m := range s.models {
		s.high = max(s.high, m.single)
		s.compose.minimum = m.power == 2
		if some && !m.counts {
			continue
		}
		// A row that is too small for its flows counts too few of them.
		flows += m.flows * m.width
		packets += m.packets * m.width
		value += m.value * m.width
		if m.squares == nil {
			all = false
			continue
		}
		squares += m.squares[0] * m.width
	}
	s.mean = min(max(packets/max(flows, 1), 1), mostArrivals)
	s.size = value / max(packets, 1)
	if all && s.size > 0 {
		s.second = squares / (s.size * s.size) / max(flows, 1)
	}
	s.empty = packets == 0
}

// best tries targets a factor 2 apart, from the largest error to where all
// fragments would be cut into more subepochs than a flow has packets.
func (s *targetSearch) best() float64 {
	high := s.high
	if s.empty {
		return high
	}
	target, bestTarget, least := high, high, math.Inf(1)
	for range 24 {
		if e := s.trial(func(m *fragmentModel) uint8 { return m.settle(target) }); e < least*0.98 {
			bestTarget, least = target, e
		}
		if target /= 2; s.finest(target) {
			break
		}
	}
	return bestTarget
}

// finest says that a target would cut some fragment as finely as can be.
func (s *targetSearch) finest(target float64) bool {
	for _, m := range s.models {
		if m.settle(target) >= m.most()-1 {
			return true
		}
	}
	return false
}

// trial is the mean squared error where fragments have the given n, as logarithms.
func (s *targetSearch) trial(logOf func(*fragmentModel) uint8) float64 {
	key := make([]byte, 0, len(s.order)+1)
	for _, m := range s.order {
		log := logOf(m)
		m.now.log, m.now.part, m.now.excess = log, math.Ldexp(1, -int(log)), m.dispersion(log, s.size)-1
		key = append(key, log)
	}
	stream := uint64('t')
	if s.again {
		stream++
	}
	key = append(key, byte(stream))
	was, ok := s.tried[string(key)]
	if !ok {
		was = s.run(stream)
		if s.tried == nil {
			s.tried = map[string]trialErrors{}
		}
		s.tried[string(key)] = was
	}
	s.byHops = was.byHops
	return was.all
}

// run is a trial with what fragments have now.
func (s *targetSearch) run(stream uint64) trialErrors {
	// The same draws for all.
	byHops := map[int]float64{}
	all := map[class]*classErrors{}
	r := rand.New(rand.NewPCG(s.Seed, stream))
	for trial := range s.Trials {
		path := s.along[r.IntN(len(s.along))]
		s.arrival = s.arrival[:0]
		idle := s.idle && trial&3 != 0
		for range s.draw((float64(trial)+0.5)/float64(s.Trials), r) {
			s.arrival = append(s.arrival, r.Float64())
		}
		if idle {
			s.arrival = s.arrival[:0]
		}
		slices.Sort(s.arrival)
		s.compose.obs = s.compose.obs[:0]
		dark, time, collisions, divided, parts := 1.0, 0.0, 0.0, 0.0, 0.0
		for _, m := range path {
			where, cell := r.Float64(), r.IntN(triedCells)
			if m == nil {
				continue
			}
			log := m.now.log
			dark *= 1 - m.now.part
			if log > 0 {
				time += m.now.excess
				collisions += m.now.excess * m.packets / m.width * (1 - m.now.part)
				divided++
				parts += 1 / m.now.part
			}
			s.observe(m.with(log, s.r), log, where, cell)
			if len(path) == 1 && m.twice && log > 0 {
				s.observe(m.with(log, s.r), log, math.Mod(where+0.5, 1), r.IntN(triedCells))
			}
		}
		if len(s.compose.obs) == 0 {
			continue
		}
		of := class{len(path), idle}
		e := all[of]
		if e == nil {
			e = &classErrors{}
			all[of] = e
		}
		d := s.compose.join(s.Composition, 0, 1).value - float64(len(s.arrival))*s.size
		e.n++
		e.sum += d
		e.squares += d * d
		if idle {
			time = 0
		}
		if divided > 0 {
			// The draws' packets come independently; this is what uneven ones add.
			square := s.size * s.size
			e.uneven += square * (time/divided*s.mean*max(dark/(1-dark), (parts/divided-1)/float64(len(path))) + collisions/divided/float64(len(path)))
		}
	}
	sum := 0.0
	for of, e := range all {
		byHops[of.hops] += e.total()
	}
	for _, hops := range slices.Sorted(maps.Keys(byHops)) {
		sum += byHops[hops]
	}
	return trialErrors{sum / float64(s.Trials), byHops}
}

// draw makes up how many packets a flow has: at least one, and beyond that a logarithmic normal number, so that the mean and the mean of
// the squares are those of the flows that were counted. share is which of equal shares of the flows it is one of.
func (s *targetSearch) draw(share float64, r *rand.Rand) int {
	more := s.mean - 1
	squares := s.second - 1 - 2*more
	if s.second == 0 || more <= 0 || squares <= more*more {
		return poisson(s.mean, r)
	}
	deviation := math.Sqrt(math.Log(squares / (more * more)))
	normal := math.Sqrt2 * math.Erfinv(2*share-1)
	x := more * math.Exp(deviation*normal-deviation*deviation/2)
	return 1 + int(math.Floor(min(x, mostArrivals)+r.Float64()))
}

// observe adds what a made-up fragment would say of the flow whose packets
// arrive at s.arrival: where chooses its subepoch.
func (s *targetSearch) observe(t *tried, log uint8, where float64, cell int) {
	n := math.Ldexp(1, int(log))
	from := math.Floor(where*n) / n
	to := from + 1/n
	low, _ := slices.BinarySearch(s.arrival, from)
	high, _ := slices.BinarySearch(s.arrival, to)
	s.compose.obs = append(s.compose.obs, observation{
		from: from, to: to, window: to - from, level: &t.level,
		observed: observed{count: float64(high-low)*s.size + float64(t.cells[cell])},
	})
}

// poisson draws by multiplication, or for large means as a rounded normal
// variable.
func poisson(mean float64, r *rand.Rand) int {
	if mean > 50 {
		return max(int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())), 0)
	}
	n, limit := 0, math.Exp(-mean)
	for p := r.Float64(); p > limit; p *= r.Float64() {
		n++
	}
	return n
}

// Target is what a network aims at, as the mean of what TargetSearch found in
// the epochs so far: the geometric one, of about the last 8. The zero value
// knows no target.
type Target struct {
	log   float64
	found int
}

// Found takes what a search found and returns the new mean.
func (t *Target) Found(rho float64) float64 {
	if rho > 0 && !math.IsInf(rho, 1) {
		t.found = min(t.found+1, 8)
		t.log += (math.Log(rho) - t.log) / float64(t.found)
	}
	return t.Rho()
}

// Rho is the target, 0 if none was found yet.
func (t *Target) Rho() float64 {
	if t.found == 0 {
		return 0
	}
	return math.Exp(t.log)
}
