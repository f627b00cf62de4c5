package main

import (
	"testing"

	"github.com/weirswitch/weir/dataplane/nic"
)

// deferral is for how long the kernel leaves receive work to a busy poller.
type deferral struct{ rounds, flush string }

const (
	deferRounds = "napi_defer_hard_irqs"
	deferFlush  = "gro_flush_timeout"
)

// deferral reads an interface's deferral of interrupts.
func (b *testbed) deferral(t *testing.T, name string) (d deferral) {
	t.Helper()
	if err := b.ns.Do(func() error {
		folder, err := nic.OpenSysfs(name)
		if err != nil {
			return err
		}
		defer folder.Close()
		if d.rounds, err = folder.Read(deferRounds); err != nil {
			return err
		}
		d.flush, err = folder.Read(deferFlush)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return d
}

// setDeferral sets one of its files as an operator would.
func (b *testbed) setDeferral(t *testing.T, name, file, value string) {
	t.Helper()
	if err := b.ns.Do(func() error {
		folder, err := nic.OpenSysfs(name)
		if err != nil {
			return err
		}
		defer folder.Close()
		return folder.Write(file, value)
	}); err != nil {
		t.Fatal(err)
	}
}

// TestBusyPoll: a busy-polled interface defers its interrupts while the switch
// runs, and has its old setting afterwards, also when a switch was killed and
// another one followed. What the operator sets meanwhile stays.
func TestBusyPoll(t *testing.T) {
	b := newTestbed(t, 0)
	old := deferral{"1", "50000"}
	b.setDeferral(t, "p0", deferRounds, old.rounds)
	b.setDeferral(t, "p0", deferFlush, old.flush)
	config := b.config(t, "s1", `interface = "p0"`, "interface = \"p0\"\nbusy_poll = 50", `poll = "interrupt"`, `poll = "busy"`)
	for _, kill := range []bool{false, true, false} {
		p := b.start(t, config)
		b.exchange(t, 10)
		if d := b.deferral(t, "p0"); d != (deferral{"100", "2000000"}) {
			t.Errorf("while the switch runs: %+v", d)
		}
		if d := b.deferral(t, "p1"); d != (deferral{"0", "0"}) {
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
	p := b.start(t, config)
	b.setDeferral(t, "p0", deferRounds, "3")
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	if d := b.deferral(t, "p0"); d != (deferral{"3", old.flush}) {
		t.Errorf("afterwards: %+v, want the operator's rounds", d)
	}
	b.checkClean(t)
}
