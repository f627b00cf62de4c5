package l2

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

func TestBucketIsOneCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(bucket{}); n != bucketSize {
		t.Fatalf("a bucket has %d bytes, want %d", n, bucketSize)
	}
	for _, n := range []int{1, 100, 1000, 16384, 100_000} {
		f := newFDB(n, 300, 1)
		if at := uintptr(unsafe.Pointer(&f.buckets[0])); at%bucketSize != 0 {
			t.Errorf("the buckets of a table for %d begin at %#x, not on a cache line", n, at)
		}
	}
}

func TestKey(t *testing.T) {
	for _, mac := range []MAC{{}, {2, 0, 0, 0, 0, 1}, {0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa}} {
		for _, vlan := range []uint16{0, 1, 4095} {
			k := makeKey(vlan, mac)
			if k == 0 || keyMAC(k) != mac || keyVLAN(k) != vlan {
				t.Errorf("key %#x of VLAN %d, %v gives VLAN %d, %v", k, vlan, mac, keyVLAN(k), keyMAC(k))
			}
			if unlearnable(k) == mac.learnable() {
				t.Errorf("%v: the key and the address disagree whether it can be learned", mac)
			}
		}
	}
	for mac, want := range map[MAC]bool{
		{0x01, 0x80, 0xc2, 0, 0, 0x00}:      true,
		{0x01, 0x80, 0xc2, 0, 0, 0x0e}:      true,
		{0x01, 0x80, 0xc2, 0, 0, 0x0f}:      true,
		{0x01, 0x80, 0xc2, 0, 0, 0x10}:      false,
		{0x01, 0x80, 0xc2, 0, 1, 0x00}:      false,
		{0x01, 0x00, 0x5e, 0, 0, 0x01}:      false,
		{0xff, 0xff, 0xff, 0xff, 255, 0xff}: false,
	} {
		if linkLocal(makeKey(7, mac)) != want {
			t.Errorf("%v is link local: want %v", mac, want)
		}
	}
}

// TestTableHoldsItsLimit fills tables to the limit with random addresses: every
// one must find room, and the next one in the place of another.
func TestTableHoldsItsLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	// 5120 and 81920 are the worst cases, five to a bucket.
	for _, limit := range []int{1, 50, 200, 1000, 5120, 16384, 81920} {
		f := newFDB(limit, 300, rng.Uint64())
		keys := make([]uint64, limit)
		for i := range keys {
			keys[i] = rng.Uint64()&macMask&^macGroup | uint64(i)<<8&0xff00 | keyTag(uint16(i%4096))
			f.learn(keys[i], uint16(i%MaxPorts), 1)
		}
		if got := f.entries.Load(); got != uint64(limit) || f.full.Load() != 0 {
			t.Fatalf("a table for %d holds %d, refused %d", limit, got, f.full.Load())
		}
		for i, k := range keys {
			if b, _, e := f.find(f.mix(k)); b == nil || f.port(e) != uint16(i%MaxPorts) {
				t.Fatalf("limit %d: key %d found %v with port %d", limit, i, b != nil, f.port(e))
			}
		}
		more := keyTag(5) | 0x42
		f.learn(more, 1, 1)
		if b, _, _ := f.find(f.mix(more)); b == nil || f.evicted.Load() != 1 || f.entries.Load() != uint64(limit) {
			t.Fatalf("limit %d: %d entries and %d evicted after one too many", limit, f.entries.Load(), f.evicted.Load())
		}
	}
}

