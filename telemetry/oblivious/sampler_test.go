package oblivious

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestSamplerEqualsTwin: q-max and the heap keep what a sorted list keeps,
// with packets seen again, ids that two packets share, sizes below and above the
// stream's length, and a reset between.
func TestSamplerEqualsTwin(t *testing.T) {
	for _, c := range kinds {
		for _, heap := range []bool{false, true} {
			for _, size := range []int{2, 3, 50, 1000} {
				for _, gamma := range []float64{0, 0.01, 2} {
					c.Size, c.Seed, c.Heap, c.Gamma = size, 11, heap, gamma
					t.Run(fmt.Sprintf("%s/heap=%v/%d/%v", c.name(), heap, size, gamma), func(t *testing.T) {
						s := sampler(t, c)
						for round, n := range []int{0, 1, 7, 300} {
							ps := packets(uint64(round), n, 20)
							s.Reset()
							tw := &twin{c, map[Rank]Entry{}}
							r := rand.New(rand.NewPCG(1, 2))
							for i := range ps {
								p := ps[i]
								switch r.IntN(5) {
								case 0: // the same packet again
									p = ps[r.IntN(i+1)]
								case 1: // another packet with an id seen before
									p.id = ps[r.IntN(i+1)].id
								}
								s.Add(p.id, p.bytes, &p.key)
								tw.add(&p)
							}
							got, want := s.Sample(), tw.upTo(maxRank, size)
							if !sameEntries(got, want) {
								t.Fatalf("%d packets: %d entries up to %v, want %d up to %v", n, len(got.Entries), got.Threshold, len(want.Entries), want.Threshold)
							}
							if got.Packets != uint64(n) {
								t.Fatalf("counted %d of %d packets", got.Packets, n)
							}
							if err := got.check(); err != nil {
								t.Fatal(err)
							}
						}
					})
				}
			}
		}
	}
}

// TestEqualValues: entries whose values are equal are told apart by their ids,
// also where they do not fit.
func TestEqualValues(t *testing.T) {
	q := newQmax(10, 13)
	h := newHeap(10)
	var all []Rank
	r := rand.New(rand.NewPCG(3, 3))
	for range 500 {
		rank := Rank{5 - min(uint64(len(all)/90), 3), r.Uint64()}
		all = append(all, rank)
		if rank.Value <= q.limit {
			q.put(rank, 1, &Key{})
		}
		if rank.Value <= h.limit {
			h.put(rank, 1, &Key{})
		}
	}
	slices.SortFunc(all, Rank.Compare)
	for name, s := range map[string]*store{"q-max": &q.store, "heap": &h.store} {
		smallest, _ := s.smallest(10)
		for i, e := range smallest {
			if e.Rank != all[i] {
				t.Errorf("%s: entry %d is %v, want %v", name, i, e.Rank, all[i])
			}
		}
	}
}

// TestSelectWord: as a sorted list has it, of words that are spread, that differ in their last bits, that are equal, and among
// others that do not count.
func TestSelectWord(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	q := newQmax(2, 3)
	for range 3000 {
		words, of := make([]uint64, 1+r.IntN(60)), make([]uint64, 0, 60)
		distinct, shift := 1+r.Uint64N(80), r.IntN(58)
		var among []uint64
		for i := range words {
			words[i] = r.Uint64N(distinct) << shift
			of = append(of, r.Uint64N(3))
			if of[i] == 2 {
				among = append(among, words[i])
			}
		}
		check := func(of, counted []uint64) {
			if len(counted) == 0 {
				return
			}
			slices.Sort(counted)
			k := r.IntN(len(counted))
			first, _ := slices.BinarySearch(counted, counted[k])
			after, _ := slices.BinarySearch(counted, counted[k]+1)
			if word, below, equal := q.selectWord(words, of, 2, k); word != counted[k] || below != first || equal != after-first {
				t.Fatalf("place %d of %v is %d, %d below, %d equal", k, counted, word, below, equal)
			}
		}
		check(of, among)
		check(nil, slices.Clone(words))
	}
}

