package conntrack

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/pipeline"
)

// duplicates are other descriptors of files, as those that a socket passes.
func duplicates(t testing.TB, files []*os.File) (all []*os.File) {
	t.Helper()
	for _, f := range files {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, os.NewFile(uintptr(fd), f.Name()))
	}
	return all
}

// successor is a module that has taken over what a rig's has, up to Enter.
func successor(t testing.TB, old *Module, c Config, env pipeline.Env) (*Module, error) {
	t.Helper()
	state, files, err := old.Share()
	if err != nil {
		return nil, err
	}
	m, err := New(c, env)
	if err != nil {
		return nil, err
	}
	m.parser = old.parser
	if err := m.Take(state, duplicates(t, files)); err != nil {
		return nil, err
	}
	for w := range env.Workers {
		m.Stage(w)
	}
	rest, err := old.AppendRest(nil)
	if err != nil {
		return nil, err
	}
	return m, m.Enter(rest)
}

// handOver has another module go on with the connections, in the same memory.
func (r *rig) handOver() {
	m, err := successor(r.t, r.Module, r.Config(), rigEnv())
	if err != nil {
		r.t.Fatal(err)
	}
	r.goOn(m)
}

func (r *rig) goOn(m *Module) {
	m.Begin()
	r.Left()
	old := r.Module
	r.Module, r.stage = m, m.stages[0]
	for _, s := range old.stages {
		if s.memory != nil || s.table.used != 0 {
			r.t.Error("the module of before has connections")
		}
	}
}

// withHandOvers runs a test with rigs whose connections go over to another module again and again.
func withHandOvers(t *testing.T, every int, f func(t *testing.T)) {
	handOvers = every
	defer func() { handOvers = 0 }()
	f(t)
}

// TestHandedOver: what becomes of packets is the same, whether or not connections go over to another module between them.
func TestHandedOver(t *testing.T) {
	for _, workers := range []int{1, 2} {
		withWorkers(t, workers, func(t *testing.T) {
			withHandOvers(t, 1, func(t *testing.T) {
				for name, f := range map[string]func(*testing.T){
					"TCP": TestTCP, "UDP": TestUDPAndOthers, "ICMP": TestICMP, "fragments": TestFragments, "reload": TestRulesAndReload, "zones": TestZones,
					"strict": TestStrictAndInvalid, "SNAT": TestSNAT, "NAT errors": TestNATErrors, "DNAT": TestDNATAndHairpin,
					"NAT fragments": TestNATFragments, "NAT reload": TestNATReload,
				} {
					t.Run(name, f)
				}
			})
			connections, share := 3*40, 8
			if workers > 1 {
				connections, share = 30_000, 0
			}
			withHandOvers(t, 97, func(t *testing.T) {
				t.Run("twin", func(t *testing.T) { againstTwin(t, 100_000, connections, share/2) })
				t.Run("NAT twin", func(t *testing.T) { againstNATTwin(t, 30_000, connections, share) })
			})
		})
	}
}

// TestHandedOverPorts: ports may have other numbers in the process that goes on, and those that it does not have leave with their connections.
func TestHandedOverPorts(t *testing.T) {
	withHandOvers(t, 1<<30, func(t *testing.T) {
		c := natConfig()
		c.SNAT[0].Ports = nil
		r := newRig(t, c)
		q := udpProbe(0, "10.0.0.1:1111", "198.51.100.7:53")
		out := outsidePort(t, r, q)
		if got := r.send(2, (&[]probe{udpProbe(2, "10.0.0.3:1", "198.51.100.7:5")}[0]).frame()); got != 0 {
			t.Fatal(got)
		}
		env := rigEnv()
		env.Ports = []pipeline.Port{{Name: "p1"}, {Name: "new"}, {Name: "p0"}}
		m, err := successor(t, r.Module, c, env)
		if err != nil {
			t.Fatal(err)
		}
		r.goOn(m)
		if err := r.stage.table.audit(0); err != nil {
			t.Error(err)
		}
		if n := r.used(); n != 1 {
			t.Errorf("%d connections, and not that of port p0 alone", n)
		}
		q.port = 2
		if again := outsidePort(t, r, q); again != out {
			t.Errorf("the connection had %s and has %s", out, again)
		}
		if n := r.used(); n != 1 {
			t.Errorf("%d connections after a packet of the one", n)
		}
		r.stage.Tick(r.now)
		for _, s := range r.Counters() {
			if want := map[string]uint64{"p0": 1}[s.Port]; s.Connections != want {
				t.Errorf("port %s has %d connections, and not %d", s.Port, s.Connections, want)
			}
		}
	})
}

