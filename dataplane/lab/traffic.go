package lab

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/traffic"
	"golang.org/x/sys/unix"
)

// Result is what became of one [Traffic]. For every kind but TCP, reach and forged,
// Sent = Received + Lost, where Received counts different packets.
type Result struct {
	Kind   string `json:"kind"`
	From   string `json:"from"`
	To     string `json:"to"`
	Family int    `json:"family,omitempty"`
	Flows  int    `json:"flows,omitempty"` // or TCP streams

	Sent       uint64 `json:"sent"`       // packets; of TCP, bytes
	Received   uint64 `json:"received"`   // as Sent
	Lost       uint64 `json:"lost"`       // as Sent
	Duplicated uint64 `json:"duplicated"` // arrived again
	Reordered  uint64 `json:"reordered"`  // arrived behind a later packet of the same flow
	Wrong      uint64 `json:"wrong"`      // arrived with other bytes; of TCP, streams with another SHA-256
	// Overflow counts packets that arrived and that the witness had no room for.
	// They count as lost as well.
	Overflow uint64 `json:"overflow"`

	Seconds       float64     `json:"seconds"`
	PacketsPerSec float64     `json:"packets_per_second,omitempty"`
	GbitPerSec    float64     `json:"gbit_per_second,omitempty"` // of TCP payload
	Retransmitted uint64      `json:"retransmitted,omitempty"`   // TCP segments
	RTTMedianUs   float64     `json:"rtt_median_us,omitempty"`   // ping
	RTTMaxUs      float64     `json:"rtt_max_us,omitempty"`      // ping
	Fault         string      `json:"fault,omitempty"`           // why it could not be carried out
	Interrupted   bool        `json:"interrupted,omitempty"`     // ended by the context, before all was sent or had arrived
	Cut           string      `json:"cut,omitempty"`             // the end of a cable that was cut during the load
	InFlight      uint64      `json:"in_flight,omitempty"`       // of a load with a cut but TCP: most packets that were on their way at it
	Reach         *Reach      `json:"reach,omitempty"`           // reach: who reached whom
	Forged        []Forged    `json:"forged,omitempty"`          // forged: by kind of frame
	Crossed       uint64      `json:"crossed,omitempty"`         // forged: frames of all kinds that arrived where they must not
	Digests       [][2]string `json:"sha256,omitempty"`          // TCP: per stream, sent and received

	Counts       *LoadCount `json:"-"` // flows: of each flow
	Began, Ended time.Time  `json:"-"`
}

// OK reports whether everything arrived, once, in order and unchanged; of reach and forged, what shall, and nothing else.
func (r *Result) OK() bool {
	switch {
	case r.Fault != "" || r.Interrupted || r.Sent == 0:
		return false
	case r.Reach != nil:
		leaked, unreached := r.Reach.wrong()
		return len(leaked)+len(unreached) == 0
	case r.Kind == KindForged:
		return r.Crossed == 0
	}
	return r.Fault == "" && !r.Interrupted && r.Sent > 0 && r.Received == r.Sent &&
		r.Lost+r.Duplicated+r.Reordered+r.Wrong+r.Overflow == 0
}

// okIn is OK in a lab whose relays may drop and reorder: what they dropped is in the account.
func (r *Result) okIn(c *Config) bool {
	if c == nil {
		return r.OK()
	}
	jitters, drops := c.relaysChange()
	plain := *r
	if jitters {
		plain.Reordered = 0
	}
	if drops || r.Cut != "" && r.Lost <= r.InFlight {
		plain.Received, plain.Lost = r.Received+r.Lost, 0
	}
	return plain.OK()
}

// Traffic carries out one load and reports what became of it. Trouble with the load itself
// is in the result's Fault, so that the loads behind it still run.
func (l *Lab) Traffic(ctx context.Context, t Traffic) Result {
	return l.together(ctx, []Traffic{t}, 0)[0]
}

