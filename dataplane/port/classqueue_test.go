package port

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// line of a device that the test drains: it takes packets as long as it has room, and notes each by class and number.
type drained struct {
	Queue
	frames *packet.Cache
	room   int
	depth  int
	seen   []sent
}

type sent struct {
	number uint32
	length int64
}

func (d *drained) Depth() int             { return d.depth }
func (d *drained) Refusal() packet.Reason { return packet.ReasonTxFull }

func (d *drained) Transmit(b *packet.Batch, idx []uint16) int {
	n := min(len(idx), d.room)
	d.room -= n
	for _, i := range idx[:n] {
		p := &b.Pkts[i]
		d.seen = append(d.seen, sent{number: p.FlowHash, length: int64(p.WireLen)})
		d.frames.FreePacket(p)
	}
	return n
}

// classed is a queue with classes on a clock, a device and packets of the test.
type classed struct {
	*classQueue
	t      *testing.T
	device *drained
	pool   *packet.Pool
	cache  *packet.Cache
	b      *packet.Batch
	idx    []uint16
	now    int64
	number uint32
}

func newClassed(t *testing.T, c Config, frames int) *classed {
	t.Helper()
	c.Name, c.Interface = "p0", "p0"
	check(t, c.Validate())
	pool, err := packet.NewPool(packet.PoolConfig{Frames: frames, FrameSize: 2048, Audit: true})
	check(t, err)
	t.Cleanup(func() { check(t, pool.Close()) })
	q := &classed{t: t, pool: pool, cache: pool.NewCache(), now: 1e18}
	q.b = packet.NewBatch(q.cache, packet.BatchSize)
	q.device = &drained{Queue: Down(), frames: q.cache}
	s := newShaper(&c, 1514)
	s.clock = func() int64 { return q.now }
	q.classQueue = s.shape(q.device, q.cache).(*classQueue)
	return q
}

// add adds an IPv4 packet with a DSCP to the batch.
func (q *classed) add(dscp int, length int) {
	q.t.Helper()
	addr, ok := q.cache.AllocOne()
	if !ok {
		q.t.Fatal("no free frame")
	}
	p := q.b.Append()
	p.Addr, p.Len, p.WireLen = addr+Headroom, uint32(min(length, 1500)), uint32(length)
	p.Flags, p.L3, p.FlowHash = packet.FlagIPv4, 14, q.number
	q.number++
	q.b.Mem[p.Addr+14], q.b.Mem[p.Addr+15] = 0x45, byte(dscp<<2)
	q.idx = append(q.idx, uint16(len(q.b.Pkts)-1))
}

// send offers the batch, as a worker does, and returns the numbers of the packets that were dropped.
func (q *classed) send() (dropped []uint32) {
	taken := q.Transmit(q.b, q.idx)
	for taken < len(q.idx) {
		q.Service()
		n := q.Transmit(q.b, q.idx[taken:])
		if n == 0 {
			break
		}
		taken += n
	}
	q.Dropped(q.b, q.idx[taken:])
	for _, i := range q.idx[taken:] {
		dropped = append(dropped, q.b.Pkts[i].FlowHash)
		q.cache.FreePacket(&q.b.Pkts[i])
	}
	q.b.Reset()
	q.idx = q.idx[:0]
	return dropped
}

// finish closes the queue: all frames are back, and each class adds up.
func (q *classed) finish() {
	q.t.Helper()
	total, waiting := uint64(0), 0
	for _, c := range q.AppendClasses(nil) {
		if c.Packets != c.Sent+c.Dropped+c.Depth {
			q.t.Errorf("%+v does not add up", c)
		}
		total += c.Packets
		waiting += int(c.Depth)
	}
	if total != uint64(q.number) {
		q.t.Errorf("%d packets are counted, %d were sent", total, q.number)
	}
	rest, err := q.Close()
	check(q.t, err)
	q.cache.Close()
	if census := q.pool.Census(); q.pool.Free() != q.pool.Frames() || census.Faults != 0 || rest.Unsent != waiting {
		q.t.Errorf("%+v, %d unsent of %d", census, rest.Unsent, waiting)
	}
}

