package port

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// numbered is a device that takes packets as long as it has room, and notes the number that each has in memory. Another process can go on with it.
type numbered struct {
	Queue
	unshared
	frames *packet.Cache
	room   int
	depth  int
	seen   []uint32
	bytes  int64
}

func (d *numbered) Depth() int             { return d.depth }
func (d *numbered) Refusal() packet.Reason { return packet.ReasonTxFull }

func (d *numbered) Transmit(b *packet.Batch, idx []uint16) int {
	n := min(len(idx), d.room)
	d.room -= n
	for _, i := range idx[:n] {
		p := &b.Pkts[i]
		at := func(addr uint64) uint32 { // what another process has made up may be at the end of memory
			return binary.BigEndian.Uint32(b.Mem[min(addr, uint64(len(b.Mem)-4)):])
		}
		number := at(p.Addr + numberAt)
		for k, link := 1, p.Next; link != 0; k++ { // the frames are its own, in their order
			addr, _, next := b.Pool().Next(link)
			if got := at(addr); got != number+uint32(k) {
				number = ^uint32(0)
				break
			}
			link = next
		}
		d.seen = append(d.seen, number)
		d.bytes += int64(p.WireLen)
		d.frames.FreePacket(p)
	}
	return n
}

const numberAt = 40 // behind the headers

// possessed is a queue as a process has it: with its view of the packet memory.
type possessed struct {
	Queue
	device *numbered
	pool   *packet.Pool
	cache  *packet.Cache
	shaper *shaper
}

const possessedFrames = 2048

// possess makes the queue of a configuration over new memory, or that of another process.
func possess(t testing.TB, c Config, now *int64, theirs *packet.Pool) *possessed {
	t.Helper()
	pc := packet.PoolConfig{Frames: possessedFrames, FrameSize: 2048, Audit: true, Shared: true}
	if theirs != nil {
		pc.File = theirs.File()
	}
	q := &possessed{}
	var err error
	if q.pool, err = packet.NewPool(pc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.pool.Close() })
	q.cache = q.pool.NewCache()
	q.device = &numbered{Queue: Down(), frames: q.cache}
	q.shaper = newShaper(&c, 1514)
	q.shaper.clock = func() int64 { return *now }
	q.Queue = q.shaper.shape(q.device, q.cache)
	return q
}

// takeOver has another process go on with the queue, and ends this one's.
func (q *possessed) takeOver(t testing.TB, c Config, now *int64) *possessed {
	t.Helper()
	from := q.Queue.(Movable)
	state, err := from.AppendState(nil)
	check(t, err)
	next := possess(t, c, now, q.pool)
	to := next.Queue.(Movable)
	frames, err := to.Enter(state)
	check(t, err)
	if own := from.Frames(nil); !slices.Equal(own, frames) {
		t.Fatalf("frames %v are handed over, and %v are taken", own, frames)
	}
	next.pool.Release(func(f int) bool { return slices.Contains(frames, uint32(f)) })
	next.device.room, next.device.depth = q.device.room, q.device.depth
	to.Begin()
	if own := to.Frames(nil); len(own) != len(frames) {
		t.Fatalf("%d frames were taken, and %d wait", len(frames), len(own))
	}
	if next.Depth() != q.Depth() {
		t.Errorf("%d frames wait, and %d did", next.Depth(), q.Depth())
	}
	from.Leave()
	q.closed(t, 0)
	return next
}

// closed closes the queue, in which so many packets wait: all frames are free, and the classes add up.
func (q *possessed) closed(t testing.TB, unsent int) {
	t.Helper()
	if c, ok := q.Queue.(Classed); ok {
		for _, k := range c.AppendClasses(nil) {
			if k.Packets != k.Sent+k.Dropped+k.Depth {
				t.Errorf("%+v does not add up", k)
			}
		}
	}
	rest, err := q.Close()
	check(t, err)
	if rest.Unsent != unsent {
		t.Errorf("%d packets are left, and not %d", rest.Unsent, unsent)
	}
	q.cache.Close()
	if census := q.pool.Census(); q.pool.Free() != possessedFrames || census.Faults != 0 {
		t.Errorf("%d frames are free: %+v", q.pool.Free(), census)
	}
}

// offered is a packet of a test: all that two queues need to have the same one.
type offered struct {
	number uint32
	dscp   int
	length int
	pieces int
}