// TestHandedOverRules: connections that the new process's rules do not permit or translate so end with their next packet, as by a reload.
func TestHandedOverRules(t *testing.T) {
	withHandOvers(t, 1<<30, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			change func(c *Config)
			stays  bool
		}{
			{"the same", func(*Config) {}, true},
			{"another outside address", func(c *Config) { c.SNAT = []SNAT{{Addresses: []string{"203.0.113.77"}}} }, false},
			{"one more outside address", func(c *Config) {
				c.SNAT = []SNAT{{Addresses: []string{"203.0.113.77", outsideAddr}}}
			}, true},
			{"no translation", func(c *Config) { c.SNAT, c.DNAT = nil, nil }, false},
			{"a group that denies it", func(c *Config) { c.Groups = []Group{{Name: "g", Ports: []string{"p0"}, Default: Deny}} }, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				config := natConfig()
				config.SNAT = []SNAT{{Addresses: []string{outsideAddr}}}
				r := newRig(t, config)
				q := udpProbe(0, "10.0.0.1:1111", "198.51.100.7:53")
				out := outsidePort(t, r, q)
				next := config
				c.change(&next)
				m, err := successor(t, r.Module, next, rigEnv())
				if err != nil {
					t.Fatal(err)
				}
				r.goOn(m)
				before := r.stage.table.shares[0].denied
				frame, _ := r.forward(0, q.frame())
				ended := r.stage.table.shares[0].denied != before || frame == nil
				if ended == c.stays {
					t.Errorf("ended: %v", ended)
				}
				if c.stays && outsidePort(t, r, q) != out {
					t.Errorf("the outside port is another one than %s", out)
				}
				if err := r.stage.table.audit(0); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// TestHandedOverRefused: what cannot go on is refused with its reason, and the module of before has all connections.
func TestHandedOverRefused(t *testing.T) {
	withHandOvers(t, 1<<30, func(t *testing.T) {
		plain := DefaultConfig()
		change := func(f func(o *offered)) func(*testing.T, []byte, []*os.File) ([]byte, []*os.File) {
			return func(t *testing.T, state []byte, files []*os.File) ([]byte, []*os.File) {
				var o offered
				if err := json.Unmarshal(state, &o); err != nil {
					t.Fatal(err)
				}
				f(&o)
				state, _ = json.Marshal(o)
				return state, files
			}
		}
		for _, c := range []struct {
			name  string
			from  Config
			to    func(c *Config)
			tweak func(*testing.T, []byte, []*os.File) ([]byte, []*os.File)
			want  string
		}{
			{"layout", natConfig(), nil, change(func(o *offered) { o.Layout++ }), "laid out otherwise"},
			{"size", natConfig(), func(c *Config) { c.Connections *= 2 }, nil, "65536 there and 131072 here"},
			{"size that is not", natConfig(), func(c *Config) { c.Connections *= 2 }, change(func(o *offered) { o.Connections *= 2 }), "smaller than its"},
			{"translation", plain, func(c *Config) { *c = natConfig() }, nil, "no room for translated connections"},
			{"workers", natConfig(), nil, change(func(o *offered) { o.Tables = append(o.Tables, hashSeed{}) }), "2 tables in 2 files"},
			{"one file", natConfig(), nil, func(_ *testing.T, s []byte, f []*os.File) ([]byte, []*os.File) { f[1].Close(); return s, f[:1] }, "1 tables in 1 files"},
			{"nothing", natConfig(), nil, func(_ *testing.T, _ []byte, f []*os.File) ([]byte, []*os.File) { return nil, f }, "what was offered"},
			{"another file", natConfig(), nil, func(t *testing.T, s []byte, f []*os.File) ([]byte, []*os.File) {
				f[0].Close()
				fd, err := unix.MemfdCreate("other", unix.MFD_ALLOW_SEALING)
				if err != nil {
					t.Fatal(err)
				}
				f[0] = os.NewFile(uintptr(fd), "other")
				return s, f
			}, "not sealed"},
			{"empty file", natConfig(), nil, func(t *testing.T, s []byte, f []*os.File) ([]byte, []*os.File) {
				f[0].Close()
				m := newMemory(false)
				f[0] = duplicates(t, m.files())[0]
				return s, f
			}, "smaller than its"},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, c.from)
				q := udpProbe(0, "10.0.0.1:1111", "198.51.100.7:53")
				r.send(0, q.frame())
				to := c.from
				if c.to != nil {
					c.to(&to)
				}
				m, err := New(to, rigEnv())
				if err != nil {
					t.Fatal(err)
				}
				state, files, err := r.Share()
				if err != nil {
					t.Fatal(err)
				}
				files = duplicates(t, files)
				if c.tweak != nil {
					state, files = c.tweak(t, state, files)
				}
				if err := m.Take(state, files); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, and nothing of %q", err, c.want)
				}
				if err := r.stage.table.audit(0); err != nil || r.used() != 1 {
					t.Errorf("%d connections, %v", r.used(), err)
				}
			})
		}
		env := rigEnv()
		env.Shared = false
		m, err := New(plain, env)
		if err != nil {
			t.Fatal(err)
		}
		m.Stage(0)
		if _, _, err := m.Share(); err == nil || !strings.Contains(err.Error(), "memory of this process alone") {
			t.Errorf("memory that is not shared: %v", err)
		}
	})
}

