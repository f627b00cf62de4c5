package traffic

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// slowTracker counts with maps and without a window.
type slowTracker struct {
	seen                        map[uint64]bool
	highest                     map[uint32]uint64
	packets, duplicates, behind uint64
}

func (s *slowTracker) add(m Mark) {
	s.packets++
	if s.seen[m.Seq] {
		s.duplicates++
		return
	}
	s.seen[m.Seq] = true
	if last, ok := s.highest[m.Flow]; ok && m.Seq < last {
		s.behind++
		return
	}
	s.highest[m.Flow] = m.Seq
}

// disturbed is a stream of sequence numbers with loss, duplication and displacement.
func disturbed(random *rand.Rand, first uint64, n int) []uint64 {
	var out []uint64
	for i := range uint64(n) {
		switch random.IntN(20) {
		case 0: // lost
		case 1:
			out = append(out, first+i, first+i)
		default:
			out = append(out, first+i)
		}
	}
	for range n / 20 {
		i := random.IntN(len(out))
		j := min(i+random.IntN(200), len(out)-1)
		out[i], out[j] = out[j], out[i]
	}
	return out
}

func TestTrackerMatchesSlowTwin(t *testing.T) {
	const flows = 50
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		// The stream crosses from one turn of the window's ring to the next, and with odd
		// seeds over the end of the 32 bits that are kept of each flow.
		first := uint64(window)*(1+seed%2*255) - 5000
		tracker := newTracker(flows, SinkOptions{Duplicates: true, FlowOrder: true})
		slow := slowTracker{seen: map[uint64]bool{}, highest: map[uint32]uint64{}}
		for _, seq := range disturbed(random, first, 10_000) {
			m := Mark{Seq: seq, Flow: uint32(mix64(seq) % flows)}
			tracker.add(m, 60, 1000)
			slow.add(m)
		}
		r := tracker.snapshot()
		if r.Packets != slow.packets || r.Duplicates != slow.duplicates || r.Reordered != slow.behind || r.Stale != 0 {
			t.Errorf("seed %d: %d packets, %d duplicates, %d reordered, %d stale, want %d, %d, %d, 0",
				seed, r.Packets, r.Duplicates, r.Reordered, r.Stale, slow.packets, slow.duplicates, slow.behind)
		}
		if r.Unique() != uint64(len(slow.seen)) || r.Lost(10_000) != 10_000-r.Unique() {
			t.Errorf("seed %d: %d unique, want %d", seed, r.Unique(), len(slow.seen))
		}
	}
}

func TestTrackerCallsOldPacketsStale(t *testing.T) {
	tracker := newTracker(1, DefaultSinkOptions())
	for _, seq := range []uint64{0, window, 0, 1} {
		tracker.add(Mark{Seq: seq}, 60, 1)
	}
	// Number 0 shares its entry with Window, which is newer; so does 1.
	if r := tracker.snapshot(); r.Stale != 2 || r.Unique() != 2 || r.Duplicates != 0 {
		t.Errorf("%d stale, %d unique, %d duplicates", r.Stale, r.Unique(), r.Duplicates)
	}
}

func TestTrimBins(t *testing.T) {
	for _, c := range []struct{ ring, want []uint64 }{
		{[]uint64{0, 0, 0}, nil},
		{[]uint64{1, 2, 3}, []uint64{1, 2, 3}},
		{[]uint64{0, 0, 1, 0, 2, 0}, []uint64{1, 0, 2}},
		{[]uint64{3, 0, 0, 0, 1, 2}, []uint64{1, 2, 3}},
		{[]uint64{0, 0, 0, 7}, []uint64{7}},
	} {
		if got := trimBins(c.ring); !slices.Equal(got, c.want) {
			t.Errorf("%v gives %v, want %v", c.ring, got, c.want)
		}
	}
}

func TestBucketsAreContiguous(t *testing.T) {
	last := int64(-1)
	for i := range 3712 {
		middle := bucketMiddle(i)
		if middle <= last {
			t.Fatalf("bucket %d has its middle at %d, the one below at %d", i, middle, last)
		}
		last = middle
	}
	if last>>34 != 1 {
		t.Errorf("the last bucket is at %d", last)
	}
}
