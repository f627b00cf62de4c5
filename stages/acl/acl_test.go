package acl

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestTwin compares half a million packets with a walk through the rules, one by one.
func TestTwin(t *testing.T) {
	const packets = 500_000
	b := newBatch(t)
	done := 0
	reached := map[string]int{ // batches, or packets, that went a way
		"shortlists": 0, "shortlists, cache": 0, "rows": 0, "rows, cache": 0, "several shortlists": 0, "several shortlists, counting": 0,
		"rules that are verified": 0, "packets of lists too long": 0, "packets that shortlists decide": 0, "packets that the cache knew": 0,
	}
	for seed := uint64(0); done < packets; seed++ {
		r := rand.New(rand.NewPCG(seed, 11))
		c := twinConfig(r, seed)
		m := newModule(t, c)
		set, err := c.compile(pipeline.PortNames(m.env.Ports))
		if err != nil {
			t.Fatal(err)
		}
		rules := m.rules.Load()
		if r.IntN(4) == 0 {
			rules.shortlists = nil
		}
		if rules.caches = nil; r.IntN(4) != 0 {
			rules.remember(1, pick(r, 1, 16, 1024))
		}
		way := "rows"
		if len(rules.shortlists) != 0 {
			way = "shortlists"
		}
		if rules.caches != nil {
			way += ", cache"
		}
		reached[way]++
		if len(rules.shortlists) > 1 {
			reached["several shortlists"]++
			if rules.counting {
				reached["several shortlists, counting"]++
			}
		}
		for i := range rules.filters {
			if rules.filters[i].verify && len(rules.shortlists) != 0 {
				reached["rules that are verified"]++
			}
		}
		s := m.Stage(0).(*stage)
		want := make([]hit, len(set.rules)+1)
		for batch := range 50 {
			for i := range b.Pkts {
				if batch == 0 || r.IntN(4) == 0 {
					randomPacket(r, b, i)
				} else {
					varyPacket(r, b, i)
				}
			}
			b.Dropped = 0
			s.Process(b)
			for i := range b.Pkts {
				permit := walk(set, b, &b.Pkts[i], want)
				if permit != (b.Pkts[i].Reason == 0) {
					t.Fatalf("seed %d: the rules permit %v, the stage says %v: %s", seed, permit, b.Pkts[i].Reason, s.Explain(b, &b.Pkts[i]))
				}
				switch {
				case len(rules.shortlists) == 0:
				case s.short[i]:
					reached["packets that shortlists decide"]++
				case s.fields[i].unknown == 0:
					reached["packets of lists too long"]++
				}
			}
			done += len(b.Pkts)
		}
		if len(rules.shortlists) != 0 {
			reached["packets that the cache knew"] += int(s.known)
		}
		for i := range want {
			if s.hits[i] != want[i] {
				t.Fatalf("seed %d: rule %d of %d counts %+v, not %+v", seed, i, len(set.rules), s.hits[i], want[i])
			}
		}
	}
	for way, n := range reached {
		if n == 0 {
			t.Errorf("not reached: %s", way)
		}
	}
	t.Log(reached)
}

// twinConfig is a random set of rules, of one of the kinds that are found in different ways.
func twinConfig(r *rand.Rand, seed uint64) Config {
	c := Config{Default: pick(r, Permit, Deny)}
	for range pick(r, 0, 1, 10, 63, 64, 65, 300, 700) {
		c.Rules = append(c.Rules, randomRule(r))
	}
	for i := range c.Rules {
		rule := &c.Rules[i]
		switch seed % 5 {
		case 0, 1: // such that a flow's packets are known by addresses and ports
			rule.SrcMAC, rule.DstMAC, rule.VLAN = "", "", ""
			if rule.Action == Count {
				rule.Action = Deny
			}
			if seed%5 == 1 {
				rule.InPorts, rule.TCPFlags = nil, ""
			}
		case 2: // of one field each, or two, so several shortlists share them
			*rule = Rule{Action: rule.Action, VLAN: rule.VLAN}
			a := randomAddr4(r)
			address := fmt.Sprintf("10.%d.%d.%d", a[1], a[2], a[3])
			switch r.IntN(3) {
			case 0:
				rule.Src = address
			case 1:
				rule.Dst = address
			default:
				rule.DstPort = fmt.Sprint(r.IntN(6) * 1000)
			}
		case 3: // many of one address, so its list is too long
			a := randomAddr4(r)
			rule.Dst, rule.Src = fmt.Sprintf("10.%d.%d.%d", a[1], a[2], a[3]), ""
			if i%3 == 0 {
				rule.Dst = "10.0.0.0/22"
			}
			rule.InPorts, rule.VLAN, rule.EtherType = nil, "", ""
			if i > 30 && r.IntN(4) != 0 && rule.Action != Count {
				rule.SrcPort = fmt.Sprint(r.IntN(6) * 1000)
			}
		}
	}
	return c
}