// four are two strict classes and two with weights 3 and 1, of DSCP 0 to 3.
func four() Config {
	c := DefaultConfig()
	c.Classes = []Class{
		{Name: "best", DSCP: []string{"0"}, Weight: 1, Default: true},
		{Name: "voice", DSCP: []string{"1"}},
		{Name: "bulk", DSCP: []string{"2"}, Weight: 3},
		{Name: "video", DSCP: []string{"3"}},
	}
	return c
}

// TestStrict: the strict class that is listed first leaves first, then the next one, whatever waits.
func TestStrict(t *testing.T) {
	q := newClassed(t, four(), 512)
	for range 10 {
		for dscp := range 4 {
			q.add(dscp, 1000)
		}
	}
	q.send()
	q.device.room = 25
	q.Service()
	for i, s := range q.device.seen {
		if dscp := s.number % 4; i < 10 && dscp != 1 || i >= 10 && i < 20 && dscp != 3 || i >= 20 && (dscp == 1 || dscp == 3) {
			t.Errorf("packet %d to leave has DSCP %d", i, dscp)
		}
	}
	q.add(1, 1000) // it goes before all that wait
	q.device.room = 1
	q.send()
	if last := q.device.seen[25]; last.number != 40 {
		t.Errorf("packet %d left before the strict one", last.number)
	}
	q.finish()
}

// TestWeights: while two classes wait, what they send by weight differs, in each interval, by no more than deficit round robin may (Shreedhar and
// Varghese, lemma 2): a round of each, and a longest packet. With 3 : 1 that is 2 * 1514 bytes of the smaller one.
func TestWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	q := newClassed(t, four(), 1024)
	dscpOf := map[uint32]int{}
	fill := func() {
		for i, dscp := range []int{0, 2} { // as they are ordered, behind the two strict ones
			for q.turn.held[2+i] < 40 {
				dscpOf[q.number] = dscp
				q.add(dscp, 60+r.IntN(1455))
				q.send()
			}
		}
	}
	var bytes [4]int64
	least, most := int64(0), int64(0) // of what best has sent beyond a third of bulk's
	for range 10_000 {
		fill()
		q.device.room = 1 + r.IntN(3)
		q.Service()
		q.device.room = 0
		for _, s := range q.device.seen {
			bytes[dscpOf[s.number]] += s.length
			ahead := bytes[0] - bytes[2]/3
			least, most = min(least, ahead), max(most, ahead)
		}
		q.device.seen = q.device.seen[:0]
	}
	t.Logf("%d and %d bytes: %.4f to 1; best was %d bytes behind its share, and %d ahead of it", bytes[2], bytes[0], float64(bytes[2])/float64(bytes[0]), -least, most)
	if most-least > 1514+1514+2*1514 {
		t.Errorf("the shares were up to %d bytes apart", most-least)
	}
	q.finish()
}

// twin is a plain scheduler: a slice per class, in the order strict, then weights, and one packet at a time.
type twin struct {
	strict  int
	weight  []int64
	packets []int   // limits
	bytes   []int64 // 0: none
	waits   [][]sent
	deficit []int64
	at      int
	has     bool
}

func (w *twin) offer(class int, s sent, closed []bool) bool {
	size := int64(0)
	for _, p := range w.waits[class] {
		size += p.length
	}
	n := len(w.waits[class])
	if closed[class] || n == w.packets[class] || w.bytes[class] != 0 && n != 0 && size+s.length > w.bytes[class] {
		closed[class] = true
		return false
	}
	w.waits[class] = append(w.waits[class], s)
	return true
}

func (w *twin) take(class int) sent {
	s := w.waits[class][0]
	w.waits[class] = w.waits[class][1:]
	return s
}

func (w *twin) leave() (s sent, ok bool) {
	total := 0
	for class, line := range w.waits {
		if class < w.strict && len(line) > 0 {
			return w.take(class), true
		}
		total += len(line)
	}
	if total == 0 {
		return s, false
	}
	least := slices.Min(w.weight[w.strict:])
	for {
		class := w.strict + w.at
		if len(w.waits[class]) > 0 {
			if !w.has {
				w.deficit[class] += 1514 * w.weight[class] / least
				w.has = true
			}
			if first := w.waits[class][0]; first.length <= w.deficit[class] {
				w.deficit[class] -= first.length
				if s = w.take(class); len(w.waits[class]) == 0 {
					w.deficit[class] = 0
					w.next()
				}
				return s, true
			}
		}
		w.next()
	}
}

