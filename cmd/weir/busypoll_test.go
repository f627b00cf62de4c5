package main

import (
	"testing"

	"github.com/weirswitch/weir/dataplane/napi"
)

// deferral reads an interface's deferral of interrupts.
func (b *testbed) deferral(t *testing.T, name string) (d napi.Deferral) {
	t.Helper()
	if err := b.ns.Do(func() error {
		device, err := napi.Open(name)
		if err != nil {
			return err
		}
		defer device.Close()
		d, err = device.Deferral()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestBusyPoll: a busy-polled interface defers its interrupts while the switch
// runs, and has its old setting afterwards, also when a switch was killed and
// another one followed.
func TestBusyPoll(t *testing.T) {
	b := newTestbed(t, 0)
	old := napi.Deferral{Rounds: 1, Flush: 50_000}
	if err := b.ns.Do(func() error {
		device, err := napi.Open("p0")
		if err != nil {
			return err
		}
		defer device.Close()
		return device.SetDeferral(old)
	}); err != nil {
		t.Fatal(err)
	}
	config := b.config(t, "s1", `interface = "p0"`, "interface = \"p0\"\nbusy_poll = 50", `poll = "interrupt"`, `poll = "busy"`)
	for _, kill := range []bool{false, true, false} {
		p := b.start(t, config)
		b.exchange(t, 10)
		if d := b.deferral(t, "p0"); d == old || d.Rounds == 0 {
			t.Errorf("while the switch runs: %+v", d)
		}
		if d := b.deferral(t, "p1"); d != (napi.Deferral{}) {
			t.Errorf("the other port, which is not busy-polled: %+v", d)
		}
		if kill {
			p.kill()
			continue
		}
		if status := p.stop(t); status != 0 {
			t.Errorf("status %d: %s", status, &p.stderr)
		}
		if d := b.deferral(t, "p0"); d != old {
			t.Errorf("afterwards: %+v, want %+v", d, old)
		}
	}
	b.checkClean(t)
}
