package vectors

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
)

// Write is what the control plane writes while packets pass, as Go's stages decide it by themselves: the
// schedules of epochs, and the thresholds of samples.
type Write struct {
	// Before is the number of the packet that it is written in front of.
	Before   int    `json:"before"`
	Register string `json:"register"`
	Index    int    `json:"index"`
	Value    uint64 `json:"value"`
}

// collector takes the records of the Go stages, as they travel, and adds them up to what the
// registers of a P4 switch hold, which are never reset.
type collector interface {
	record(h *record.Header, body func([]byte) ([]byte, error))
}

// controlPlane is that of a run: it knows the clock of each packet, and decides what is written
// when. It belongs to one goroutine.
type controlPlane struct {
	state  State
	writes []Write
	faults []error

	family    hash.Family
	packets   []Packet
	sampler   *sampler       // nil without the stage
	ldsAt     [2]map[int]int // by side: numbers of the measured ports
	fragments map[uint16][]*disketch.Record
	epochBits int    // of disketch
	last      uint16 // fragment
	levels    []int  // by fragment
}

// Sides of the stages lds, and the names of their controls.
var sides = [2]string{"lds_ingress", "lds_egress"}

// Sizes of P4's registers (p4/include/telemetry.p4); a test keeps them equal.
const (
	fragmentColumnBits = 15
	ldsRowBits         = 2
	ldsColumnBits      = 10
	ldsPointBits       = 2
)

// record implements collector.
func (c *controlPlane) record(h *record.Header, body func([]byte) ([]byte, error)) {
	text, err := body(nil)
	if err == nil {
		switch h.Kind {
		case record.DiSketch:
			err = c.fragment(h, text)
		case record.LDS:
			err = c.point(h, text)
		case record.Oblivious:
			err = c.sample(h, text)
		}
	}
	if err == nil && h.Missed != 0 && h.Kind != record.LDS { // whose outside packets are compared
		err = fmt.Errorf("%d packets are in no record", h.Missed)
	}
	if err != nil {
		c.faults = append(c.faults, fmt.Errorf("record of %s, instance %d: %w", h.Kind, h.Instance, err))
	}
}

// add adds to a cell of a register; more cells are zero.
func (s State) add(register string, size, index int, v uint64) {
	if s[register] == nil {
		s[register] = make([]uint64, size)
	}
	s[register][index] += v
}

// point adds an interval of a measurement point to the bank of its parity.
func (c *controlPlane) point(h *record.Header, body []byte) error {
	p, err := lds.Decode(body, c.family)
	if err != nil {
		return err
	}
	side := int(h.Instance & 1)
	number, ok := c.ldsAt[side][int(h.Instance/2)]
	if !ok {
		return fmt.Errorf("port %d is no measurement point", h.Instance/2)
	}
	bank := number<<1 | int(p.Interval()&1)
	name := func(register string) string { return sides[side] + ".side." + register }
	const banks, cells = 2 << ldsPointBits, 2 << (ldsPointBits + ldsRowBits + ldsColumnBits)
	c.state.add(name("packets"), banks, bank, p.Packets())
	c.state.add(name("outside"), banks, bank, p.Outside())
	if p.Packets() == 0 { // its cells are folded to one
		return nil
	}
	for row := range p.Config().Rows {
		for column := range p.Config().Columns {
			at := (bank<<ldsRowBits|row)<<ldsColumnBits | column
			cell := p.Cell(row, column)
			c.state.add(name("cell_sum"), cells, at, uint64(cell.Sum))
			c.state.add(name("cell_count"), cells, at, cell.Count)
			c.state.add(name("cell_digest"), cells, at, uint64(cell.Digest))
			c.state[name("cell_digest")][at] &= 1<<32 - 1
			c.state.add(name("cell_bytes"), cells, at, cell.Bytes)
		}
	}
	return nil
}

// fragment keeps a subepoch: its bank is known when all are there.
func (c *controlPlane) fragment(h *record.Header, body []byte) error {
	r := new(disketch.Record)
	if err := r.UnmarshalBinary(body); err != nil {
		return err
	}
	r.Use(c.family)
	c.fragments[h.Instance] = append(c.fragments[h.Instance], r)
	return nil
}

// schedules adds the fragments' subepochs to their banks, and writes the schedules of their epochs.
func (c *controlPlane) schedules() {
	for _, instance := range slices.Sorted(maps.Keys(c.fragments)) {
		records := c.fragments[instance]
		slices.SortStableFunc(records, func(a, b *disketch.Record) int {
			if a.Epoch != b.Epoch {
				return compare(a.Epoch, b.Epoch)
			}
			return compare(a.Subepoch, b.Subepoch)
		})
		control := fragmentControl(instance)
		flip, known := uint64(0), false
		var epoch uint64
		for _, r := range records {
			if !known || r.Epoch != epoch {
				if known {
					// The banks take turns also where an epoch has one subepoch.
					flip ^= before(records, epoch) & 1
				}
				epoch, known = r.Epoch, true
				if !c.withholds(instance, epoch) {
					c.schedule(int(instance), r, flip)
				}
			}
			if c.withholds(instance, epoch) {
				c.state.add(control+"missed", 1, 0, r.Seen)
				continue
			}
			c.subepoch(control, r, r.Subepoch&1^flip)
		}
	}
}

// fragmentControl is what the names of a fragment's registers begin with.
func fragmentControl(instance uint16) string {
	return fmt.Sprintf("disketch_egress.fragment_%d.", instance)
}

// withheld is an epoch of a run, from 0, whose schedule the control plane does not write to the last fragment, so
// that packets without a schedule are compared too. Those of the first two are in the tables.
const withheld = 2