// offer offers packets, and returns the numbers of those that were taken.
func (q *possessed) offer(t testing.TB, all []offered) (numbers []uint32) {
	t.Helper()
	b := packet.NewBatch(q.cache, packet.BatchSize)
	var idx []uint16
	for i, a := range all {
		addrs := make([]uint64, a.pieces)
		if q.cache.Alloc(addrs) != len(addrs) {
			t.Fatal("no free frame")
		}
		p := b.Append()
		each := a.length / a.pieces
		p.Addr, p.Len, p.WireLen = addrs[0]+Headroom, uint32(each), uint32(each*a.pieces)
		p.Flags, p.L3 = packet.FlagIPv4, 14
		b.Mem[p.Addr+14], b.Mem[p.Addr+15] = 0x45, byte(a.dscp<<2)
		binary.BigEndian.PutUint32(b.Mem[p.Addr+numberAt:], a.number)
		for k := a.pieces - 1; k > 0; k-- {
			binary.BigEndian.PutUint32(b.Mem[addrs[k]:], a.number+uint32(k))
			p.Next = q.pool.Link(addrs[k], uint32(each), p.Next)
		}
		idx = append(idx, uint16(i))
	}
	n := q.Transmit(b, idx)
	for _, i := range idx[:n] {
		numbers = append(numbers, all[i].number)
	}
	if c, ok := q.Queue.(Classed); ok {
		c.Dropped(b, idx[n:])
	}
	for _, i := range idx[n:] {
		q.cache.FreePacket(&b.Pkts[i])
	}
	return numbers
}

func threeClasses() Config {
	c := DefaultConfig()
	c.Name, c.Interface, c.RateBits = "p0", "p0", 50_000_000
	c.Classes = []Class{
		{Name: "rest", Default: true, Weight: 2, QueuePackets: 40},
		{Name: "voice", DSCP: []string{"ef"}, RateBits: 20_000_000, QueuePackets: 16},
		{Name: "bulk", DSCP: []string{"af11"}, Weight: 5, QueuePackets: 64, QueueBytes: 40_000},
		{Name: "video", DSCP: []string{"af41"}, Weight: 1, QueuePackets: 8, RateBits: 30_000_000},
	}
	return c
}

func oneRate() Config {
	c := DefaultConfig()
	c.Name, c.Interface, c.RateBits, c.QueuePackets = "p0", "p0", 50_000_000, 128
	return c
}

// TestWaitingTakenOver: of two queues with the same packets, clock and device, one is taken over by other processes at random moments. Both take, send and refuse the same
// packets in the same order, at the same times.
func TestWaitingTakenOver(t *testing.T) {
	for name, c := range map[string]Config{"classes": threeClasses(), "rate": oneRate()} {
		t.Run(name, func(t *testing.T) {
			check(t, c.Validate())
			random := rand.New(rand.NewPCG(3, 5))
			now := int64(1e18)
			stays := possess(t, c, &now, nil)
			moves := possess(t, c, &now, nil)
			var seen []uint32
			number, refused, takeovers, most := uint32(0), 0, 0, 0
			for range 4000 {
				now += random.Int64N(400_000)
				var all []offered
				for range random.IntN(5) {
					a := offered{number, []int{0, 46, 10, 34}[random.IntN(4)], 64 + random.IntN(1400), 1}
					if random.IntN(8) == 0 {
						a.pieces = 2 + random.IntN(3)
						a.length = 300 * a.pieces
					}
					number += uint32(a.pieces)
					all = append(all, a)
				}
				room, depth := random.IntN(12), random.IntN(300)
				stays.device.room, stays.device.depth = room, depth
				moves.device.room, moves.device.depth = room, depth
				if random.IntN(30) == 0 {
					seen = append(seen, moves.device.seen...)
					most = max(most, moves.Depth()-depth)
					moves = moves.takeOver(t, c, &now)
					takeovers++
				}
				a, b := stays.offer(t, all), moves.offer(t, all)
				if !slices.Equal(a, b) {
					t.Fatalf("%v were taken, and after takeovers %v", a, b)
				}
				refused += len(all) - len(a)
				stays.Service()
				moves.Service()
				if got, want := len(seen)+len(moves.device.seen), len(stays.device.seen); got != want {
					t.Fatalf("%d packets were sent, and after takeovers %d", want, got)
				}
			}
			seen = append(seen, moves.device.seen...)
			if !slices.Equal(seen, stays.device.seen) {
				t.Error("they were sent in another order")
			}
			if refused == 0 || most < 20 {
				t.Errorf("%d were refused, up to %d frames waited at a takeover: the queues were not full", refused, most)
			}
			t.Logf("%d packets, %d refused, %d takeovers with up to %d frames that waited", len(seen), refused, takeovers, most)
			for _, q := range []*possessed{stays, moves} {
				unsent := 0
				if k, ok := q.Queue.(*classQueue); ok {
					for _, n := range k.AppendClasses(nil) {
						unsent += int(n.Depth)
					}
				} else {
					s := q.Queue.(*shapedQueue)
					unsent = int(s.tail - s.head)
				}
				q.closed(t, unsent)
			}
		})
	}
}