// traffic carries out the n-th load of the file. Loads may run at a time, each with its own progress. It does not cut its cable.
func (l *Lab) traffic(ctx context.Context, t Traffic, n int, progress Progress) Result {
	switch t.Kind {
	case KindReach:
		return l.carryReach(ctx, &t, progress)
	case KindForged:
		return l.carryForged(ctx, &t, progress)
	}
	from, to := l.config.host(t.From), l.config.host(t.To)
	r := Result{Kind: t.Kind, From: t.From, To: t.To, Family: t.family(from, to)}
	load := load{
		Traffic: t, source: l.spaces[t.From], sink: l.spaces[t.To], progress: progress,
		index: n, fromIndex: l.config.hostIndex(t.From), toIndex: l.config.hostIndex(t.To), routed: routed(from, to),
	}
	if t.Kind == KindFlows {
		r.Family = 4
	}
	load.drainWait, load.patience = drainWait, maxGiveUps
	if _, drops := l.config.relaysChange(); drops || len(l.config.ExpectedDrops) > 0 {
		load.drainWait = lossyDrainWait
	}
	if slices.ContainsFunc(l.config.ExpectedDrops, func(reason string) bool { return reason != "multicast" }) {
		load.patience = 0 // all of a load may be dropped on purpose
	}
	load.gateway, _ = netip.ParseAddr(from.Gateway)
	load.sourceIP, _ = from.address(r.Family)
	load.sinkIP, _ = to.address(r.Family)
	if t.Kind == KindFlows && t.Addresses == AddressesHosts {
		if err := l.silence(t.To, load.sinkIP, t.Port); err != nil {
			r.Fault = err.Error()
			return r
		}
	}
	if t.Cut != "" {
		load.drainWait, r.Cut = lossyDrainWait, t.Cut
		if t.Kind != KindTCP {
			r.InFlight = uint64(t.Window)
		}
	}
	load.carry(ctx, &r)
	return r
}

// silence opens a UDP socket that is never read, so that a host's stack does not answer generated packets to its own
// address that the port is unreachable. It stays until the lab ends.
func (l *Lab) silence(host string, address netip.Addr, port int) error {
	at := netip.AddrPortFrom(address, uint16(port)).String()
	l.silencing.Lock()
	defer l.silencing.Unlock()
	if _, ok := l.silent[host+" "+at]; ok {
		return nil
	}
	conn, err := l.spaces[host].ListenPacket("udp4", at)
	if err != nil {
		return fmt.Errorf("flows: keep %s from answering: %w", host, err)
	}
	if l.silent == nil {
		l.silent = map[string]net.PacketConn{}
	}
	l.silent[host+" "+at] = conn
	return nil
}

// load is one traffic table with all that it names looked up.
type load struct {
	Traffic
	source, sink     *netns.Namespace
	sourceIP, sinkIP netip.Addr // of the result's family
	progress         Progress

	index, fromIndex, toIndex int        // in the file
	routed                    bool       // routers are between the hosts
	gateway                   netip.Addr // of the source; the zero Addr: none
	drainWait                 time.Duration
	patience                  int // of the window
}

// size is the length of the i-th packet: every size from the smallest to the largest in turn, or, with
// fewer packets than sizes, as many of them, evenly spread.
func (l *load) size(i int) int {
	span := l.Sizes[1] - l.Sizes[0] + 1
	if l.Count >= span {
		return l.Sizes[0] + i%span
	}
	return l.Sizes[0] + i*(span-1)/max(1, l.Count-1)
}

// fill writes packet i's number, and behind it bytes that differ from packet to packet. buf has 8 bytes
// or more.
func fill(buf []byte, i uint64) {
	binary.BigEndian.PutUint64(buf, i)
	x := i
	for k := 8; k < len(buf); k++ {
		if k%8 == 0 { // one step of splitmix64 for every 8 bytes
			x += 0x9e3779b97f4a7c15
		}
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		buf[k] = byte(z >> (8 * (k % 8)))
	}
}

// tracker distinguishes new, repeated and overtaken packets exactly. It is not safe for concurrent use.
type tracker struct {
	seen    []uint64 // one bit per packet
	highest []int64  // per flow: the latest packet so far, or -1
	perFlow []uint64 // per flow: different packets received
	count   uint64
	order   *flowOrder // which flow a packet belongs to

	received, duplicated, reordered, wrong uint64
}

func newTracker(count, flows int) *tracker {
	t := &tracker{
		seen: make([]uint64, (count+63)/64), highest: make([]int64, flows), perFlow: make([]uint64, flows),
		count: uint64(count), order: &flowOrder{flows: uint64(flows)},
	}
	for i := range t.highest {
		t.highest[i] = -1
	}
	return t
}