// TestPacketsAreOfOneKind: with unit weights all kinds keep the same packets.
func TestPacketsAreOfOneKind(t *testing.T) {
	ps := packets(5, 3000, 100)
	var first *Sample
	for _, k := range []Kind{DUS, UWRA, NWPS} {
		s := sampler(t, Config{Kind: k, Unit: Packets, Size: 100, Seed: 4}).addAll(ps).Sample()
		if first == nil {
			first = s
		}
		if s.Threshold != first.Threshold || !slices.Equal(s.Entries, first.Entries) {
			t.Errorf("%v and %v keep different packets", k, first.Kind)
		}
	}
}

// bothWays runs f with the wide instructions that the processor has, and without.
func bothWays(t *testing.T, f func(t *testing.T)) {
	has := wide
	defer func() { wide = has }()
	for _, wide = range []bool{false, true} {
		if wide && !has {
			t.Log("the processor lacks AVX-512DQ: not all ways are tested")
			continue
		}
		t.Run(fmt.Sprintf("wide=%v", wide), f)
	}
}

// TestAdmitsEach: it says of a block of packets what Admits says of each, with limits of
// all sizes, and packets of no byte and of the most.
func TestAdmitsEach(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 5))
		for _, c := range kinds {
			c.Size, c.Seed = 8, 3
			s := sampler(t, c)
			for range 3000 {
				s.limit = r.Uint64() >> r.IntN(64)
				n := r.IntN(Block + 1)
				var ids [Block]uint64
				var bytes [Block]uint32
				want := uint64(0)
				for i := range ids {
					ids[i], bytes[i] = r.Uint64(), r.Uint32()>>r.IntN(33)
					if i < n && s.Admits(ids[i], bytes[i]) {
						want |= 1 << i
					}
				}
				if got := s.AdmitsEach(&ids, &bytes, n); got != want {
					t.Fatalf("%s, limit %#x: of %d, %d admits %b, Admits %b", c.name(), s.limit, n, bytes, got, want)
				}
			}
		}
	})
}

// TestWideAdmits: it compares as 128-bit words say, at the sum and one beside it.
func TestWideAdmits(t *testing.T) {
	if !wide {
		t.Skip("the processor lacks AVX-512DQ")
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		limit, shift, n := r.Uint64()>>r.IntN(64), r.IntN(64), 1+r.IntN(Block)
		var hashes [Block]uint64
		var bytes [Block]uint32
		want := uint64(0)
		for i := range n {
			bytes[i] = r.Uint32() >> r.IntN(33)
			hi, lo := bits.Mul64(limit, uint64(bytes[i]))
			lo, carry := bits.Add64(lo, uint64(bytes[i])-1, 0)
			hashes[i] = (lo + uint64(r.IntN(3)) - 1) << shift
			if r.IntN(4) == 0 {
				hashes[i] = r.Uint64()
			}
			if hi+carry != 0 || hashes[i]>>shift <= lo {
				want |= 1 << i
			}
		}
		if got := wideAdmits(&hashes, &bytes, limit, uint64(shift), n) & (1<<n - 1); got != want {
			t.Fatalf("limit %#x, shift %d, %d of %d bytes, %x: %b, want %b", limit, shift, n, bytes, hashes, got, want)
		}
	}
}

// TestInsertEach: many at once leave the sampler as one by one, with entries that come twice, packets of no byte, and
// maintenance within a block.
func TestInsertEach(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	for _, c := range kinds {
		for _, c.Heap = range []bool{false, true} {
			c.Size, c.Seed = 40, 3
			one, many := sampler(t, c), sampler(t, c)
			for range 300 {
				n := r.IntN(Block + 1)
				ids, bytes, keys := make([]uint64, n), make([]uint32, n), make([]Key, n)
				for i := range ids {
					ids[i], bytes[i], keys[i].SrcPort = r.Uint64N(5000), r.Uint32()>>(20+r.IntN(13)), uint16(r.IntN(3))
					one.Insert(ids[i], bytes[i], &keys[i])
				}
				many.InsertEach(ids, bytes, keys)
				if one.limit != many.limit || one.updates != many.updates {
					t.Fatalf("%s: limit %#x, %d updates; one by one %#x, %d", c.name(), many.limit, many.updates, one.limit, one.updates)
				}
			}
			if got, want := many.Sample(), one.Sample(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, one by one %+v", c.name(), got, want)
			}
		}
	}
}