// TestMixSpreads counts, for many seeds, the keys of a table that do not fit four to a bucket, when keys follow each
// other in one part or another. Balls thrown at random leave 11,000 (standard deviation about 80).
func TestMixSpreads(t *testing.T) {
	const keys, buckets, atMost = 100_000, 1 << 15, 13_500
	station := func(b ...byte) MAC { return MAC(append([]byte{2}, b...)) }
	patterns := map[string]func(i int) uint64{
		"the last bytes":   func(i int) uint64 { return makeKey(1, station(0, 0, byte(i>>16), byte(i>>8), byte(i))) },
		"bytes before":     func(i int) uint64 { return makeKey(1, station(byte(i>>16), byte(i>>8), byte(i), 0, 0)) },
		"the first bytes":  func(i int) uint64 { return makeKey(1, MAC{byte(i << 1), byte(i >> 7), byte(i >> 15)}) },
		"each 16th":        func(i int) uint64 { return makeKey(1, station(0, byte(i>>20), byte(i>>12), byte(i>>4), byte(i<<4))) },
		"VLANs":            func(i int) uint64 { return makeKey(uint16(i&4095), station(0, 0, 0, 0, byte(i>>12))) },
		"few in each VLAN": func(i int) uint64 { return makeKey(uint16(i>>8&4095), station(0, 0, 0, 0, byte(i))) },
	}
	seeds := uint64(40)
	if testing.Short() {
		seeds = 20
	}
	layout := newLayout(buckets)
	for name, key := range patterns {
		for seed := range seeds {
			m := newMixer(seed)
			var load [buckets]uint8
			over := 0
			for i := range keys {
				at, _ := layout.first(m.mix(key(i)))
				b := &load[at/bucketSize]
				if *b++; *b > 4 {
					over++
				}
			}
			if over > atMost {
				t.Errorf("%s, seed %d: %d of %d keys do not fit their first buckets, want at most %d", name, seed, over, keys, atMost)
			}
		}
	}
}

// TestMixIsUndone: from each entry, in either of its buckets, follows its key, and other leads back.
func TestMixIsUndone(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, buckets := range []int{64, minBuckets, 1 << 18} {
		f := newFDBOf(buckets, 1, 1, rng.Uint64())
		for range 10_000 {
			key := rng.Uint64()&macMask&^macGroup | keyTag(uint16(rng.Uint32()))
			mixed := f.mix(key)
			at, name := f.first(mixed)
			second, renamed := f.other(at, name)
			back, again := f.other(second, renamed)
			if f.key(at, name) != key || f.key(second, renamed) != key || second == at || back != at || again != name || name&f.ports != 0 {
				t.Fatalf("%d buckets: key %#x is %#x in bucket %#x and %#x in %#x", buckets, key, name, at, renamed, second)
			}
		}
	}
}

