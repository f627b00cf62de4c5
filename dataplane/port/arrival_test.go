package port

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestArrival: packets that wait in the RX ring keep the time at which they came,
// between the clock before they were sent and after the ring had them.
func TestArrival(t *testing.T) {
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			w, err := tryWire(t, settings{driver: DriverXSK, mode: mode, timestamps: TimestampsXDP})
			check(t, err)
			if got := w.port.Info().Mode; !strings.HasSuffix(got, ", arrival: xdp, 1 ns") || !strings.HasPrefix(got, mode) {
				t.Errorf("mode %q", got)
			}
			host := w.host.Packet(t)
			type span struct{ before, after int64 }
			var spans []span
			for range 20 {
				s := span{before: tai(t)}
				w.send(host, len(spans))
				s.after = tai(t)
				spans = append(spans, s)
			}
			time.Sleep(50 * time.Millisecond)
			released := tai(t)
			n := w.queue.Receive(w.batch)
			if n != len(spans) {
				t.Fatalf("received %d of %d packets", n, len(spans))
			}
			for i := range w.batch.Pkts {
				p := &w.batch.Pkts[i]
				if p.Arrival < spans[i].before || p.Arrival > spans[i].after {
					t.Errorf("packet %d arrived at %d, want %+v", i, p.Arrival, spans[i])
				}
			}
			t.Logf("the last packet waited %v", time.Duration(released-w.batch.Pkts[n-1].Arrival))
			w.free()
			w.close()
			if got := w.port.Info().Mode; strings.Contains(got, "without") || strings.Contains(got, "by batch") {
				t.Errorf("mode %q", got)
			}
		})
	}
}

// send sends one packet from the host and waits until the RX ring has it.
func (w *wire) send(host *netns.PacketSocket, waiting int) {
	w.t.Helper()
	frame := make([]byte, 64)
	copy(frame, "\x02weir\x01\x02weir\x02\x88\xb5")
	check(w.t, host.Send(frame))
	ring := &w.queue.(*xskQueue).socket.RX
	for deadline := time.Now().Add(10 * time.Second); ring.Available() <= waiting; {
		if time.Now().After(deadline) {
			w.t.Fatal("the packet does not arrive")
		}
	}
}

func (w *wire) free() {
	for i := range w.batch.Pkts {
		w.cache.FreePacket(&w.batch.Pkts[i])
	}
	w.batch.Reset()
}

func tai(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	check(t, unix.ClockGettime(unix.CLOCK_TAI, &ts))
	return ts.Nano()
}

// TestArrivalByBatch: where the program has no clock, packets have no time of
// their own, and the mode says which it is and why.
func TestArrivalByBatch(t *testing.T) {
	for _, test := range []struct {
		settings
		mode, err string // the end of the mode, or a part of the error
	}{
		{settings{driver: DriverXSK, mode: "native", timestamps: TimestampsBatch}, ", arrival: batch", ""},
		{settings{driver: DriverAsavie, mode: "native", timestamps: TimestampsBatch}, ", arrival: batch", ""},
		{settings{driver: DriverAsavie, mode: "native", timestamps: TimestampsAuto}, ", arrival: batch, the driver asavie knows no arrival times", ""},
		{settings{driver: DriverAsavie, mode: "native", timestamps: TimestampsXDP}, "", `use driver = "xsk", or set dataplane.timestamps = "auto"`},
	} {
		w, err := tryWire(t, test.settings)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%+v: error %v", test.settings, err)
			}
			continue
		}
		check(t, err)
		if got := w.port.Info().Mode; !strings.HasSuffix(got, test.mode) {
			t.Errorf("%+v: mode %q", test.settings, got)
		}
		host := w.host.Packet(t)
		frame := make([]byte, 64)
		copy(frame, "\x02weir\x01\x02weir\x02\x88\xb5")
		check(t, host.Send(frame))
		for deadline := time.Now().Add(10 * time.Second); w.queue.Receive(w.batch) == 0; {
			if time.Now().After(deadline) {
				t.Fatal("the packet does not arrive")
			}
		}
		if got := w.batch.Pkts[0].Arrival; got != 0 {
			t.Errorf("%+v: arrival %d", test.settings, got)
		}
		w.free()
		w.close()
	}
}

