package l2

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

func TestBucketIsOneCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(bucket{}); n != 64 {
		t.Fatalf("a bucket has %d bytes, want 64", n)
	}
	for _, n := range []int{1, 100, 1000, 16384, 100_000} {
		f := newFDB(n, 300, 1)
		if at := uintptr(unsafe.Pointer(&f.buckets[0])); at%64 != 0 {
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
	// 13107 and 52428 are the worst cases, 80 % full.
	for _, limit := range []int{1, 50, 200, 1000, 13107, 16384, 52428} {
		f := newFDB(limit, 300, rng.Uint64())
		keys := make([]uint64, limit)
		for i := range keys {
			keys[i] = rng.Uint64()&macMask&^macGroup | uint64(i)<<8&0xff00 | keyTag(uint16(i%4096))
			f.learn(keys[i], uint16(i), 1)
		}
		if got := f.entries.Load(); got != uint64(limit) || f.full.Load() != 0 {
			t.Fatalf("a table for %d holds %d, refused %d", limit, got, f.full.Load())
		}
		for i, k := range keys {
			if slot, v := f.find(k, hashKey(k, f.seed)); slot == nil || valuePort(v) != uint16(i) {
				t.Fatalf("limit %d: key %d found %v with port %d", limit, i, slot != nil, valuePort(v))
			}
		}
		more := keyTag(5) | 0x42
		f.learn(more, 1, 1)
		if slot, _ := f.find(more, hashKey(more, f.seed)); slot == nil || f.evicted.Load() != 1 || f.entries.Load() != uint64(limit) {
			t.Fatalf("limit %d: %d entries and %d evicted after one too many", limit, f.entries.Load(), f.evicted.Load())
		}
	}
}

// TestHashSpreadsConsecutiveAddresses counts, for many seeds, the keys of a full
// table that do not fit their first buckets, when the addresses follow each
// other. Balls thrown at random leave 11,000 (standard deviation about 80), so
// 12,500 are out of reach by luck.
func TestHashSpreadsConsecutiveAddresses(t *testing.T) {
	const keys, buckets, atMost = 100_000, 1 << 15, 12_500
	for seed := range uint64(200) {
		s := newHashSeed(seed)
		var load [buckets]uint8
		over := 0
		for i := range keys {
			b := &load[hashKey(makeKey(1, MAC{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}), s)%buckets]
			if *b++; *b > 4 {
				over++
			}
		}
		if over > atMost {
			t.Errorf("seed %d: %d of %d keys do not fit their first buckets, want at most %d", seed, over, keys, atMost)
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
					if slot, _ := f.find(k, hashKey(k, f.seed)); slot == nil {
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
			slot, v := f.find(key, hashKey(key, f.seed))
			e, ok := twin[key]
			if ok != (slot != nil) || ok && (valuePort(v) != e.port || valueStamp(v) != e.stamp) {
				t.Fatalf("step %d: found %v %#x, want %v %+v", step, slot != nil, v, ok, e)
			}
			if ok && rng.IntN(2) == 0 {
				refresh(slot, v, now)
				twin[key] = entry{e.port, now}
			}
		}
		if got := f.entries.Load(); got != uint64(len(twin)+1) {
			t.Fatalf("step %d: %d entries, want %d", step, got, len(twin)+1)
		}
	}
	if _, v := f.find(static, hashKey(static, f.seed)); !isStatic(v) || valuePort(v) != 77 {
		t.Fatalf("the static entry became %#x", v)
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
	if _, v := f.find(key, hashKey(key, f.seed)); valueStamp(v) != 500 {
		t.Fatalf("stamp %d, want 500", valueStamp(v))
	}
	if f.age(505); f.entries.Load() != 1 {
		t.Fatal("aged too early")
	}
	if f.age(506); f.entries.Load() != 0 {
		t.Fatal("did not age from the new time on")
	}
}

// TestReadersAndWriter reads a table that a writer turns over. Half of the keys
// stay in the table throughout, in changing slots: readers must never miss one.
// The others come and go: readers must never see another key's port.
func TestReadersAndWriter(t *testing.T) {
	const limit = 204 // 80 % of the slots, so entries must move
	f := newFDB(limit, 300, 5)
	port := func(k uint64) uint16 { return uint16(k >> 32) }
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
				slot, v, missed := findMovable(f, k, hashKey(k, f.seed))
				if missed && i < stable {
					t.Errorf("missed key %d, which is in the table", i)
					return
				}
				if slot == nil {
					continue
				}
				if valuePort(v) != port(k) {
					t.Errorf("key %d has port %d, want %d", i, valuePort(v), port(k))
					return
				}
				refresh(slot, v, rng.Uint32()|1)
			}
		})
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range writes {
		k := key(stable + rng.IntN(7*stable))
		f.learn(k, port(k), 1)
		for f.entries.Load() >= limit-1 { // a full table would evict the stable ones, too
			victim := uint16(rng.IntN(1 << 16)) // and the like, of four classes
			f.each(func(slot, val *atomic.Uint64) {
				k := slot.Load()
				if int(keyMAC(k)[1])|int(keyMAC(k)[2])<<8 >= stable && (uint16(k>>20)^victim)&3 == 0 {
					f.remove(slot, val.Load())
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
func findMovable(f *fdb, key, h uint64) (slot *atomic.Uint64, v uint64, missed bool) {
	moves := f.moves.Load()
	slot, v = f.find(key, h)
	return slot, v, slot == nil && f.moves.Load()-moves < maxRetries
}

// TestFindWhileMoving moves one entry to and fro between its buckets: whoever
// looks for it must find it.
func TestFindWhileMoving(t *testing.T) {
	f := newFDB(10, 300, 5)
	key := makeKey(0, stationMAC(1))
	h := hashKey(key, f.seed)
	f.learn(key, 7, 1)
	here := f.first(h)
	from, to := &f.buckets[here], &f.buckets[f.other(h, here)]
	untilDone(t, func(i int) {
		f.move(from, 0, to, i%4)
		f.move(to, i%4, from, 0)
	}, func() bool {
		slot, v, missed := findMovable(f, key, h)
		if missed || slot != nil && valuePort(v) != 7 {
			t.Errorf("missed %v, port %d", missed, valuePort(v))
			return false
		}
		return true
	})
}

// TestFindWhileReused gives one slot to ever new keys, all with the same check,
// so that nothing but the order of loads and stores tells their values apart.
func TestFindWhileReused(t *testing.T) {
	f := newFDB(10, 300, 5)
	const h = 0
	var current atomic.Uint64
	b := &f.buckets[0]
	untilDone(t, func(i int) {
		b.keys[2].Store(0)
		b.fill(2, keyPresent|uint64(i), makeValue(1, checkOf(h), uint16(i)))
		current.Store(uint64(i))
	}, func() bool {
		// The key that stands there, and the one that comes next.
		for i := current.Load(); i < current.Load()+2; i++ {
			if slot, v := f.find(keyPresent|i, h); slot != nil && valuePort(v) != uint16(i) {
				t.Errorf("key %d has the value of %d", uint16(i), valuePort(v))
				return false
			}
		}
		return true
	})
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
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !done.Load() && read() {
			reads++
		}
	}()
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
	f := newFDB(limit, 300, 5)
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
			if slot, v := f.find(key(port, i), hashKey(key(port, i), f.seed)); slot != nil && valuePort(v) == uint16(port) {
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
