package port

import (
	"testing"
	"time"
)

// TestDepth: packets that an interface does not send wait, are seen to wait, and
// are gone when it sends again.
func TestDepth(t *testing.T) {
	for _, driver := range []string{DriverXSK, DriverAsavie} {
		t.Run(driver, func(t *testing.T) {
			w := openWire(t, driver)
			depth := func(want int) {
				t.Helper()
				if got := w.queue.Depth(); got != want {
					t.Errorf("depth %d, want %d", got, want)
				}
			}
			depth(0)
			check(t, w.ns.SetDown("p0"))
			if driver == DriverXSK {
				for i := range 4 {
					depth(16 * i)
					if taken := w.transmit(16); taken != 16 {
						t.Fatalf("took %d of 16", taken)
					}
				}
				depth(64)
			} else {
				// The library learns at the first packet that the interface is down.
				w.transmit(1)
				depth(1)
			}
			w.queue.Service()
			waiting := w.queue.Depth()
			if waiting == 0 {
				t.Error("nothing waits for an interface that is down")
			}
			if n := testing.AllocsPerRun(100, func() { w.queue.Depth() }); n != 0 {
				t.Errorf("asking for the depth allocates %v times", n)
			}

			check(t, w.ns.SetUp("p0"))
			check(t, w.ns.WaitUp("p0", time.Minute))
			for deadline := time.Now().Add(10 * time.Second); w.queue.Service() && time.Now().Before(deadline); {
			}
			depth(0)
			w.close()
		})
	}
}

// TestDepthOfSent: what the kernel confirmed waits no more, although its frames
// were not freed yet.
func TestDepthOfSent(t *testing.T) {
	w := openWire(t, DriverXSK)
	q := w.queue.(*xskQueue)
	if w.transmit(20) != 20 {
		t.Fatal("packets were refused")
	}
	q.socket.TX.Kick()
	for deadline := time.Now().Add(10 * time.Second); q.Depth() != 0 && time.Now().Before(deadline); {
	}
	if q.Depth() != 0 || q.inFlight != 20 {
		t.Errorf("depth %d, %d in flight; want 0 and 20", q.Depth(), q.inFlight)
	}
	for q.Service() {
	}
	w.close()
}

// TestSpeed: a veth says 10 Gbit/s, the loopback interface has no such call.
func TestSpeed(t *testing.T) {
	w := openWire(t, DriverXSK)
	if got := w.port.Info().Speed; got != 10_000_000_000 {
		t.Errorf("speed %d", got)
	}
	w.close()
	check(t, w.ns.Do(func() error {
		l, err := findLink("lo")
		if err == nil {
			if got := l.info("lo", DriverXSK, 1).Speed; got != 0 {
				t.Errorf("the loopback's speed is %d", got)
			}
			l.close()
		}
		return err
	}))
}