// walk is the slow twin: it returns the packet's fate and counts it.
func walk(set *ruleSet, b *packet.Batch, p *packet.Packet, hits []hit) bool {
	f := fieldsOf(p, b.Data(p))
	for i := range set.rules {
		if !set.rules[i].mayMatch(&f) {
			continue
		}
		hits[i].packets++
		hits[i].bytes += uint64(p.WireLen)
		if set.rules[i].action != actionCount {
			return set.rules[i].action == actionPermit
		}
	}
	hits[len(set.rules)].packets++
	hits[len(set.rules)].bytes += uint64(p.WireLen)
	return set.permit
}

func TestFaults(t *testing.T) {
	c := Config{Default: "perhaps", Rules: []Rule{
		{Action: "drop", InPorts: []string{"p9"}, SrcMAC: "02:00", DstMAC: "02:00:00:00:00:01/ff:00:00:00:00:00"},
		{Action: Permit, VLAN: "4096", EtherType: "ipx", Src: "10.0.0.1/8", Dst: "nowhere"},
		{Action: Permit, Src: "10.0.0.0/8", Dst: "2001:db8::/32", Protocol: "256", SrcPort: "9-8", DstPort: "http"},
		{Action: Permit, Protocol: "udp", TCPFlags: "syn", Name: "a"},
		{Action: Permit, TCPFlags: "syn,!syn", Name: "a"},
		{Action: Permit, TCPFlags: "xmas", Name: "default"},
	}}
	err := c.Validate([]string{"p0"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`default = "perhaps"`, `rule[0].action: "drop"`, `rule[0].in_ports: port "p9"`, `rule[0].src_mac: "02:00"`, "rule[0].dst_mac: ",
		`rule[1].vlan: "4096"`, `rule[1].ethertype: "ipx"`, "rule[1].src: ", "write 10.0.0.0/8", `rule[1].dst: "nowhere"`,
		"rule[2].dst: 2001:db8::/32 is of another IP version", `rule[2].protocol: "256"`, `rule[2].src_port: "9-8"`, `rule[2].dst_port: "http"`,
		"rule[3].tcp_flags: ", `rule[4].name: rule[3] is called "a"`, "both set and not set", `"xmas"`, `rule[5].name: "default"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if err := (&Config{Default: Permit, Rules: make([]Rule, MaxRules+1)}).Validate(nil); err == nil {
		t.Error("too many rules: no error")
	}
}

// TestSetConfig changes the rules while workers run: every packet is counted
// once, by the rules before or behind, and named rules go on counting.
func TestSetConfig(t *testing.T) {
	env := testEnv
	env.Workers = 2
	m, err := New(Config{Default: Deny, Rules: []Rule{{Name: "all", Action: Permit}}}, env)
	if err != nil {
		t.Fatal(err)
	}
	const batches = 3000
	var workers sync.WaitGroup
	for w := range env.Workers {
		s := m.Stage(w).(*stage)
		b := newBatch(t)
		r := rand.New(rand.NewPCG(uint64(w), 3))
		for i := range b.Pkts {
			randomPacket(r, b, i)
		}
		workers.Go(func() {
			for range batches {
				s.Tick(0)
				s.Process(b)
				for i := range b.Pkts {
					if b.Pkts[i].Reason != 0 {
						t.Error("dropped a packet that both rule sets permit")
						return
					}
				}
			}
			s.Finish(0)
		})
	}
	for i := range 50 {
		c := Config{Default: Deny, Rules: []Rule{{Name: fmt.Sprint("new", i), Action: Deny, VLAN: "999"}, {Name: "all", Action: Permit}}}
		if err := m.setConfig(c); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			m.Counters()
		}
	}
	workers.Wait()
	counters := m.Counters()
	if got := counters[1]; got.Name != "all" || got.Packets != 2*batches*packet.BatchSize {
		t.Errorf("counters %+v, want %d packets", counters, 2*batches*packet.BatchSize)
	}
	n := 0
	m.Metrics(func(pipeline.Metric) { n++ })
	if n != 6 {
		t.Errorf("%d metrics", n)
	}
	if err := m.setConfig(Config{}); err == nil || m.Config().Default != Deny {
		t.Error("a wrong configuration was taken")
	}
}

// TestOldRulesGo: rules that were replaced are not kept until somebody asks for
// counts, and names that are gone leave no counts behind.
func TestOldRulesGo(t *testing.T) {
	m := newModule(t, DefaultConfig())
	s := m.Stage(0).(*stage)
	s.Tick(0)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				s.Tick(0)
			}
		}
	}()
	for i := range 20 {
		if err := m.setConfig(Config{Default: Permit, Rules: []Rule{{Name: fmt.Sprint("n", i), Action: Deny}}}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-ended
	if len(m.retired) != 0 || len(m.folded) > 2 {
		t.Errorf("%d rule sets and %d names are kept", len(m.retired), len(m.folded))
	}
}

// TestCountersAtTheEnd reads counts while workers end: for the race detector.
func TestCountersAtTheEnd(t *testing.T) {
	env := testEnv
	env.Workers = 2
	b := [2]*packet.Batch{newBatch(t), newBatch(t)}
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		m, err := New(Config{Default: Deny, Rules: []Rule{{Action: Permit}}}, env)
		if err != nil {
			t.Fatal(err)
		}
		var workers sync.WaitGroup
		for w := range env.Workers {
			s := m.Stage(w).(*stage)
			for i := range b[w].Pkts {
				randomPacket(r, b[w], i)
			}
			workers.Go(func() {
				for range 20 {
					s.Tick(0)
					s.Process(b[w])
				}
				s.Finish(0)
			})
		}
		for range 5 {
			m.Counters()
		}
		workers.Wait()
		if got := m.Counters()[0].Packets; got != 2*20*packet.BatchSize {
			t.Fatalf("%d packets counted", got)
		}
	}
}

func TestExplain(t *testing.T) {
	m := newModule(t, Config{Default: Deny, Rules: []Rule{{Name: "see", Action: Count}, {Name: "arp", Action: Permit, EtherType: "arp"}}})
	s := m.Stage(0).(*stage)
	b := newBatch(t)
	p := &b.Pkts[0]
	p.Len, p.EtherType = 60, 0x0806
	if got, want := s.Explain(b, p), `rule "arp" permits it; counted by ["see"]`; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	p.EtherType = 0x88cc
	if got, want := s.Explain(b, p), `no rule, so the default denies it; counted by ["see"]`; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	for way := range 4 {
		s, b := benchStage(t, 1000)
		if way&1 != 0 {
			s.rules.shortlists = nil
		}
		if way&2 != 0 {
			s.rules.remember(1, 16)
			s.adopt(s.rules)
		}
		if n := testing.AllocsPerRun(100, func() { revive(b); s.Process(b) }); n != 0 {
			t.Errorf("%v allocations; rows %v, a cache %v", n, way&1 != 0, way&2 != 0)
		}
	}
}

func revive(b *packet.Batch) {
	b.Dropped = 0
	for i := range b.Pkts {
		b.Pkts[i].Reason = 0
	}
}

// benchStage is a firewall of n rules on prefixes, protocols and ports, none of
// which is of the small world, and packets of 64 flows that meet the last ones.
func benchStage(t testing.TB, n int) (*stage, *packet.Batch) {
	r := rand.New(rand.NewPCG(uint64(n), 5))
	c := Config{Default: Permit}
	for range n {
		c.Rules = append(c.Rules, Rule{
			Action: Deny, Src: fmt.Sprintf("%d.%d.%d.0/24", 1+r.IntN(200), r.IntN(256), r.IntN(256)),
			Dst: fmt.Sprintf("%d.%d.0.0/16", 1+r.IntN(200), r.IntN(256)), Protocol: pick(r, "tcp", "udp"), DstPort: fmt.Sprint(r.IntN(65536)),
		})
	}
	m := newModule(t, c)
	b := newBatch(t)
	for i := range b.Pkts {
		for b.Pkts[i].Flags&packet.FlagPorts == 0 {
			randomPacket(r, b, i)
		}
	}
	return m.Stage(0).(*stage), b
}

func BenchmarkACL(b *testing.B) {
	for _, rules := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
			s, batch := benchStage(b, rules)
			r := rand.New(rand.NewPCG(1, 2))
			// Random addresses: every packet of a flow of its own.
			var flows [1 << 14][8]byte
			for i := range flows {
				for k := range flows[i] {
					flows[i][k] = byte(r.Uint32())
				}
			}
			n := 0
			for b.Loop() {
				for i := range batch.Pkts {
					p := &batch.Pkts[i]
					copy(batch.Data(p)[26:], flows[n%len(flows)][:])
					p.DstPort = uint16(n)
					n++
				}
				revive(batch)
				s.Process(batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/packet")
		})
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("10.0.0.0/8", "::/0", "tcp", "1-2", "syn,!ack", "02:00:00:00:00:01/ff:ff:ff:ff:ff:ff", "12")
	f.Fuzz(func(t *testing.T, src, dst, proto, port, flags, mac, vlan string) {
		c := Config{Default: Permit, Rules: []Rule{{Action: Deny, Src: src, Dst: dst, Protocol: proto, DstPort: port, TCPFlags: flags, SrcMAC: mac, VLAN: vlan}}}
		set, err := c.compile([]string{"p0"})
		if err != nil {
			var joined interface{ Unwrap() []error }
			if !errors.As(err, &joined) {
				t.Errorf("an error without keys: %v", err)
			}
			return
		}
		newClassifier(set, 1, 1)
	})
}

// setConfig replaces the rules and the default. Packets meet the old rules or
// the new ones, and none is lost. On error nothing changes. It returns once the
// workers have left the old rules, at once or within a tenth of a second.
func (m *Module) setConfig(c Config) error {
	m.mu.Lock()
	ports := m.env.Ports
	m.mu.Unlock()
	commit, err := m.Prepare(c, ports)
	if err != nil {
		return err
	}
	commit()
	return nil
}
