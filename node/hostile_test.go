package node

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/memif"
	"github.com/weirswitch/weir/dataplane/vhost/frontend"
)

// garbageRounds is how often the tests of hostile peers write garbage: WEIR_GARBAGE, if it is set (make garbage).
func garbageRounds(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("WEIR_GARBAGE"); text != "" {
		rounds, err := strconv.Atoi(text)
		check(t, err)
		return rounds
	}
	if testing.Short() {
		return 5_000
	}
	return 50_000
}

// hostileBed is a switch with the ports a and b of two honest guests, which send to each other meanwhile, and c and d of hostile peers.
type hostileBed struct {
	*guestNode
	honest [2]*frontend.Frontend
	sent   uint64
}

// startHostile starts the switch. Each port of the driver vhost is made by its name alone, others by extra.
func startHostile(t *testing.T, extra string, vhost ...string) *hostileBed {
	t.Helper()
	stage := extra + "\n[stages.patch]\npairs = [[\"a\", \"b\"], [\"c\", \"d\"]]"
	h := &hostileBed{guestNode: startGuests(t, `"parse", "patch"`, stage, 2, vhost...)}
	h.honest = [2]*frontend.Frontend{h.dial("a", 0), h.dial("b", 0)}
	return h
}

// exchange sends a burst each way between the honest guests, of which no packet may be lost, changed or overtaken.
func (h *hostileBed) exchange() {
	h.t.Helper()
	const burst = 16
	packet := func(n uint64) []byte {
		p := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5}
		return append(binary.BigEndian.AppendUint64(p, n), make([]byte, 60-22)...)
	}
	for i, from := range h.honest {
		for k := range uint64(burst) {
			buffer := from.Senders[0].Next()
			if buffer == nil {
				h.t.Fatalf("no buffer is left for packet %d", h.sent+k)
			}
			from.Senders[0].Send(frontend.HeaderSize + copy(buffer[frontend.HeaderSize:], packet(h.sent+k)))
		}
		from.Senders[0].Flush()
		for range burst {
			if got := receive(h.t, h.honest[1-i].Receivers[0]); !bytes.Equal(got[frontend.HeaderSize:], packet(h.sent)) {
				h.t.Fatalf("packet %d: another one arrived: % x", h.sent, got)
			}
			h.sent++
		}
	}
}

// finish ends the switch, and checks that the honest guests lost nothing, and that each refusal of the others is counted by its name.
func (h *hostileBed) finish() {
	h.t.Helper()
	h.exchange()
	r := h.guestNode.finish()
	a, b := r.Ports[0], r.Ports[1]
	if a.Received+b.Received != h.sent || a.Transmitted+b.Transmitted != h.sent || len(a.Dropped)+len(b.Dropped)+len(a.Faults)+len(b.Faults) != 0 {
		h.t.Errorf("of %d packets of the honest guests %d arrived and %d left; dropped %v %v, faults %v %v",
			h.sent, a.Received+b.Received, a.Transmitted+b.Transmitted, a.Dropped, b.Dropped, a.Faults, b.Faults)
	}
	h.t.Logf("%d packets of the honest guests, none lost", h.sent)
	for _, p := range r.Ports[2:] {
		h.t.Logf("%s: %d packets received, %d and %d refused, %d ring faults: %v", p.Name, p.Received, p.RxInvalid, p.TxInvalid, p.RingFaults, p.Faults)
		if byName := faultsOf(p); byName != p.RxInvalid+p.TxInvalid+p.RingFaults {
			h.t.Errorf("%s: by name %d faults", p.Name, byName)
		}
		// How many rounds the workers see depends on the machine; each exchange of the others waits for them.
		if len(p.Faults) == 0 || p.Received == 0 {
			h.t.Errorf("%s: the garbage has no effect", p.Name)
		}
	}
}

func faultsOf(p *api.Port) (sum uint64) {
	for _, n := range p.Faults {
		sum += n
	}
	return sum
}

// TestHostileGuests: guests that write garbage into every field of their rings neither end the switch nor cost other ports a
// packet, and later guests are served. Each refusal is counted by its reason.
func TestHostileGuests(t *testing.T) {
	const packed = 1 << 34
	t.Run("split", func(t *testing.T) { hostileGuests(t, 0) })
	t.Run("packed", func(t *testing.T) { hostileGuests(t, packed) })
}

