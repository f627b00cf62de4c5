package port

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestSettings: a port tells what it has changed on its interface while it is open, also when
// it is opened again, and puts it back.
func TestSettings(t *testing.T) {
	w, err := tryWire(t, settings{driver: DriverXSK})
	check(t, err)
	w.close()
	for _, driver := range []string{DriverXSK, DriverAsavie} {
		p := w.reopen(func(c *Config) {
			c.Driver, c.RSS = driver, RSSSymmetric
			if driver == DriverXSK {
				c.BusyPoll = 50
			}
		})
		i := p.Info()
		changed := 0
		if driver == DriverXSK {
			changed = 2
		}
		if len(i.Settings) != changed || len(i.Refused) != 1 || i.Refused[0].Name != "rss-transform" || i.Error != "" {
			t.Errorf("%s: settings %v, refused %v, error %q", driver, i.Settings, i.Refused, i.Error)
		}
		check(t, p.Detach(ErrDisabled))
		check(t, p.GiveBack())
		if got := w.deferral(); got != "0" {
			t.Errorf("%s: deferral %s behind GiveBack", driver, got)
		}
		check(t, p.Restore())
		if i := p.Info(); len(i.Settings) != changed {
			t.Errorf("%s: settings %v of a port that is open again", driver, i.Settings)
		}
		check(t, p.Close())
		if got := w.deferral(); got != "0" {
			t.Errorf("%s: deferral %s behind Close", driver, got)
		}
	}
}

// reopen makes another port on the wire's interface, without queues.
func (w *wire) reopen(change func(*Config)) (p Restorable) {
	w.t.Helper()
	c, d := DefaultConfig(), DefaultDataplaneConfig()
	c.Name, c.Interface = "p0", "p0"
	change(&c)
	check(w.t, w.ns.Do(func() (err error) {
		if c.Driver == DriverAsavie {
			p, err = NewAsavie(c, d)
			return err
		}
		memory, err := NewUMEM(w.pool, d)
		if err == nil {
			p, err = NewXSK(c, memory)
		}
		return err
	}))
	return p
}

func (w *wire) deferral() (value string) {
	w.t.Helper()
	check(w.t, w.ns.Do(func() error {
		folder, err := nic.OpenSysfs("p0")
		if err != nil {
			return err
		}
		defer folder.Close()
		value, err = folder.Read("napi_defer_hard_irqs")
		return err
	}))
	return value
}

// TestQueuesChange: an interface that gets other queues beneath an open port is told, as long as it has them.
func TestQueuesChange(t *testing.T) {
	netnstest.Require(t)
	w := &wire{t: t, ns: netnstest.New(t, prefix)}
	netnstest.NewHost(t, prefix, netnstest.Port{Namespace: w.ns, Name: "p0", Queues: 4})
	setQueues := func(n int) {
		t.Helper()
		check(t, w.ns.Do(func() error { return nic.SetQueues("p0", n) }))
	}
	setQueues(2)
	var err error
	w.pool, err = packet.NewPool(packet.PoolConfig{Frames: 1024, FrameSize: 2048})
	check(t, err)
	p := w.reopen(func(c *Config) { c.Mode, c.Workers = "generic", 1 })
	for _, c := range []struct {
		queues int
		fault  string
	}{
		{2, ""},
		{4, "p0 has 4 receive queues now, and had 2: packets on queues 2 to 3 go to the kernel (no_socket)"},
		{1, "p0 has 1 receive queues now, and the port serves 2"},
		{2, ""},
	} {
		setQueues(c.queues)
		if i := p.Info(); i.Queues != 2 || !strings.HasPrefix(i.Error, c.fault) || c.fault == "" && i.Error != "" {
			t.Errorf("%d queues: %d are served, error %q", c.queues, i.Queues, i.Error)
		}
	}
	check(t, p.Close())
	check(t, w.pool.Close())
}