func (w *twin) next() {
	w.has = false
	w.at = (w.at + 1) % (len(w.weight) - w.strict)
}

// TestTwin: what leaves, in which order, and what is dropped, is what a plain scheduler says, with random classes, loads, rooms and refusals
// of the device.
func TestTwin(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(2, seed))
		c := DefaultConfig()
		w := &twin{}
		n := 1 + r.IntN(packet.MaxClasses)
		w.strict = r.IntN(n + 1)
		for i := range n {
			k := Class{Name: fmt.Sprint(i), DSCP: []string{fmt.Sprint(i)}, QueuePackets: 1 + r.IntN(100)}
			if r.IntN(2) == 0 {
				k.QueueBytes = minQueueBytes + r.Int64N(50_000)
			}
			if i >= w.strict {
				k.Weight = 1 + r.IntN(20)
			}
			w.weight, w.packets, w.bytes = append(w.weight, int64(k.Weight)), append(w.packets, k.QueuePackets), append(w.bytes, k.QueueBytes)
			c.Classes = append(c.Classes, k)
		}
		w.waits, w.deficit = make([][]sent, n), make([]int64, n)
		q := newClassed(t, c, 2048)
		q.device.seen = make([]sent, 0, 64)
		var want []sent
		for step := range 1000 {
			// The device refuses some of what it is offered, or has no room to be offered anything.
			q.device.room, q.device.depth = r.IntN(40), 0
			if r.IntN(4) == 0 {
				q.device.depth = aheadFrames - r.IntN(3)
			}
			room := min(q.device.room, aheadFrames-q.device.depth)
			if q.device.depth != 0 {
				q.device.room = room // Depth of this device does not grow
			}
			closed := make([]bool, n)
			var refused []sent
			var classOf []int
			for range r.IntN(packet.BatchSize + 1) {
				class, s := r.IntN(n), sent{number: q.number, length: int64(60 + r.IntN(1455))}
				q.add(class, int(s.length))
				if !w.offer(class, s, closed) {
					refused, classOf = append(refused, s), append(classOf, class)
				}
			}
			leave := func() {
				for room > 0 {
					s, ok := w.leave()
					if !ok {
						return
					}
					want = append(want, s)
					room--
				}
			}
			leave()
			// What was refused is offered again as long as some of it is taken.
			var dropped []uint32
			for len(refused) > 0 {
				leave()
				closed = make([]bool, n)
				again, againOf := []sent(nil), []int(nil)
				for i, s := range refused {
					if !w.offer(classOf[i], s, closed) {
						again, againOf = append(again, s), append(againOf, classOf[i])
					}
				}
				leave()
				if len(again) == len(refused) {
					for _, s := range again {
						dropped = append(dropped, s.number)
					}
					break
				}
				refused, classOf = again, againOf
			}
			if got := q.send(); !slices.Equal(got, dropped) {
				t.Fatalf("seed %d, step %d: dropped %v, want %v", seed, step, got, dropped)
			}
			q.Service()
			leave()
			if !slices.Equal(q.device.seen, want) {
				t.Fatalf("seed %d, step %d: left %v, want %v", seed, step, q.device.seen, want)
			}
			q.device.seen, want = q.device.seen[:0], want[:0]
			for class := range n {
				if int(q.turn.held[class]) != len(w.waits[class]) {
					t.Fatalf("seed %d, step %d: %d wait in class %d, want %d", seed, step, q.turn.held[class], class, len(w.waits[class]))
				}
			}
		}
		q.finish()
	}
}