// TestTableTwin compares the table with a map under random operations.
func TestTableTwin(t *testing.T) {
	type entry struct {
		port  uint16
		stamp uint32
	}
	const limit, ageing = 200, 5
	rng := rand.New(rand.NewPCG(3, 4))
	f := newFDB(limit, ageing, 5)
	twin := map[uint64]entry{}
	static := makeKey(1, MAC{2, 9, 9, 9, 9, 9})
	f.addStatic(static, 77)
	now := uint32(1 << 31) // the stamps' sign changes on the way
	var moved, aged, evicted, flushed uint64
	for step := range 200_000 {
		key := makeKey(uint16(rng.IntN(2)), MAC{2, 0, 0, 0, 0, byte(rng.IntN(150))})
		port := uint16(rng.IntN(4))
		switch op := rng.IntN(1000); {
		case op < 500:
			old, ok := twin[key]
			if !ok && len(twin)+1 >= limit {
				evicted++
				shares := map[uint16]int{}
				for _, e := range twin {
					shares[e.port]++
				}
				f.learn(key, port, now)
				for k, e := range twin {
					if b, _, _ := f.find(f.mix(k)); b == nil {
						for p, n := range shares {
							if n > shares[e.port] {
								t.Fatalf("step %d: a station of port %d with %d made room, and port %d has %d", step, e.port, shares[e.port], p, n)
							}
						}
						delete(twin, k)
					}
				}
				twin[key] = entry{port, now}
			} else {
				if ok && old.port != port {
					moved++
				}
				twin[key] = entry{port, now}
			}
			f.learn(key, port, now)
		case op < 501:
			now += 1 + uint32(rng.IntN(4))
			for k, e := range twin {
				if now-e.stamp > ageing {
					delete(twin, k)
					aged++
				}
			}
			f.age(now)
		case op < 502:
			if rng.IntN(20) > 0 {
				break
			}
			n := 0
			for k, e := range twin {
				if e.port == port {
					delete(twin, k)
					n++
				}
			}
			if got := f.flush(func(_, p uint16) bool { return p == port }); got != n {
				t.Fatalf("step %d: flushed %d, want %d", step, got, n)
			}
			flushed += uint64(n)
		case op < 503:
			f.learn(static, port, now)
		default:
			b, i, found := f.find(f.mix(key))
			e, ok := twin[key]
			if ok != (b != nil) || ok && (f.port(found) != e.port || f.stamp(b, i) != e.stamp) {
				t.Fatalf("step %d: found %v %#x, want %v %+v", step, b != nil, found, ok, e)
			}
			if ok && rng.IntN(2) == 0 {
				b.refresh(i, found, f.markOf(now))
				twin[key] = entry{e.port, now}
			}
		}
		if got := f.entries.Load(); got != uint64(len(twin)+1) {
			t.Fatalf("step %d: %d entries, want %d", step, got, len(twin)+1)
		}
	}
	if _, _, e := f.find(f.mix(static)); e&f.static == 0 || f.port(e) != 77 {
		t.Fatalf("the static entry became %#x", e)
	}
	got := [4]uint64{f.moved.Load(), f.aged.Load(), f.evicted.Load(), f.flushed.Load()}
	if want := [4]uint64{moved, aged, evicted, flushed}; got != want {
		t.Fatalf("moved, aged, evicted, flushed: %v, want %v", got, want)
	}
	if aged == 0 || evicted == 0 || flushed == 0 || moved == 0 {
		t.Fatalf("the test did not reach all cases: aged %d, evicted %d, flushed %d, moved %d", aged, evicted, flushed, moved)
	}
}

// TestClockSetBack ages entries whose stamps lie in the future.
func TestClockSetBack(t *testing.T) {
	f := newFDB(10, 5, 5)
	key := makeKey(0, stationMAC(1))
	f.learn(key, 1, 1000)
	f.age(500)
	if b, i, _ := f.find(f.mix(key)); f.stamp(b, i) != 500 {
		t.Fatalf("stamp %d, want 500", f.stamp(b, i))
	}
	if f.age(505); f.entries.Load() != 1 {
		t.Fatal("aged too early")
	}
	if f.age(506); f.entries.Load() != 0 {
		t.Fatal("did not age from the new time on")
	}
}

// TestClockJumps sets the clock forward and back at random. A station that was seen stays for as many seconds as the ageing time, as far as the clock
// went forward since; and it goes when so many have passed since the clock was last set back, with a margin of what the table does not
// notice, though marks repeat every 1024 s.
func TestClockJumps(t *testing.T) {
	const ageing, granule, unnoticed = 300, 4, lookAgain * 4
	rng := rand.New(rand.NewPCG(8, 8))
	f := newFDB(1000, ageing, 5)
	now := uint32(1<<32 - 20_000)         // it wraps on the way
	type entry struct{ seen, steady int } // seconds since it was seen, and since that or the last step back
	twin := map[uint64]*entry{}
	gone, back := 0, 0
	for step := range 20_000 {
		jump := rng.IntN(20)
		switch rng.IntN(50) {
		case 0:
			jump = rng.IntN(3000)
		case 1:
			jump = -rng.IntN(3000)
			back++
		}
		now += uint32(jump)
		for _, e := range twin {
			e.seen += max(0, jump)
			if e.steady += jump; jump < 0 {
				e.steady = 0
			}
		}
		if rng.IntN(100) == 0 {
			f.setAgeing(ageing * 2) // another granule, for a moment
			f.setAgeing(ageing)
		}
		f.age(max(1, now))
		for range rng.IntN(4) {
			key := makeKey(1, stationMAC(rng.IntN(500)))
			f.learn(key, 1, max(1, now/granule*granule))
			twin[key] = &entry{}
		}
		for key, e := range twin {
			b, _, _ := f.find(f.mix(key))
			if b == nil && e.seen <= ageing-2*granule || b != nil && e.steady > ageing+2*granule+unnoticed {
				t.Fatalf("step %d: there %v, seen %d s ago, %d s without a step back", step, b != nil, e.seen, e.steady)
			}
			if b == nil {
				delete(twin, key)
				gone++
			}
		}
	}
	if gone == 0 || len(twin) == 0 || back == 0 || now > 1<<31 {
		t.Fatalf("the test did not reach all cases: %d gone, %d left, %d steps back, second %d", gone, len(twin), back, now)
	}
}