// filled is a rig with connections of all kinds.
func filled(t testing.TB) *rig {
	t.Helper()
	c := natConfig()
	c.Connections = 256
	r := newRig(t, c)
	for i := range 60 {
		q := udpProbe(0, fmt.Sprintf("10.0.0.%d:%d", i%7+1, 1000+i), fmt.Sprintf("198.51.100.%d:53", i+1))
		r.send(0, q.frame())
		s := tcpProbe(0, fmt.Sprintf("10.0.1.%d:%d", i%5+1, 1000+i), "198.51.100.7:80", flagSYN, 1, 0, 0)
		r.send(0, s.frame())
	}
	if r.used() < 80 {
		t.Fatalf("%d connections", r.used())
	}
	return r
}

// TestHandedOverDamaged: memory that is damaged anywhere is refused where the audit is on, or makes no difference; without it, what takes the memory over survives.
func TestHandedOverDamaged(t *testing.T) {
	withHandOvers(t, 1<<30, func(t *testing.T) {
		random, refused := rand.New(rand.NewPCG(33, 1)), 0
		for range 300 {
			r := filled(t)
			tab := r.stage.table
			where := ""
			switch i := random.IntN(len(tab.entries)); random.IntN(11) {
			case 0:
				at := random.IntN(len(tab.slots))
				tab.slots[at] ^= 1 << random.IntN(32)
				where = fmt.Sprintf("slot %d: %x", at, tab.slots[at])
			case 1:
				tab.entries[i].next, where = random.Uint32(), "next"
			case 2:
				tab.entries[i].prev, where = random.Uint32N(256), "prev"
			case 3:
				tab.entries[i].payer, where = uint16(random.Uint32()), "payer"
			case 4:
				tab.entries[i].state, where = uint8(random.Uint32()), "state"
			case 5:
				tab.entries[i].flags ^= 1<<random.IntN(5) | flagInUse
				where = "flags"
			case 6:
				tab.aliases[i].snat, where = handle(random.Uint32()), "snat"
			case 7:
				r.stage.nat.heads[random.IntN(natHeads)], where = random.Uint32(), "heads"
			case 8:
				o := &r.stage.nat.outside[0]
				o.owners[random.IntN(len(o.owners))].next, where = random.Uint32(), "next block"
			case 9:
				tab.entries[i].inPort, where = uint16(random.Uint32()), "inPort"
			case 10:
				tab.entries[i].replyPort, where = uint16(random.Uint32()), "replyPort"
			}
			for _, audit := range []bool{false, true} {
				env := rigEnv()
				env.Audit = audit
				m, err := successor(t, r.Module, r.Config(), env)
				switch {
				case err != nil:
					refused++
				case audit:
					if err := m.stages[0].table.audit(0); err != nil {
						t.Errorf("%s: taken, and then %v", where, err)
					}
				}
			}
		}
		if refused < 200 {
			t.Errorf("%d of 600 were refused", refused)
		}
	})
}