func hostileGuests(t *testing.T, features uint64) {
	h := startHostile(t, "", "a", "b", "c", "d")
	random := rand.New(rand.NewPCG(18, 3))
	const indirect, eventIndex = 1 << 28, 1 << 29
	var hostile [2]*frontend.Frontend
	connections := 0
	begin := func(i int) {
		c := frontend.DefaultConfig(h.socket([]string{"c", "d"}[i]))
		c.Descriptors = 64
		c.Features = features | []uint64{0, leaves | takes}[random.UintN(2)] | []uint64{0, indirect}[random.UintN(2)] | []uint64{0, eventIndex}[random.UintN(2)]
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
	rounds := garbageRounds(t)
	for round := range rounds {
		i := round % 2
		f := hostile[i]
		for ring := range 2 {
			garbleRing(random, f, ring, features != 0)
			f.Notify(ring)
		}
		if round%16 < 2 {
			runtime.Gosched()
			if f.Dismissed() || random.UintN(50) == 0 {
				check(t, f.Close())
				begin(i)
			}
		}
		if round%100 == 0 {
			h.exchange()
		}
	}
	t.Logf("%d rounds, %d connections", rounds, connections)
	h.finish()
}

// garbleRing changes some fields of a ring, most of them so that the ring stays alive for a while.
func garbleRing(random *rand.Rand, f *frontend.Frontend, ring int, packed bool) {
	b := f.RingBytes(ring)
	const avail = 16 * 64 // where the descriptors end
	b[avail+2] += byte(random.UintN(3))
	for range 4 {
		d := b[16*random.UintN(64):]
		flags, next := d[12:], d[14:]
		if packed {
			flags, next = d[14:], d[12:] // the id
		}
		switch random.UintN(6) {
		case 0: // an address in the guest's memory, mostly
			copy(d, []byte{byte(random.Uint32()), byte(random.Uint32()), byte(random.UintN(8)), 0, 1, 0, 0, 0})
		case 1: // a length
			copy(d[8:], []byte{byte(random.Uint32()), byte(random.UintN(12)), 0, 0})
		case 2: // next, write, indirect
			flags[0] = flags[0]&0x80 | byte(random.UintN(8))
		case 3:
			next[0], next[1] = byte(random.UintN(80)), 0
		case 4: // an entry of the available ring
			b[avail+4+2*random.UintN(64)] = byte(random.UintN(66))
		default:
			b[random.UintN(uint(len(b)))] = byte(random.Uint32())
		}
	}
	if random.UintN(2000) == 0 {
		b[avail+3] = byte(random.Uint32()) // the index runs away
	}
	if packed && random.UintN(4) == 0 { // all are available, in one of both laps
		lap := byte(random.UintN(2)) << 7
		for d := b[:avail]; len(d) != 0; d = d[16:] {
			d[14], d[15] = d[14]&0x7f|lap, lap^0x80
		}
	}
}

// TestHostileMemif is the same of memif's peers: a client at a port that listens, and a server at one that connects.
func TestHostileMemif(t *testing.T) {
	const descriptors = 64
	dir := t.TempDir()
	socket := func(name string) string { return filepath.Join(dir, name) }
	h := startHostile(t, fmt.Sprintf("[[port]]\nname = \"c\"\ndriver = \"memif\"\nsocket = %q\n[[port]]\nname = \"d\"\ndriver = \"memif\"\nmode = \"client\"\nsocket = %q\nring_size = %d\n",
		socket("c"), socket("d"), descriptors), "a", "b")
	random := rand.New(rand.NewPCG(18, 4))
	var hostile [2]*memif.Device
	for i := range hostile {
		var err error
		hostile[i], err = memif.New(memif.Config{Socket: socket([]string{"c", "d"}[i]), Server: i == 1, Queues: 1, RingSize: descriptors, Name: "hostile"})
		check(t, err)
		defer func() { check(t, hostile[i].Close()) }()
	}
	// acquire waits for the next connection if the switch has ended this one.
	acquire := func(q *memif.Queue) *memif.Ring {
		for deadline := time.Now().Add(largeLimit); ; {
			if r := q.Acquire(); r != nil {
				return r
			}
			if runtime.Gosched(); time.Now().After(deadline) {
				t.Fatal("no connection")
			}
		}
	}
	rounds := garbageRounds(t)
	for round := range rounds {
		d := hostile[round%2]
		for _, q := range []*memif.Queue{d.Transmit(0), d.Receive(0)} {
			sends := q == d.Transmit(0)
			r := acquire(q)
			garbleMemif(random, r.Bytes(), descriptors, round%2 == 0, sends)
			if sends {
				q.Notify()
			}
			q.Release()
		}
		if round%16 < 2 {
			runtime.Gosched()
		}
		if round%100 == 0 {
			h.exchange()
		}
	}
	t.Logf("%d rounds, %d and %d connections", rounds, hostile[0].Status().Connections, hostile[1].Status().Connections)
	h.finish()
}

// garbleMemif changes some fields of a ring of a hostile client or server, which sends packets by it or receives them. Most changes leave the ring
// alive for a while: an unfit buffer to receive costs the connection.
func garbleMemif(random *rand.Rand, b []byte, descriptors uint, client, sends bool) {
	const header, head, tail = 128, 6, 64
	index := b[tail:]
	if client {
		index = b[head:]
	}
	n := binary.LittleEndian.Uint16(index) + uint16(random.UintN(3))
	if random.UintN(5000) == 0 {
		n = uint16(random.Uint32()) // runs away
	}
	binary.LittleEndian.PutUint16(index, n)
	if !sends && random.UintN(500) != 0 {
		return
	}
	for range 4 {
		d := b[header+16*random.UintN(descriptors):][:16]
		switch random.UintN(6) {
		case 0:
			d[0] = byte(random.UintN(2)) // the packet goes on
		case 1:
			d[2] = byte(random.UintN(20)) / 19 // another region
		case 2:
			binary.LittleEndian.PutUint32(d[4:], uint32(random.UintN(3000)))
		case 3:
			d[7] = byte(random.Uint32()) // a length of many megabytes
		case 4:
			binary.LittleEndian.PutUint32(d[8:], random.Uint32()>>random.UintN(24))
		default:
			d[random.UintN(16)] = byte(random.Uint32())
		}
	}
	if random.UintN(1000) == 0 {
		b[random.UintN(uint(len(b)))] = byte(random.Uint32())
	}
}