// TestReadersAndWriter reads a table that a writer turns over. Half of the keys
// stay in the table throughout, in changing slots: readers must never miss one.
// The others come and go: readers must never see another key's port.
func TestReadersAndWriter(t *testing.T) {
	const limit = 358 // 80 % of the entries of 64 buckets, so they must move
	f := newFDBOf(64, limit, 300, 5)
	port := func(k uint64) uint16 { return uint16(k >> 32 & f.ports) }
	key := func(i int) uint64 {
		return makeKey(0, MAC{2, byte(i), byte(i >> 8), byte(i >> 16), byte(i), byte(i * 7)})
	}
	const stable = limit / 2
	for i := range stable {
		f.learn(key(i), port(key(i)), 1)
	}
	writes := 300_000
	if testing.Short() {
		writes = 30_000
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for r := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			for !done.Load() {
				i := rng.IntN(8 * stable)
				k := key(i)
				b, slot, entry, missed := findMovable(f, k)
				if missed && i < stable {
					t.Errorf("missed key %d, which is in the table", i)
					return
				}
				if b == nil {
					continue
				}
				if f.port(entry) != port(k) {
					t.Errorf("key %d has port %d, want %d", i, f.port(entry), port(k))
					return
				}
				b.refresh(slot, entry, uint8(rng.Uint32()))
			}
		})
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range writes {
		k := key(stable + rng.IntN(7*stable))
		f.learn(k, port(k), 1)
		for f.entries.Load() >= limit-1 { // a full table would evict the stable ones, too
			victim := uint16(rng.IntN(1 << 16)) // and the like, of four classes
			f.each(func(b *bucket, i int, at, entry uint64) {
				k := f.key(at, entry)
				if int(keyMAC(k)[1])|int(keyMAC(k)[2])<<8 >= stable && (uint16(k>>20)^victim)&3 == 0 {
					f.remove(b, i, entry)
				}
			})
		}
	}
	done.Store(true)
	wg.Wait()
	if f.moves.Load() == 0 {
		t.Fatal("no entry moved: the test does not test what it should")
	}
	t.Logf("%d entries moved, %d learned", f.moves.Load(), f.learned.Load())
}

// findMovable is find for a table whose writer never rests. It reports missed if
// find came back with nothing though fewer entries moved than it looks again:
// each look that fails for a key in the table takes a move of its own, so a
// reader that is slow enough may use up its looks, and then only.
func findMovable(f *fdb, key uint64) (b *bucket, i int, entry uint64, missed bool) {
	moves := f.moves.Load()
	b, i, entry = f.find(f.mix(key))
	return b, i, entry, b == nil && f.moves.Load()-moves < maxRetries
}