// observe notes the arrival of packet i, and reports whether it is the first one.
func (t *tracker) observe(i uint64) bool {
	if i >= t.count {
		t.wrong++
		return false
	}
	word, bit := i/64, uint64(1)<<(i%64)
	if t.seen[word]&bit != 0 {
		t.duplicated++
		return false
	}
	t.seen[word] |= bit
	t.received++
	flow, _ := t.order.packet(i)
	t.perFlow[flow]++
	if int64(i) < t.highest[flow] {
		t.reordered++
	} else {
		t.highest[flow] = int64(i)
	}
	return true
}

// report moves the counts into a result. Received packets beyond the sent ones cannot be:
// the tracker knows each one.
func (t *tracker) report(r *Result, sent uint64) {
	r.Sent, r.Received, r.Lost = sent, t.received, sent-min(sent, t.received)
	r.Duplicated, r.Reordered, r.Wrong = t.duplicated, t.reordered, t.wrong
}

// window paces a load and bounds its packets in flight, by what the far end has counted. The hosts' processes share
// the machine with the switches, and queues are finite: a load that runs on while a
// switch waits for a processor would measure the machine's other work, not the switch.
type window struct {
	pacer    traffic.Pacer
	start    time.Time
	size     uint64 // most packets in flight
	received func() uint64
	lost     uint64 // given up as lost, so that the load goes on
	last     uint64 // received at the last progress
	since    time.Time
	gaveUp   int // times in succession, without an arrival between them
	patience int // so often at most; 0: always
}

// errNothingArrives ends a load.
type errNothingArrives struct{ sent, received uint64 }

func (e errNothingArrives) Error() string {
	return fmt.Sprintf("stopped after %d packets, of which %d had arrived: for %v none did; the lines below Counters say where they end",
		e.sent, e.received, maxGiveUps*windowPatience)
}

// maxGiveUps is how often in succession a load takes what is in flight for lost before it stops: a starved
// switch may get no processor for seconds, but not for so many.
const maxGiveUps = 12

// newWindow makes a window for a rate in packets per second; a late sender catches up a burst at most, so that it does
// not test the ring sizes instead.
func newWindow(size, rate, burst int, received func() uint64) *window {
	return &window{
		pacer: traffic.NewPacer(traffic.Load{Rate: float64(rate), CatchUp: burst}), start: time.Now(),
		size: uint64(size), received: received,
	}
}

// windowPatience is how long the window stays closed without an arrival, after which what
// is in flight is taken for lost. A starved machine may stall for tenths of a second.
const windowPatience = time.Second

// room is how many packets may follow the sent ones.
func (w *window) room(sent uint64, now time.Time) int {
	received := w.received()
	if received != w.last || w.since.IsZero() {
		w.last, w.since, w.gaveUp = received, now, 0
	}
	// A packet that was given up may still arrive; then fewer are lost than was thought.
	w.lost = min(w.lost, sent-min(sent, received))
	inFlight := sent - min(sent, received+w.lost)
	if inFlight < w.size {
		return int(w.size - inFlight)
	}
	if now.Sub(w.since) > windowPatience {
		w.lost, w.since = sent-received, now
		w.gaveUp++
		return int(w.size)
	}
	return 0
}

// next sleeps until packets are due and have room, and returns how many, at most limit.
func (w *window) next(ctx context.Context, sent uint64, limit int) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		now := time.Now()
		room := min(limit, w.room(sent, now))
		if w.patience > 0 && w.gaveUp >= w.patience {
			return 0, errNothingArrives{sent, w.received()}
		}
		if room > 0 {
			if n, _ := w.pacer.Due(uint64(now.Sub(w.start)), room); n > 0 {
				return n, nil
			}
		}
		doze()
	}
}

// doze sleeps for 100 us. The sleep is the kernel's: the runtime's timers wake an idle
// program up to a millisecond late.
func doze() {
	pause := unix.NsecToTimespec(100_000)
	_ = unix.Nanosleep(&pause, nil)
}

// How long no packet may arrive, once none is sent any more, before those that are missing are lost: a switch may get no
// processor for seconds. Where packets are meant to be lost, each load would wait so long. Tests shorten it.
var drainWait = 10 * time.Second

const lossyDrainWait = 2 * time.Second

// drain waits until all packets have arrived, or no more do.
func (l *load) drain(ctx context.Context, sent uint64, received func() uint64) {
	since, before := time.Now(), received()
	for before < sent && time.Since(since) < l.drainWait && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
		if now := received(); now != before {
			since, before = time.Now(), now
		}
	}
}

// isTimeout reports whether a read ended at its deadline.
func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