// TestWaitingOtherClasses: a process with other classes, or with none, takes over what waits: each packet is sent once, those of a code point in their order, also where they
// are more than the new class has room for. Meanwhile that refuses others.
func TestWaitingOtherClasses(t *testing.T) {
	fewer := threeClasses()
	fewer.Classes = []Class{{Name: "small", QueuePackets: 4, DSCP: []string{"ef", "af11"}}, {Name: "rest", Weight: 1, QueuePackets: 4, Default: true}}
	small := oneRate()
	small.QueuePackets = 64
	for _, c := range []struct {
		name     string
		from, to Config
	}{{"fewer classes", threeClasses(), fewer}, {"no classes", threeClasses(), small}, {"classes come", oneRate(), fewer}, {"a shorter queue", oneRate(), small}} {
		t.Run(c.name, func(t *testing.T) {
			check(t, c.to.Validate())
			now := int64(1e18)
			q := possess(t, c.from, &now, nil)
			dscps := map[uint32]int{}
			var accepted []uint32
			for k := range uint32(200) {
				dscps[k] = []int{0, 46, 10, 34}[k%4]
				accepted = append(accepted, q.offer(t, []offered{{k, dscps[k], 1000, 1}})...)
			}
			next := q.takeOver(t, c.to, &now)
			if taken := next.offer(t, []offered{{1000, 46, 1000, 1}}); len(taken) != 0 {
				t.Error("a packet found room in a queue that has more than its room")
			}
			for next.device.room = 1000; next.Service(); now += 1e6 {
			}
			if len(next.device.seen) != len(accepted) || len(accepted) < 100 {
				t.Fatalf("%d packets waited, and %d were sent", len(accepted), len(next.device.seen))
			}
			last := map[int]uint32{}
			for _, n := range next.device.seen {
				if before, ok := last[dscps[n]]; ok && n <= before || !slices.Contains(accepted, n) {
					t.Errorf("packet %d of code point %d was sent behind %d, or was not there", n, dscps[n], before)
				}
				last[dscps[n]] = n
			}
			if taken := next.offer(t, []offered{{1000, 46, 1000, 1}}); len(taken) != 1 {
				t.Error("a packet found no room in an empty queue")
			}
			next.device.room = 1
			now += 1e9
			next.Service()
			next.closed(t, 0)
		})
	}
}

// TestWaitingRate: no more than the burst and what the rate gives leaves around takeovers.
func TestWaitingRate(t *testing.T) {
	for name, c := range map[string]Config{"classes": threeClasses(), "rate": oneRate()} {
		now := int64(1e18)
		q := possess(t, c, &now, nil)
		begin, sent, number := now, int64(0), uint32(0)
		burst := max(c.RateBits/8/500, 2*1514)
		for range 300 {
			for range 8 {
				q.offer(t, []offered{{number, 0, 1000, 1}})
				number++
			}
			q.device.room = 1000
			q.Service()
			sent += q.device.bytes
			q.device.bytes = 0
			if most := burst + (now-begin)*c.RateBits/8/1e9 + 1; sent > most {
				t.Fatalf("%s: %d bytes left in %d ns, and not %d", name, sent, now-begin, most)
			}
			now += 150_000
			q = q.takeOver(t, c, &now)
		}
		if least := (now - begin) * c.RateBits / 8 / 1e9 * 98 / 100; sent < least {
			t.Errorf("%s: %d bytes left in %d ns, and not %d: the rate was lost", name, sent, now-begin, least)
		}
	}
}

