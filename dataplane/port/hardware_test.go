package port

import (
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// TestHardwareOnVeth: the driver of veth has receive times for XDP programs, but its frames have
// none. So the device's program runs, gives its own time instead, and counts that. The mode says all.
func TestHardwareOnVeth(t *testing.T) {
	w, err := tryWire(t, settings{driver: DriverXSK, mode: "native", timestamps: TimestampsHardware})
	check(t, err)
	const granted = ", arrival: hardware, the device's clock must keep TAI"
	if mode := w.port.Info().Mode; !strings.HasSuffix(mode, granted) {
		t.Errorf("mode %q", mode)
	}
	w.timed(10)
	if mode := w.port.Info().Mode; !strings.HasSuffix(mode, granted+" (10 packets by xdp: the device gave them no time; hwstamp_ctl -r 1 has it time all)") {
		t.Errorf("mode %q", mode)
	}
	receiver := w.host.Packet(t)
	last := w.sent
	if w.transmit(1) != 1 {
		t.Fatalf("refused with %v", w.queue.Refusal())
	}
	for w.queue.Service() {
	}
	w.awaitNumber(receiver, last)

	// The interface is removed, and the program for it ends with it; another one takes its place.
	x := w.port.(*XSK)
	check(t, w.ns.DeleteLink("p0"))
	for deadline := time.Now().Add(10 * time.Second); !x.Lost(); {
		if time.Now().After(deadline) {
			t.Fatal("the interface is still there")
		}
	}
	check(t, x.Pause())
	check(t, x.Detach(nil))
	_, err = w.queue.Close()
	check(t, err)
	w.host = netnstest.NewHost(t, prefix, netnstest.Port{Namespace: w.ns, Name: "p0"})
	check(t, x.Restore())
	w.queue, err = x.Open(0, 0, w.cache)
	check(t, err)
	check(t, x.Restored())
	w.timed(10)
	if mode := w.port.Info().Mode; !strings.Contains(mode, granted+" (20 packets by xdp") {
		t.Errorf("mode %q", mode)
	}
	w.close()
}

// timed receives n packets, each timed between its sending and its being in the RX ring.
func (w *wire) timed(n int) {
	w.t.Helper()
	host := w.host.Packet(w.t)
	for i := range n {
		before := tai(w.t)
		w.send(host, 0)
		after := tai(w.t)
		if got := w.queue.Receive(w.batch); got != 1 {
			w.t.Fatalf("received %d packets", got)
		}
		if a := w.batch.Pkts[0].Arrival; a < before || a > after {
			w.t.Errorf("packet %d arrived at %d, want %d to %d", i, a, before, after)
		}
		w.free()
	}
}

// TestHardwareRefused: where there are no times of a device, the program's do, and the mode says why.
func TestHardwareRefused(t *testing.T) {
	w, err := tryWire(t, settings{driver: DriverXSK, mode: "generic", timestamps: TimestampsHardware})
	check(t, err)
	if mode := w.port.Info().Mode; !strings.HasSuffix(mode, ", arrival: xdp, 1 ns, no hardware: the program runs in generic mode") {
		t.Errorf("mode %q", mode)
	}
	w.timed(3)
	w.close()
	if _, err := tryWire(t, settings{driver: DriverAsavie, timestamps: TimestampsHardware}); err == nil || !strings.Contains(err.Error(), `use driver = "xsk"`) {
		t.Errorf("error %v", err)
	}
}

// TestHardwareOptional: an interface that comes later gets its program then.
func TestHardwareOptional(t *testing.T) {
	w, err := tryWire(t, settings{driver: DriverXSK, timestamps: TimestampsHardware})
	check(t, err)
	w.close()
	x := w.port.(*XSK)
	pool := w.pool
	c := x.config
	c.Interface, c.Optional, c.Queues = "p9", true, 1
	d := x.memory.config
	check(t, w.ns.Do(func() error {
		memory, err := NewUMEM(pool, d)
		if err != nil {
			return err
		}
		if x, err = NewXSK(c, memory); err != nil {
			return err
		}
		return x.TimeArrivals()
	}))
	w.host = netnstest.NewHost(t, prefix, netnstest.Port{Namespace: w.ns, Name: "p9"})
	check(t, x.Restore())
	w.port, w.cache = x, pool.NewCache()
	w.queue, err = x.Open(0, 0, w.cache)
	check(t, err)
	check(t, x.Restored())
	w.timed(3)
	if mode := x.Info().Mode; !strings.Contains(mode, ", arrival: hardware, ") {
		t.Errorf("mode %q", mode)
	}
	w.close()
}
