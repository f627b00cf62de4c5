package l2

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

const second = int64(1e9)

// stormBatch fills a batch with packets from a port: so many to all, to a group,
// to a station that nobody knows, and to one behind p1.
func stormBatch(t testing.TB, b *packet.Batch, now int64, port uint16, broadcast, multicast, unknown, known int) {
	t.Helper()
	b.Now = now
	for _, kind := range []struct {
		n     int
		to    MAC
		flags packet.Flags
	}{
		{broadcast, MAC{255, 255, 255, 255, 255, 255}, packet.FlagBroadcast},
		{multicast, MAC{1, 0, 0x5e, 0, 0, 1}, 0},
		{unknown, stationMAC(99), 0},
		{known, stationMAC(7), 0},
	} {
		for range kind.n {
			addPacket(t, b, port, ether(kind.to, stationMAC(1), 0x0800, 60)).Flags |= kind.flags
		}
	}
}

// leaves counts what a batch sends, copies included, and what it drops as a storm.
func leaves(b *packet.Batch) (sent, storm int) {
	for i := range b.Pkts {
		switch b.Pkts[i].Reason {
		case 0:
			sent++
		case ReasonStorm:
			storm++
		}
	}
	return sent, storm
}

func stormModule(t testing.TB, storms ...Storm) (*Module, *stage) {
	c := DefaultConfig()
	c.Storms = storms
	c.Static = []Static{{MAC: stationMAC(7).String(), Port: "p1"}}
	m := newModule(t, c, "p0", "p1")
	return m, m.Stage(0).(*stage)
}

// TestStorm: each kind has a limit of its own, and known stations have none.
func TestStorm(t *testing.T) {
	m, s := stormModule(t, Storm{Port: "p0", Broadcast: 1000, Unknown: 20})
	b := newBatch(t, 128)
	for i, tt := range []struct {
		at                                   int64 // ns behind the beginning
		port                                 uint16
		broadcast, multicast, unknown, known int
		storm                                int
	}{
		{0, 0, 40, 10, 5, 5, 0},
		{0, 0, 60, 0, 0, 0, 0},                    // the burst, a tenth of a second's
		{0, 0, 1, 10, 5, 40, 1},                   // and not one more; of unknown ones ten
		{0, 0, 0, 0, 1, 10, 1},                    // nor of these
		{0, 1, 64, 0, 0, 0, 0},                    // another port
		{10e6 - 1, 0, 10, 0, 1, 0, 2},             // nine more; unknown ones come each 50 ms
		{10e6, 0, 2, 0, 0, 0, 1},                  // the tenth
		{50e6, 0, 0, 0, 2, 0, 1},                  //
		{5 * second, 0, 64, 0, 0, 0, 0},           // full again
		{5 * second, 0, 64, 0, 0, 0, 28},          // and no more than full
		{second, 0, 64, 0, 0, 0, 64},              // a step back empties it
		{second + second/100, 0, 30, 0, 0, 0, 20}, // and does not stop it
		{1e6 * second, 0, 60, 0, 0, 0, 0},         // a step ahead fills it
	} {
		stormBatch(t, b, 100*second+tt.at, tt.port, tt.broadcast, tt.multicast, tt.unknown, tt.known)
		all := len(b.Pkts)
		s.Process(b)
		sent, storm := leaves(b)
		if storm != tt.storm || sent+storm != all {
			t.Errorf("step %d: %d of %d sent, %d dropped, want %d", i, sent, all, storm, tt.storm)
		}
		release(b)
	}
	want := [stormKinds]uint64{1 + 1 + 1 + 28 + 64 + 20, 0, 1 + 1 + 1}
	if got := m.Counters().Storm; got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// TestStormBounds offers more than the limit at random times and compares what
// passes with the rate: never more than the burst and what the time gives, and
// less by no more than a packet, and a nanosecond of rounding for each call.
func TestStormBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []int{1, 3, 10, 999, 1_000_003, 77_777_777, maxStorm} {
		var k stormLimit
		k.set(rate)
		burst := uint64(max(rate/10, stormBurst))
		now := 1_800_000_000 * second
		begin, passed, calls := now, k.take(now, burst+1), uint64(1)
		for range 20_000 {
			now += random.Int64N(2*second/int64(rate) + 100)
			// More than the bucket can hold: it is always emptied.
			passed += k.take(now, burst+uint64(rate))
			calls++
			given := burst + uint64(float64(now-begin)*float64(rate)/1e9)
			slack := 1 + uint64(float64(calls)*float64(rate)/1e9)
			if passed > given+1 || passed+slack+1 < given {
				t.Fatalf("rate %d: %d passed in %d ns, want %d", rate, passed, now-begin, given)
			}
		}
	}
}

// TestStormShared: workers that take at once share one limit.
func TestStormShared(t *testing.T) {
	var k stormLimit
	k.set(1_000_000)
	var passed [4]uint64
	var all sync.WaitGroup
	for w := range passed {
		all.Go(func() {
			for i := range int64(10_000) {
				passed[w] += k.take(100*second+i*100, 3)
			}
		})
	}
	all.Wait()
	sum := passed[0] + passed[1] + passed[2] + passed[3]
	// 100,000 at once, and one per microsecond of the millisecond that passes.
	if most := uint64(100_000 + 1_000); sum > most || sum < 100_000 {
		t.Errorf("%d passed, want 100000 to %d", sum, most)
	}
}

// TestStormDoesNotAllocate, in batches that are within the limit and beyond.
func TestStormDoesNotAllocate(t *testing.T) {
	_, s := stormModule(t, Storm{Port: "p0", Broadcast: 100, Multicast: 100, Unknown: 100})
	b := newBatch(t, 128)
	now := 100 * second
	if n := testing.AllocsPerRun(100, func() {
		now += 1e7
		b.Now = now
		for i := range 64 {
			addr, _ := b.Frames.AllocOne()
			p := b.Append()
			p.Addr, p.Len, p.WireLen, p.L3 = addr+testHeadroom, 60, 60, 14
			p.Flags = []packet.Flags{packet.FlagBroadcast, packet.FlagMulticast, 0}[i%3]
			b.Mem[p.Addr] = 1
		}
		s.Process(b)
		release(b)
	}); n != 0 {
		t.Errorf("a batch allocates %v times", n)
	}
}