// TestHandedOverPortRange: a connection whose ports are none of the process that it comes from is refused, whether or not it is in use, and with the audit off.
func TestHandedOverPortRange(t *testing.T) {
	withHandOvers(t, 1<<30, func(t *testing.T) {
		ports := uint16(len(rigEnv().Ports))
		for _, c := range []struct {
			name string
			set  func(e *entry, port uint16)
			port uint16
			good bool
		}{
			{"payer", func(e *entry, port uint16) { e.payer = port }, ports, false},
			{"port that began it", func(e *entry, port uint16) { e.inPort = port }, ports, false},
			{"port that began it, none", func(e *entry, port uint16) { e.inPort = port }, noPort, false},
			{"port that answers", func(e *entry, port uint16) { e.replyPort = port }, ports, false},
			{"port that answers, below the marks", func(e *entry, port uint16) { e.replyPort = port }, gonePort - 1, false},
			{"last port", func(e *entry, port uint16) { e.inPort, e.replyPort = port, port }, ports - 1, true},
			{"port that is gone", func(e *entry, port uint16) { e.replyPort = port }, gonePort, true},
			{"no answer", func(e *entry, port uint16) { e.replyPort = port }, noPort, true},
		} {
			for _, used := range []bool{false, true} {
				r := filled(t)
				e := &r.stage.table.entries[r.stage.table.free]
				for i := range r.stage.table.entries {
					if used && r.stage.table.entries[i].flags&flagInUse != 0 {
						e = &r.stage.table.entries[i]
					}
				}
				c.set(e, c.port)
				env := rigEnv()
				env.Audit = false
				_, err := successor(t, r.Module, r.Config(), env)
				if c.good != (err == nil) || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%d", c.port)) {
					t.Errorf("%s %d, in use: %v: %v", c.name, c.port, used, err)
				}
			}
		}
	})
}

// TestHandedOverFewerPorts: what a removed connection had of ports that there are no more does not refuse the takeover after the next one.
func TestHandedOverFewerPorts(t *testing.T) {
	withHandOvers(t, 1<<30, func(t *testing.T) {
		r := filled(t)
		q := udpProbe(2, "10.0.0.3:1", "198.51.100.7:5")
		if got := r.send(2, q.frame()); got != 0 {
			t.Fatal(got)
		}
		for _, names := range [][]string{{"p0"}, {"p0"}} {
			env := rigEnv()
			env.Ports = nil
			for _, name := range names {
				env.Ports = append(env.Ports, pipeline.Port{Name: name})
			}
			c := r.Config()
			c.Groups, c.SNAT[0].Ports = nil, nil
			m, err := successor(t, r.Module, c, env)
			if err != nil {
				t.Fatal(err)
			}
			r.goOn(m)
			if err := r.stage.table.audit(0); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzEnter: no bytes of what crosses the socket crash the module that reads them, or have it go on with lists that it then does not survive.
func FuzzEnter(f *testing.F) {
	handOvers = 1 << 30
	defer func() { handOvers = 0 }()
	r := filled(f)
	state, _, err := r.Share()
	if err != nil {
		f.Fatal(err)
	}
	rest, err := r.AppendRest(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state, rest)
	f.Add(state, rest[:len(rest)-1])
	f.Add([]byte("{}"), []byte{})
	f.Fuzz(func(t *testing.T, state, rest []byte) {
		env := testEnv
		env.Workers, env.Shared, env.Audit = 1, true, true
		m, err := New(r.Config(), env)
		if err != nil {
			t.Fatal(err)
		}
		_, files, err := r.Share()
		if err != nil {
			t.Fatal(err)
		}
		if m.Take(state, duplicates(t, files)) != nil {
			return
		}
		m.Stage(0)
		if m.Enter(rest) != nil {
			return
		}
		if err := m.stages[0].table.audit(0); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHandedOverClock: a module that goes on does not sweep more at once than the one before would have.
func TestHandedOverClock(t *testing.T) {
	withHandOvers(t, 1<<30, func(t *testing.T) {
		r := filled(t)
		r.now += int64(time.Hour)
		r.stage.swept = r.now - period
		before := r.used()
		r.handOver()
		r.stage.Tick(r.now)
		if got := r.used(); before-got > 2 {
			t.Errorf("%d of %d connections were swept at once", before-got, before)
		}
	})
}