// TestClassRates: a port's rate and that of a class are kept to the byte: at most what the bucket holds and the time gives, and at least what the time
// gives, but for a packet, while packets wait.
func TestClassRates(t *testing.T) {
	c := four()
	c.RateBits = 8_000_000
	c.Classes[1].RateBits, c.Classes[2].RateBits = 2_000_000, 1_000_000 // voice, bulk
	q := newClassed(t, c, 2048)
	r := rand.New(rand.NewPCG(3, 1))
	dscpOf := map[uint32]int{}
	var bytes [4]int64
	begin := q.now
	for range 4000 {
		for dscp, line := range map[int]int{0: 2, 1: 0, 2: 3} {
			for q.turn.held[line] < 30 {
				dscpOf[q.number] = dscp
				q.add(dscp, 60+r.IntN(1455))
				q.send()
			}
		}
		q.device.room = packet.BatchSize
		for q.device.room == packet.BatchSize {
			q.device.room = 1 + r.IntN(8) // it also refuses what has its tokens already
			left := len(q.device.seen)
			q.Service()
			if len(q.device.seen) == left {
				break
			}
			q.device.room = packet.BatchSize
		}
		for _, s := range q.device.seen {
			bytes[dscpOf[s.number]] += s.length
		}
		q.device.seen = q.device.seen[:0]
		q.now += r.Int64N(1e6)
		// The bucket is as long as two packets, so it is full before 3 ms.
		ms := float64(q.now-begin) / 1e6
		for _, k := range []struct {
			name string
			sent int64
			rate float64 // bytes per ms
		}{{"the port", bytes[0] + bytes[1] + bytes[2] + bytes[3], 1000}, {"voice", bytes[1], 250}, {"bulk", bytes[2], 125}} {
			const burst, slack = 2 * 1514, 1514 + 1000 // a packet, and the last millisecond
			if most, least := ms*k.rate+burst, ms*k.rate-slack; float64(k.sent) > most || float64(k.sent) < least {
				t.Fatalf("in %.1f ms %s sent %d bytes, want %.0f to %.0f", ms, k.name, k.sent, least, most)
			}
		}
	}
	t.Logf("%v bytes by DSCP in %d ms", bytes, (q.now-begin)/1e6)
	q.device.room = 1 << 30
	for q.Service() {
		q.now += 1e6
	}
	q.finish()
}

// TestFlood: a class whose packets do not leave holds as many frames as it may, however many come and however they are made. All others are there for other
// classes and ports, and a packet of another class is first.
func TestFlood(t *testing.T) {
	c := four()
	for i := range c.Classes {
		c.Classes[i].QueuePackets = 50
	}
	const others = packet.BatchSize
	q := newClassed(t, c, c.Held()+others) // all of which a queue may hold, and a batch
	for range 200 {
		for range others {
			q.add(2, 1000)
		}
		q.send()
	}
	if q.Depth() != 50 || q.Refusal() != reasonQueueFull {
		t.Errorf("%d frames wait, refused for %v", q.Depth(), q.Refusal())
	}
	// Packets of three frames count as three.
	for range 5 {
		for range 20 {
			q.add(0, 4000)
			p := &q.b.Pkts[len(q.b.Pkts)-1]
			for range 2 {
				addr, ok := q.cache.AllocOne()
				if !ok {
					t.Fatal("no free frame")
				}
				p.Next = q.pool.Link(addr, 1250, p.Next)
			}
		}
		q.send()
	}
	if q.Depth() != 50+48 {
		t.Errorf("%d frames wait, want 98", q.Depth())
	}
	q.add(1, 100)
	q.device.room = 1
	if dropped := q.send(); dropped != nil || q.device.seen[0].number != q.number-1 {
		t.Errorf("the strict packet was not the first: %v", q.device.seen)
	}
	var w Waiting
	if q.Waiting(&w); w.Held != [packet.MaxClasses]uint32{0, 0, 48, 50} || w.Joined[0] != 1 || w.Left != 1 || w.Ahead != 0 {
		t.Errorf("%+v", w)
	}
	q.finish()
}

// TestClassesDoNotAllocate covers packets that pass, that wait, that are dropped, and that the device refuses.
func TestClassesDoNotAllocate(t *testing.T) {
	c := four()
	c.RateBits = 8_000_000
	c.Classes[1].RateBits = 1_000_000
	for i := range c.Classes {
		c.Classes[i].QueuePackets = 4
	}
	q := newClassed(t, c, 512)
	q.device.seen = make([]sent, 0, 1<<16)
	var dropped [packet.BatchSize]uint16
	lost := 0
	if n := testing.AllocsPerRun(300, func() {
		q.now += 2e6
		q.device.room = 2
		for k := range 16 {
			q.add(k&3, 1000)
		}
		taken := q.Transmit(q.b, q.idx)
		lost += copy(dropped[:], q.idx[taken:])
		q.Dropped(q.b, q.idx[taken:])
		for _, i := range q.idx[taken:] {
			q.cache.FreePacket(&q.b.Pkts[i])
		}
		q.b.Reset()
		q.idx = q.idx[:0]
		q.Service()
	}); n != 0 || lost == 0 || len(q.device.seen) == 0 {
		t.Errorf("a batch allocates %v times; %d packets were dropped, %d sent", n, lost, len(q.device.seen))
	}
	q.finish()
}