// TestFindWhileMoving moves one entry to and fro between its buckets: whoever
// looks for it must find it.
func TestFindWhileMoving(t *testing.T) {
	f := newFDB(10, 300, 5)
	key := makeKey(0, stationMAC(1))
	f.learn(key, 7, 1)
	here, name := f.first(f.mix(key))
	there, _ := f.other(here, name)
	untilDone(t, func(i int) {
		f.move(here, 0, i%slots)
		f.move(there, i%slots, 0)
	}, func() bool {
		b, _, entry, missed := findMovable(f, key)
		if missed || b != nil && f.port(entry) != 7 {
			t.Errorf("missed %v, port %d", missed, f.port(entry))
			return false
		}
		return true
	})
}

// TestRefreshWhileReused gives one place to ever new stations, all with the same mark, so that nothing but the version tells
// their marks apart. A reader refreshes each second one, if it still finds it: the marks of the others must not change.
func TestRefreshWhileReused(t *testing.T) {
	f := newFDB(10, 300, 5)
	b := f.bucket(0)
	const mark, seen = 7, 9
	changed := 0
	untilDone(t, func(i int) {
		for i == 1 && b.mark(2) != seen { // until the reader runs
			b.fill(2, 2, mark)
			runtime.Gosched()
		}
		b.entries[2].Store(0)
		b.fill(2, uint64(i), mark)
		for range 10 {
			if i%2 == 1 && b.mark(2) == seen {
				changed++
			}
		}
	}, func() bool {
		if e := b.entries[2].Load(); e != 0 && e%2 == 0 {
			b.refresh(2, e, seen)
		}
		return true
	})
	if changed > 0 {
		t.Errorf("%d marks were another station's", changed)
	}
}

// untilDone runs a writer many times beside a reader, until that says false.
func untilDone(t *testing.T, write func(int), read func() bool) {
	t.Helper()
	writes := 500_000
	if testing.Short() {
		writes = 50_000
	}
	var done atomic.Bool
	var reads uint64
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		close(begun)
		for !done.Load() && read() {
			reads++
		}
	}()
	<-begun
	for i := 1; i <= writes; i++ {
		write(i)
	}
	done.Store(true)
	<-ended
	t.Logf("%d reads beside %d writes", reads, writes)
}

// TestFloodPaysForItself: a port that floods the table with addresses displaces its own stations. Those of other
// ports stay, new ones are learned, and on the port itself those that speak outlive those that do not.
func TestFloodPaysForItself(t *testing.T) {
	const limit, stations = 16384, 1000
	f := newFDB(limit, 60, 5) // marks count seconds
	key := func(port, i int) uint64 {
		return makeKey(0, MAC{2, byte(port), 0, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	const attacker, victim, late = 0, 1, 2
	for i := range stations {
		f.learn(key(victim, i), victim, 1)
		f.learn(key(attacker, i), attacker, 1)
	}
	const forged = 20_000
	for second := range uint32(5) {
		for i := range stations { // they speak
			f.learn(key(victim, i), victim, 2+second)
			f.learn(key(attacker, i), attacker, 2+second)
		}
		for i := range forged / 5 {
			f.learn(key(9, int(second)*forged/5+i), attacker, 2+second)
		}
	}
	for i := range stations {
		f.learn(key(late, i), late, 7)
	}
	found := func(port int) (n int) {
		for i := range stations {
			if b, _, e := f.find(f.mix(key(port, i))); b != nil && f.port(e) == uint16(port) {
				n++
			}
		}
		return n
	}
	if found(victim) != stations || found(late) != stations {
		t.Errorf("of %d stations each, %d are left on another port, and %d new ones were learned", stations, found(victim), found(late))
	}
	// Eight are compared, of some 15 forged ones to each honest one, of an older second almost always.
	if n := found(attacker); n < stations*9/10 {
		t.Errorf("of %d stations that speak on the attacker's port, %d are left", stations, n)
	}
	if f.full.Load() != 0 || f.evicted.Load() == 0 {
		t.Errorf("%d refused, %d evicted", f.full.Load(), f.evicted.Load())
	}
}
