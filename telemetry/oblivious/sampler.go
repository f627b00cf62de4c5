package oblivious

import "math"

// Sampler keeps the sample of what one worker, or one switch, sees in an epoch.
// It is not safe for concurrent use. Add does not allocate.
type Sampler struct {
	hashes  [admitBlock]uint64 // of AdmitsEach
	weights [admitBlock]uint32 // of AdmitsEach, where they are not the packets' bytes

	ranker
	limit   uint64 // no larger rank value can enter
	config  Config
	packets uint64
	total   uint64 // bytes
	counted counted
	updates uint64
	qmax    *qmax
	heap    *heap  // instead of qmax
	touched uint64 // see store.touch
}

// NewSampler makes an empty sampler. All its memory is allocated here.
func NewSampler(c Config) (*Sampler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Sampler{ranker: newRanker(c), limit: math.MaxUint64, config: c}
	if c.Heap {
		s.heap = newHeap(c.Size)
	} else {
		s.qmax = newQmax(c.Size, c.capacity())
	}
	return s, nil
}

// Config returns what the sampler was made with.
func (s *Sampler) Config() Config { return s.config }

// Add counts a packet and samples it: its id (with the unit Flows: the hash of
// its flow), its length on the wire and its flow.
func (s *Sampler) Add(id uint64, bytes uint32, key *Key) {
	s.CountOf(key.Proto, 1, uint64(bytes))
	if s.Admits(id, bytes) {
		s.Insert(id, bytes, key)
	}
}

// CountOf is Count of packets of one protocol, as keys have it, and what CountEach does.
func (s *Sampler) CountOf(proto uint8, packets, bytes uint64) {
	class := classOf(proto)
	s.counted.packets[class] += packets
	s.counted.bytes[class][0] += bytes
	s.Count(packets, bytes)
}

// Count adds to the exact totals, for a batch of packets: bytes on the wire.
func (s *Sampler) Count(packets, bytes uint64) {
	s.packets += packets
	s.total += bytes
}

// Admits is the straight path of Add, one hash and one comparison: it reports
// whether the packet may enter the sample, and then it is to be given to
// Insert. So the caller needs to make the keys of few packets only.
func (s *Sampler) Admits(id uint64, bytes uint32) bool { return s.admits(s.limit, id, bytes) }

// Block is the most packets that AdmitsEach takes.
const Block = admitBlock

// AdmitsEach is Admits of the first n packets of a block at once, a few times as fast: bit i is set
// if packet i may enter, and is to be given to Insert.
func (s *Sampler) AdmitsEach(ids *[Block]uint64, bytes *[Block]uint32, n int) uint64 {
	if s.bytes && s.one != 0 {
		for i, b := range bytes[:min(n, admitBlock)] {
			s.weights[i] = b + uint32(s.one)
		}
		bytes = &s.weights
	}
	return s.admitsEach(s.limit, &s.hashes, ids, bytes, n)
}

// Limit is the largest rank value that can enter at the moment. It never grows
// but by Reset.
func (s *Sampler) Limit() uint64 { return s.limit }

// AdmitsUnder is Admits under another limit than the sampler's own. Who holds
// many samplers of one kind, unit and seed, as a simulator does, tests once under
// the largest of their limits.
func (s *Sampler) AdmitsUnder(limit, id uint64, bytes uint32) bool {
	return s.admits(limit, id, bytes)
}

// Insert enters a packet that Admits admitted; where its rank, drawn exactly,
// turns out too large, nothing happens. It does not count the packet. UWRA
// enters all bytes of a packet that are small enough: while the sample fills, that
// may be all of them.
//
//go:noinline
func (s *Sampler) Insert(id uint64, bytes uint32, key *Key) {
	if w := uint64(bytes)&s.mask + s.one; w != 0 {
		value, n := s.first(id, w)
		s.insert(id, w, value, n, bytes, key)
	}
}

// insert is Insert of a packet of w units, of whose n ranks the first value is known.
func (s *Sampler) insert(id, w, value, n uint64, bytes uint32, key *Key) {
	n = min(n, uint64(s.config.Size))
	for j := uint64(1); value <= s.limit; j++ {
		s.put(Rank{value, id}, bytes, key)
		if j >= n {
			return
		}
		var more bool
		if value, more = s.next(value, s.limit, id, w, j); !more {
			return
		}
	}
}

// InsertEach does Insert of up to Block packets, in this order. Where entries go is random in memory that other stages have
// pushed out of the caches, so the loads of all are in flight at once. bytes and keys are as long as ids.
func (s *Sampler) InsertEach(ids []uint64, bytes []uint32, keys []Key) {
	ids = ids[:min(len(ids), Block)]
	bytes, keys = bytes[:len(ids)], keys[:len(ids)]
	var values, ranks [Block]uint64
	for i, id := range ids {
		if w := uint64(bytes[i])&s.mask + s.one; w != 0 {
			values[i], ranks[i] = s.first(id, w)
		}
	}
	if s.qmax != nil {
		s.touched = s.qmax.touch(values[:len(ids)], ids)
	}
	for i, id := range ids {
		if w := uint64(bytes[i])&s.mask + s.one; w != 0 {
			s.insert(id, w, values[i], ranks[i], bytes[i], &keys[i])
		}
	}
}

func (s *Sampler) put(r Rank, bytes uint32, key *Key) {
	var entered bool
	if s.heap != nil {
		entered = s.heap.put(r, bytes, key)
		s.limit = s.heap.limit
	} else {
		entered = s.qmax.put(r, bytes, key)
		s.limit = s.qmax.limit
	}
	if entered {
		s.updates++
	}
}

// Updates is the number of entries that entered since the last Reset.
func (s *Sampler) Updates() uint64 { return s.updates }

func (s *Sampler) store() *store {
	if s.heap != nil {
		return &s.heap.store
	}
	return &s.qmax.store
}

// Reset empties the sampler for the next epoch, without giving memory back.
func (s *Sampler) Reset() {
	s.packets, s.total, s.updates, s.limit = 0, 0, 0, math.MaxUint64
	s.counted = counted{}
	if s.heap != nil {
		s.heap.reset()
	} else {
		s.qmax.reset()
	}
}

// Sample copies out the sample of what was added since the last Reset. It
// allocates, and changes nothing.
func (s *Sampler) Sample() *Sample {
	c := s.config
	out := &Sample{Kind: c.Kind, Unit: c.Unit, Size: c.Size, Seed: c.Seed, Hash: c.Hash,
		Packets: s.packets, Bytes: s.total, Classes: s.counted.totals(), Threshold: maxRank}
	out.Entries, out.Seen = s.store().smallest(c.Size)
	if len(out.Entries) == c.Size {
		out.Threshold = out.Entries[c.Size-1].Rank
	}
	return out
}