// TestPacketWithoutBytes: it is counted, and cannot be a sampled byte.
func TestPacketWithoutBytes(t *testing.T) {
	for _, k := range []Kind{UWRA, NWPS} {
		s := sampler(t, Config{Kind: k, Unit: Bytes, Size: 4}).addAll([]seen{{id: 1}, {id: 2, bytes: 1}}).Sample()
		if s.Packets != 2 || len(s.Entries) != 1 || s.Entries[0].Rank.ID != 2 {
			t.Errorf("%v: %d packets, entries %v", k, s.Packets, s.Entries)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		config Config
		faults int
	}{
		{Config{Kind: DUS, Unit: Packets, Size: MinSize}, 0},
		{Config{Kind: NWPS, Unit: Bytes, Size: 1000, Gamma: 4}, 0},
		{Config{}, 3},
		{Config{Kind: DUS, Unit: Bytes, Size: 10}, 1},
		{Config{Kind: UWRA, Unit: Flows + 1, Size: maxSize + 1, Gamma: -1}, 3},
		{Config{Kind: UWRA, Unit: Flows, Size: 1, Gamma: 5}, 2},
	} {
		err := c.config.Validate()
		got := 0
		if err != nil {
			got = strings.Count(err.Error(), "\n") + 1
		}
		if got != c.faults {
			t.Errorf("%+v: %d faults, want %d: %v", c.config, got, c.faults, err)
		}
		if _, err := NewSampler(c.config); (err != nil) != (c.faults > 0) {
			t.Errorf("%+v: NewSampler says %v", c.config, err)
		}
	}
	for k := DUS; k <= NWPS; k++ {
		if got, err := ParseKind(k.String()); got != k || err != nil {
			t.Errorf("%v is read as %v, %v", k, got, err)
		}
	}
	for u := Packets; u <= Flows; u++ {
		if got, err := ParseUnit(u.String()); got != u || err != nil {
			t.Errorf("%v is read as %v, %v", u, got, err)
		}
	}
	if _, err := ParseKind("kind 0"); err == nil {
		t.Error("kind 0 is read")
	}
	if _, err := ParseUnit(""); err == nil {
		t.Error("an empty unit is read")
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	ps := packets(6, 5000, 50)
	for _, c := range kinds {
		for _, heap := range []bool{false, true} {
			c.Size, c.Heap = 100, heap
			s := sampler(t, c)
			if n := testing.AllocsPerRun(3, func() { s.Reset(); s.addAll(ps) }); n != 0 {
				t.Errorf("%s, heap %v: %v allocations", c.name(), heap, n)
			}
		}
	}
}

// TestInlined fails if the small functions of the hot path stop being inlined.
// (admits is too large for that: it is the one call of a packet.)
func TestInlined(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Skipf("no compiler here: %v", err)
	}
	for _, f := range []string{"(*Sampler).Admits", "(*Sampler).Count", "cellHash"} {
		if !strings.Contains(string(out), "can inline "+f) {
			t.Errorf("%s is no longer inlined", f)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	ps := packets(7, 1<<16, 1000)
	for _, c := range kinds {
		for _, size := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", c.name(), size), func(b *testing.B) {
				c.Size = size
				s := sampler(b, c)
				// Warm: the threshold of some million packets.
				for round := range uint64(64) {
					for i := range ps {
						s.Add(ps[i].id^round<<40, ps[i].bytes, &ps[i].key)
					}
				}
				i, round := 0, uint64(0)
				b.ReportAllocs()
				for b.Loop() {
					p := &ps[i]
					s.Add(p.id+round, p.bytes, &p.key)
					if i++; i == len(ps) {
						i, round = 0, round+1
					}
				}
			})
		}
	}
}