// TestWaitingRefused: what another process says of packets that wait is checked, and what it says wrongly named.
func TestWaitingRefused(t *testing.T) {
	now := int64(1e18)
	q := possess(t, threeClasses(), &now, nil)
	for range 2 {
		q.offer(t, []offered{{1, 46, 600, 2}, {3, 0, 100, 1}})
	}
	for range 100 { // beyond the burst
		q.offer(t, []offered{{9, 0, 1400, 1}})
	}
	good, err := q.Queue.(Movable).AppendState(nil)
	check(t, err)
	// Behind the kind, the empty state of the device, the level and the number of classes is the first class, "voice", and behind its name its level, its deficit and its packets.
	const head = 1 + 4 + 8 + 1
	const first = head + 1 + 5 + 8 + 8 + 4
	put := func(at int, bytes ...byte) func([]byte) []byte {
		return func(s []byte) []byte { copy(s[at:], bytes); return s }
	}
	if string(good[head+1:head+6]) != "voice" {
		t.Fatalf("the state is laid out otherwise: %q", good)
	}
	for _, c := range []struct {
		name, want string
		edit       func([]byte) []byte
	}{
		{"another kind", "without a rate or classes", put(0, 'S')},
		{"a device's state", "opened meanwhile", func(s []byte) []byte { s[4] = 1; return slices.Insert(s, 5, 'x') }},
		{"cut", "longer or shorter", func(s []byte) []byte { return s[:len(s)-1] }},
		{"cut in front", "classes", func(s []byte) []byte { return s[:head-1] }},
		{"longer", "longer or shorter", func(s []byte) []byte { return append(s, 0) }},
		{"too many classes", "9 classes", put(head-1, 9)},
		{"a deficit below zero", "a deficit of", put(first-12, 0xff)},
		{"a large deficit", "a deficit of", put(first-12, 0x0f)},
		{"more packets than frames", "packets in 2048 frames", put(first-4, 1)},
		{"an address beyond", "in no frame", put(first, 1)},
		{"beyond its frame", "in no frame", put(first+8, 0, 0, 0x08, 1)},
		{"a length that is shorter", "in 2 frames with", put(first+12, 0, 0, 0, 1)},
		{"a length that is too long", "in 2 frames with", put(first+12, 0, 4)},
		{"an IP header behind the end", "whose IP header", put(first+18, 0xff)},
		{"a turn beyond", "the turn of class", func(s []byte) []byte { s[len(s)-2] = 7; return s }},
	} {
		other := possess(t, threeClasses(), &now, q.pool)
		_, err := other.Queue.(Movable).Enter(c.edit(slices.Clone(good)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, and not %q", c.name, err, c.want)
		}
	}
	other := possess(t, threeClasses(), &now, q.pool)
	if _, err := other.Queue.(Movable).Enter(put(first+8, 0, 0, 0, 14)(slices.Clone(good))); err != nil {
		t.Errorf("a copy that mirror cut in front of its IP header: %v", err)
	}
	twice := slices.Clone(good)
	copy(twice[first+8+4+4+6+1:], good[first:first+8]) // the second frame of the packet is its first
	other = possess(t, threeClasses(), &now, q.pool)
	if _, err := other.Queue.(Movable).Enter(twice); err == nil || !strings.Contains(err.Error(), "in two packets") {
		t.Errorf("a frame that is in a packet twice: %v", err)
	}
	if _, err := other.Queue.(Movable).Enter(good); err != nil {
		t.Errorf("and the good state: %v", err)
	}
}

func FuzzWaitingState(f *testing.F) {
	now := int64(1e18)
	for _, c := range []Config{threeClasses(), oneRate()} {
		q := possess(f, c, &now, nil)
		for k := range uint32(30) {
			q.offer(f, []offered{{4 * k, []int{0, 46, 10, 34}[k%4], 900, 1 + int(k)%3}})
		}
		state, err := q.Queue.(Movable).AppendState(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(state)
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		for _, c := range []Config{threeClasses(), oneRate()} {
			now := int64(1e18)
			q := possess(t, c, &now, nil)
			m := q.Queue.(Movable)
			q.cache.Alloc(make([]uint64, possessedFrames)) // as a pool of another process's memory
			for i := range possessedFrames {
				q.pool.Adopt(uint64(i)*2048, packet.OwnerFree)
			}
			frames, err := m.Enter(state)
			if err != nil {
				return
			}
			seen := map[uint32]bool{}
			for _, f := range frames {
				if f >= possessedFrames || seen[f] {
					t.Fatalf("frame %d of %v", f, frames)
				}
				seen[f] = true
			}
			q.pool.Release(func(f int) bool { return seen[uint32(f)] })
			m.Begin()
			for q.device.room = 1 << 20; q.Service(); now += 1e9 {
			}
			q.closed(t, 0)
		}
	})
}
