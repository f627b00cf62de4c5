package node

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/vhost/frontend"
)

// TestHostileGuests: guests that write garbage into every field of their rings, split and packed, neither end the switch nor cost other ports a
// packet, and later guests are served. WEIR_GARBAGE is how many rounds there are (make garbage).
func TestHostileGuests(t *testing.T) {
	rounds := 50_000
	if testing.Short() {
		rounds = 5_000
	}
	if text := os.Getenv("WEIR_GARBAGE"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	g := startGuests(t, `"parse", "patch"`, "[stages.patch]\npairs = [[\"a\", \"b\"], [\"c\", \"d\"]]", 2, "a", "b", "c", "d")
	a, b := g.dial("a", 0), g.dial("b", 0)
	random := rand.New(rand.NewPCG(18, 3))
	const packed = 1 << 34
	var hostile [2]*frontend.Frontend
	connections, sent := 0, uint64(0)
	begin := func(i int) {
		c := frontend.DefaultConfig(g.socket([]string{"c", "d"}[i]))
		c.Descriptors = 64
		c.Features = []uint64{0, leaves | takes, packed, packed | leaves | takes}[random.UintN(4)]
		for deadline := time.Now().Add(largeLimit); ; {
			var err error
			if hostile[i], err = frontend.Dial(c); err == nil {
				connections++
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	begin(0)
	begin(1)
	defer func() {
		for _, f := range hostile {
			_ = f.Close()
		}
	}()
	for round := range rounds {
		i := round % 2
		f := hostile[i]
		for ring := range 2 {
			garbleRing(random, f, ring)
			f.Notify(ring)
		}
		if round%16 < 2 {
			runtime.Gosched()
			if f.Dismissed() || random.UintN(50) == 0 {
				check(t, f.Close())
				begin(i)
			}
		}
		if round%200 == 0 {
			for _, pair := range [][2]*frontend.Frontend{{a, b}, {b, a}} {
				p := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5, byte(round), byte(round >> 8), byte(round >> 16)}
				p = append(p, make([]byte, 60-len(p))...)
				buffer := pair[0].Senders[0].Next()
				pair[0].Senders[0].Send(frontend.HeaderSize + copy(buffer[frontend.HeaderSize:], p))
				pair[0].Senders[0].Flush()
				sent++
				if got := receive(t, pair[1].Receivers[0]); !bytes.Equal(got[frontend.HeaderSize:], p) {
					t.Fatalf("round %d: another packet arrived: % x", round, got)
				}
			}
		}
	}
	r := g.finish()
	if in := r.Ports[0].Received + r.Ports[1].Received; in != sent || len(r.Ports[0].Dropped)+len(r.Ports[1].Dropped) != 0 {
		t.Errorf("%d packets of the others arrived of %d; %v %v", in, sent, r.Ports[0].Dropped, r.Ports[1].Dropped)
	}
	c, d := r.Ports[2], r.Ports[3]
	t.Logf("%d rounds, %d connections; c: %d packets, %d and %d invalid, %d ring faults; d: %d, %d, %d, %d", rounds, connections,
		c.Received, c.RxInvalid, c.TxInvalid, c.RingFaults, d.Received, d.RxInvalid, d.TxInvalid, d.RingFaults)
	// How many rounds the workers see depends on the machine; each exchange of the others waits for them.
	if c.RxInvalid+d.RxInvalid+c.RingFaults+d.RingFaults == 0 {
		t.Error("the garbage has no effect")
	}
}

// garbleRing changes some fields of a ring, most of them so that the ring stays alive for a while.
func garbleRing(random *rand.Rand, f *frontend.Frontend, ring int) {
	b := f.RingBytes(ring)
	const avail = 16 * 64 // behind the descriptors
	b[avail+2] += byte(random.UintN(3))
	for range 4 {
		d := b[16*random.UintN(64):]
		switch random.UintN(6) {
		case 0: // an address in the guest's memory, mostly
			copy(d, []byte{byte(random.Uint32()), byte(random.Uint32()), byte(random.UintN(8)), 0, 1, 0, 0, 0})
		case 1: // a length
			copy(d[8:], []byte{byte(random.Uint32()), byte(random.UintN(12)), 0, 0})
		case 2: // flags: next, write, indirect
			d[12] = byte(random.UintN(8))
		case 3: // next, or the flags of a packed ring
			d[14], d[15] = byte(random.UintN(80)), byte(random.UintN(2))<<7
		case 4: // an entry of the available ring
			b[avail+4+2*random.UintN(64)] = byte(random.UintN(66))
		default:
			b[random.UintN(uint(len(b)))] = byte(random.Uint32())
		}
	}
	if random.UintN(2000) == 0 {
		b[avail+3] = byte(random.Uint32()) // the index runs away
	}
}