// TestArrivalRefused: a program that cannot be put in place leaves the old one
// there; "auto" goes on and says so, "xdp" fails and says what to do.
func TestArrivalRefused(t *testing.T) {
	for _, timestamps := range []string{TimestampsAuto, TimestampsXDP} {
		w, err := tryWire(t, settings{driver: DriverXSK})
		check(t, err)
		x := w.port.(*XSK)
		program := x.program
		x.memory.config.Timestamps = timestamps
		err = x.TimeArrivals() // too late: the queue has a socket in the old program's map
		if x.program != program {
			t.Error("the program was replaced under an open queue")
		}
		mode := x.Info().Mode
		if timestamps == TimestampsAuto && (err != nil || !strings.HasSuffix(mode, "arrival: batch, a queue is open already")) {
			t.Errorf("error %v, mode %q", err, mode)
		}
		if timestamps == TimestampsXDP && (err == nil || !strings.Contains(err.Error(), `set dataplane.timestamps = "auto"`)) {
			t.Errorf("error %v, mode %q", err, mode)
		}
		w.close()
	}
}

func TestArrivalInWords(t *testing.T) {
	for _, test := range []struct {
		arrival
		want string
	}{
		{arrival{}, ""},
		{arrival{source: TimestampsBatch}, ", arrival: batch"},
		{arrival{source: TimestampsBatch, detail: "why"}, ", arrival: batch, why"},
		{arrival{source: TimestampsXDP, detail: "1 ns"}, ", arrival: xdp, 1 ns"},
		{arrival{source: TimestampsHardware, detail: "d", astray: 2}, ", arrival: hardware, d (2 packets by xdp: the device's clock is over 100 ms off CLOCK_TAI; phc2sys keeps it there)"},
		{arrival{source: TimestampsXDP, detail: "1 ns", untimed: 3}, ", arrival: xdp, 1 ns (3 packets by batch: the driver gave no room for metadata in front of them)"},
	} {
		if got := test.arrival.String(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestStamps reads what the program may leave in front of packets.
func TestStamps(t *testing.T) {
	const tag = 0x1122334455667789
	mem := make([]byte, 4096)
	pkts := []packet.Packet{{Addr: 256}, {Addr: 1024}, {Addr: 2048}}
	write := func(i int, tag, time uint64) {
		front := mem[pkts[i].Addr-xdp.TimestampSize:]
		binary.NativeEndian.PutUint64(front, tag)
		binary.NativeEndian.PutUint64(front[8:], time)
	}
	write(0, tag, 1000)
	write(1, tag^1, 2000) // something else
	write(2, tag, 3000)
	s := stamps{tag: tag}
	s.read(mem, pkts)
	for i, want := range []int64{1000, 0, 3000} {
		if pkts[i].Arrival != want {
			t.Errorf("packet %d: arrival %d, want %d", i, pkts[i].Arrival, want)
		}
		pkts[i].Arrival = 0
	}
	s.read(mem, pkts)
	for i := range pkts {
		if pkts[i].Arrival != 0 {
			t.Errorf("packet %d has the time of the frame's last packet", i)
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.read(mem, pkts) }); n != 0 {
		t.Errorf("reading times allocates %v times", n)
	}

	// The other clock: moved by the distance of both, which lies between two readings.
	s.monotonic = true
	var mono unix.Timespec
	before := tai(t)
	check(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono))
	after := tai(t)
	write(0, tag, uint64(mono.Nano()))
	s.read(mem, pkts)
	const slack = 1_000_000 // clocks are compared a second time in read, preempted or not
	if a := pkts[0].Arrival; a < before-slack || a > after+slack {
		t.Errorf("arrival %d, want from %d to %d", a, before, after)
	}
	if pkts[1].Arrival != 0 {
		t.Errorf("a packet without a time got %d", pkts[1].Arrival)
	}
}

func BenchmarkStamps(b *testing.B) {
	mem := make([]byte, 64*2048)
	pkts := make([]packet.Packet, 64)
	for i := range pkts {
		pkts[i].Addr = uint64(i)*2048 + 256
	}
	s := stamps{tag: 1}
	for b.Loop() {
		for i := range pkts {
			binary.NativeEndian.PutUint64(mem[pkts[i].Addr-16:], 1)
		}
		s.read(mem, pkts)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(pkts)), "ns/packet")
}