// BenchmarkUpdate draws each rank from those that enter, as at the beginning of
// an epoch: what q-max and the heap are for.
func BenchmarkUpdate(b *testing.B) {
	type store interface {
		put(Rank, uint32, *Key) bool
		max() uint64
		reset()
	}
	random := make([]uint64, 1<<16)
	r := rand.New(rand.NewPCG(8, 8))
	for i := range random {
		random[i] = r.Uint64()
	}
	for _, size := range []int{1000, 10_000, 100_000} {
		for name, s := range map[string]store{"qmax": newQmax(size, size+size/4), "heap": newHeap(size)} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				key := Key{}
				for n := uint64(0); b.Loop(); n++ {
					if s.max() < 1<<32 {
						s.reset()
					}
					value, _ := bits.Mul64(random[n&0xffff], s.max())
					s.put(Rank{value, n}, 1, &key)
				}
			})
		}
	}
}

func (h *heap) max() uint64 { return h.limit }
func (q *qmax) max() uint64 { return q.limit }

// TestMaintenanceIsRare: what figures 11 and 12 of the paper rest on. Between two
// maintenances of q-max, 7/8 of its room at least is filled again, and no more than all of
// it: each lowers the limit.
func TestMaintenanceIsRare(t *testing.T) {
	for _, gamma := range []float64{0.1, DefaultGamma, 1} {
		for _, kind := range []Kind{DUS, NWPS} {
			unit := Packets
			if kind == NWPS {
				unit = Bytes
			}
			c := Config{Kind: kind, Unit: unit, Size: 2000, Gamma: gamma, Seed: 4}
			s := sampler(t, c)
			key := flowKey(1)
			maintenances, entered, limit := 0., 0., s.Limit()
			for id := range uint64(400_000) {
				s.Add(hash.Uint64(1, id), uint32(64+id%1400), &key)
				if s.Limit() != limit {
					limit, entered = s.Limit(), float64(s.Updates())
					maintenances++
				}
			}
			room := float64(c.capacity() - c.Size)
			if each := (entered - float64(c.Size)) / maintenances; each < room*7/8-1 || each > room {
				t.Errorf("gamma %g, %v: %.0f updates between maintenances, the room is %.0f", gamma, kind, each, room)
			}
		}
	}
}

// TestCountEach: totals by class are those of packets counted one by one, with the bytes that lengths of captures can claim.
func TestCountEach(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(22, 7))
		s := sampler(t, Config{Kind: NWPS, Unit: Bytes, Size: 100})
		var want [classes]Totals
		var protos [Block]uint8
		var bytes [Block]uint32
		for round := range 2000 {
			for i := range bytes {
				protos[i] = [...]uint8{protoTCP, protoTCP, protoUDP, 0, 1, 44, 255, uint8(r.Uint32())}[r.IntN(8)]
				if bytes[i] = r.Uint32N(1500); r.IntN(9) == 0 {
					bytes[i] = math.MaxUint32 - bytes[i]
				}
			}
			which := [...]uint64{0, math.MaxUint64, 1, 1 << 63, r.Uint64(), r.Uint64() & r.Uint64(), 1<<r.IntN(64) - 1}[round%7]
			for i := range bytes {
				if which>>i&1 != 0 {
					class := &want[classOf(protos[i])]
					class.Packets, class.Bytes = class.Packets+1, class.Bytes+uint64(bytes[i])
				}
			}
			s.CountEach(&protos, &bytes, which)
		}
		if got := s.Sample().Classes; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		s.Reset()
		if got := s.Sample().Classes; got != ([classes]Totals{}) {
			t.Errorf("after Reset %+v", got)
		}
		if n := testing.AllocsPerRun(100, func() { s.CountEach(&protos, &bytes, math.MaxUint64) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