// TestClassFaults: each fault of a port's classes is named by its key.
func TestClassFaults(t *testing.T) {
	for _, test := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(c *Config) { c.Classes = append(c.Classes, c.Classes...); c.Classes = append(c.Classes, Class{}) }, "class: 9 of them: a port has up to 8"},
		{func(c *Config) { c.Classes[1].Name = "a b" }, "class[1].name: \"a b\" is not a name"},
		{func(c *Config) { c.Classes[1].Name = "best" }, "class[1].name: class[0] is called \"best\" already"},
		{func(c *Config) { c.Classes[1].DSCP = []string{"ef", "64"} }, "class[1].dscp: \"64\" is no code point"},
		{func(c *Config) { c.Classes[1].DSCP = []string{"cs0"} }, "class[1].dscp: class[0] has \"cs0\" already"},
		{func(c *Config) { c.Classes[1].PCP = []int{8} }, "class[1].pcp: 8 is no priority"},
		{func(c *Config) { c.Classes[1].PCP, c.Classes[2].PCP = []int{5}, []int{5} }, "class[2].pcp: class[1] has 5 already"},
		{func(c *Config) { c.Classes[2].Default = true }, "class[2].default: class[0] has what is in no other already"},
		{func(c *Config) { c.Classes[2].Weight = 1001 }, "class[2].weight: 1001: choose 1 to 1000"},
		{func(c *Config) { c.Classes[2].RateBits = 1 }, "class[2].rate_bits: 1: choose 8000"},
		{func(c *Config) { c.Classes[2].QueuePackets = 1 << 17 }, "class[2].queue_packets: 131072: choose 1 to 65536"},
		{func(c *Config) { c.Classes[2].QueueBytes = 100 }, "class[2].queue_bytes: 100: choose 3036 or more"},
		{func(c *Config) { c.Driver, c.Interface, c.Name = DriverTunnel, "", "t" }, "class: a tunnel has no device"},
	} {
		c := four()
		c.Interface = "p0"
		test.change(&c)
		checkFault(t, c.Validate(), test.want)
	}
}

// BenchmarkClasses receives packets of a port of memory and sends them back, as they are, by a port with a rate that does not hold them, and by class.
func BenchmarkClasses(b *testing.B) {
	rate := Config{RateBits: maxRate}
	byClass := four()
	both := four()
	both.RateBits = maxRate
	for _, row := range []struct {
		name   string
		config *Config
	}{{"none", &Config{}}, {"rate", &rate}, {"class", &byClass}, {"class and rate", &both}} {
		b.Run(row.name, func(b *testing.B) {
			pool, err := packet.NewPool(packet.PoolConfig{Frames: 4096, FrameSize: 2048})
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			frame := make([]byte, 60)
			frame[14] = 0x45
			cache := pool.NewCache()
			memory, err := NewMemory("m", 1, [][]byte{frame}, 0).Open(0, 0, cache)
			if err != nil {
				b.Fatal(err)
			}
			q := newShaper(row.config, 1514).shape(memory, cache)
			batch := packet.NewBatch(cache, packet.BatchSize)
			idx := make([]uint16, packet.BatchSize)
			b.ReportAllocs()
			for b.Loop() {
				q.Receive(batch)
				for i := range batch.Pkts {
					p := &batch.Pkts[i]
					p.Flags, p.L3 = packet.FlagIPv4, 14
					batch.Mem[p.Addr+15] = byte(i & 3 << 2)
					idx[i] = uint16(i)
				}
				if q.Transmit(batch, idx) != len(idx) {
					b.Fatal("packets were refused")
				}
				batch.Reset()
				q.Service()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*packet.BatchSize), "ns/packet")
		})
	}
}
