package acl

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
)

// TestManyRules builds the largest rule set, with values of its own in most
// fields of each rule, and finds each rule again. Memory is
// bounded: with whole rows the classes would take 2.5 GB.
func TestManyRules(t *testing.T) {
	c := Config{Default: Permit}
	most := MaxRules
	if testing.Short() {
		most /= 8
	}
	for i := range most {
		c.Rules = append(c.Rules, Rule{
			Action: Deny, Src: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Dst: fmt.Sprintf("2%d.%d.%d.0/24", i&7, i>>8&255, i&255),
			SrcMAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8&255, i&255), Protocol: "tcp", DstPort: fmt.Sprint(i),
		})
	}
	var before, built, live runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	m := newModule(t, c)
	took := time.Since(start)
	runtime.ReadMemStats(&built)
	runtime.GC()
	runtime.ReadMemStats(&live)
	kept := (int64(live.HeapAlloc) - int64(before.HeapAlloc)) >> 20
	if kept > 256 {
		t.Errorf("%d MB kept", kept)
	}
	t.Logf("%d rules: %v, %d MB allocated, %d MB kept", len(c.Rules), took,
		(built.TotalAlloc-before.TotalAlloc)>>20, kept)
	rules := m.rules.Load()
	if len(rules.shortlists) == 0 {
		t.Fatal("no shortlists")
	}
	s := m.Stage(0).(*stage)
	l := &s.looks
	l.lives[0] = packet.BatchSize - 1
	listed := func() uint32 {
		if rest := s.look(rules, l.lives[:1]); len(rest) != 0 {
			t.Fatal("a packet is left to the rows")
		}
		return l.decides[packet.BatchSize-1]
	}
	f, tuple := &l.fields[packet.BatchSize-1], &l.tuples[packet.BatchSize-1]
	for i := range rules.rules {
		r := &rules.rules[i]
		*f = fields{
			srcMAC: r.srcMAC.bits, src: r.src.Addr(), dst: r.dst.Addr(), proto: 6, ports: true,
			dstPort: r.dstPort.low, etherType: 0x0800, vlan: vlanNone, flags: 2,
		}
		rules.classes(l, l.lives[:1], rules.active)
		if v, _, pure := rules.find(f, tuple, 0); v.rule != uint32(i) || !pure {
			t.Fatalf("a packet of rule %d meets rule %d", i, v.rule)
		}
		if v := listed(); v != uint32(i) {
			t.Fatalf("by shortlists, a packet of rule %d meets rule %d", i, v)
		}
		f.dstPort++
		rules.classes(l, l.lives[:1], rules.active)
		if v, _, _ := rules.find(f, tuple, 0); v.rule != uint32(len(rules.rules)) {
			t.Fatalf("a packet of no rule meets rule %d", v.rule)
		}
		if v := listed(); v != uint32(len(rules.rules)) {
			t.Fatalf("by shortlists, a packet of no rule meets rule %d", v)
		}
	}
}