func (c *controlPlane) withholds(instance uint16, epoch uint64) bool {
	return instance == c.last && epoch == uint64(c.packets[0].Now)>>c.epochBits+withheld
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// before is how many subepochs an epoch has.
func before(records []*disketch.Record, epoch uint64) uint64 {
	i := slices.IndexFunc(records, func(r *disketch.Record) bool { return r.Epoch == epoch })
	return records[i].N()
}

// schedule writes an epoch's in front of its first packet.
func (c *controlPlane) schedule(fragment int, r *disketch.Record, flip uint64) {
	at := slices.IndexFunc(c.packets, func(p Packet) bool { return uint64(p.Now)>>c.epochBits == r.Epoch })
	if at < 0 {
		return // an epoch without a packet
	}
	for _, w := range tables.ScheduleRegisters(fragment, r.Schedule, flip != 0) {
		c.writes = append(c.writes, Write{at, w.Name, w.Index, w.Value})
	}
}

// subepoch adds one to its bank.
func (c *controlPlane) subepoch(control string, r *disketch.Record, bank uint64) {
	cell := int(bank) << fragmentColumnBits
	for level := range c.levels[r.Fragment.Sketch] {
		for _, v := range r.Cells(level) {
			c.state.add(control+"cells", 2<<fragmentColumnBits, cell, uint64(int64(v)))
			cell++
		}
	}
	c.state.add(control+"packets", 2, int(bank), r.Packets)
	c.state.add(control+"value", 2, int(bank), r.Value)
	c.state.add(control+"seen", 2, int(bank), r.Seen)
}

// sampler is the control plane's end of oblivious: of what the switch admits it keeps the smallest ranks
// of the epoch, and tells the switch when it needs no larger ones.
type sampler struct {
	config    oblivious.Config
	epochBits int

	epoch     uint64
	begun     bool
	packets   int              // of the epoch
	kept      []oblivious.Rank // sorted, at most the sample's size
	threshold uint32
	samples   map[uint64][]oblivious.Rank // by epoch
}

// lowerEvery is how many packets pass between two looks at the threshold.
const lowerEvery = 32

// enter is called in front of each packet.
func (c *controlPlane) enter(i int) {
	s := c.sampler
	if s == nil {
		return
	}
	number := uint64(c.packets[i].Now) >> s.epochBits
	write := func() {
		for _, w := range tables.ThresholdRegisters(number, uint64(s.threshold)<<32|(1<<32-1)) {
			c.writes = append(c.writes, Write{i, w.Name, w.Index, w.Value})
		}
	}
	if !s.begun || s.epoch != number {
		s.leave()
		s.epoch, s.begun, s.packets, s.kept, s.threshold = number, true, 0, nil, ^uint32(0)
		write()
	}
	s.packets++
	if s.packets%lowerEvery == 0 && len(s.kept) == s.config.Size {
		if t := uint32(s.kept[s.config.Size-1].Value >> 32); t != s.threshold {
			s.threshold = t
			write()
		}
	}
}

// leave keeps the sample of the epoch that ends.
func (s *sampler) leave() {
	if s.begun {
		s.samples[s.epoch] = s.kept
	}
}

// admits says whether the switch is to copy the packet with an id and a length, and its hash.
func (c *controlPlane) admits(id, bytes uint64) (h uint64, ok bool) {
	s := c.sampler
	h = c.family.Uint64(s.config.RankSeed(), id)
	if s.config.Unit != oblivious.Bytes {
		bytes = 1
	}
	if uint32(h>>s.config.RankShift()/bytes>>32) > s.threshold {
		return h, false
	}
	for _, r := range s.ranks(id, h, bytes) {
		at, found := slices.BinarySearchFunc(s.kept, r, compareRanks)
		if !found { // a packet that comes twice is one
			s.kept = slices.Insert(s.kept, at, r)
			s.kept = s.kept[:min(len(s.kept), s.config.Size)]
		}
	}
	return h, true
}

// ranks are those of a packet: one, or by UWRA one for each of its bytes, of which those that a sample of
// nothing else keeps.
func (s *sampler) ranks(id, h, bytes uint64) (all []oblivious.Rank) {
	if s.config.Kind != oblivious.UWRA || s.config.Unit != oblivious.Bytes {
		return []oblivious.Rank{{Value: h / bytes, ID: id}}
	}
	alone, err := oblivious.NewSampler(s.config)
	if err != nil {
		panic(err) // a valid configuration's
	}
	alone.Insert(id, uint32(bytes), &oblivious.Key{})
	for _, e := range alone.Sample().Entries {
		all = append(all, e.Rank)
	}
	return all
}

func compareRanks(a, b oblivious.Rank) int {
	if a.Value != b.Value {
		return compare(a.Value, b.Value)
	}
	return compare(a.ID, b.ID)
}

// sample holds what the control plane made of the switch's copies to what the Go stage sampled.
func (c *controlPlane) sample(h *record.Header, body []byte) error {
	var s oblivious.Sample
	if err := s.UnmarshalBinary(body); err != nil || h.Instance != 0 {
		return err
	}
	number := uint64(h.Start) >> c.sampler.epochBits
	c.state.add("oblivious_ingress.packets", 2, int(number&1), s.Packets)
	c.state.add("oblivious_ingress.bytes", 2, int(number&1), s.Bytes)
	c.sampler.leave()
	kept := c.sampler.samples[number]
	if len(kept) != len(s.Entries) {
		return fmt.Errorf("epoch %d: the copies make a sample of %d packets, the stage one of %d", number, len(kept), len(s.Entries))
	}
	for i, e := range s.Entries {
		if kept[i] != e.Rank {
			return fmt.Errorf("epoch %d: rank %d of the copies is %x, of the stage %x", number, i, kept[i], e.Rank)
		}
	}
	return nil
}
