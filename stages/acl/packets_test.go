package acl

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

func ethernet(tags []uint16, etherType uint16, payload []byte) []byte {
	b := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	for i, tci := range tags {
		tpid := uint16(0x8100)
		if i < len(tags)-1 {
			tpid = 0x88a8
		}
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, tpid), tci)
	}
	return append(binary.BigEndian.AppendUint16(b, etherType), payload...)
}

// ipv4 is a packet from 10.0.0.1 to 10.0.0.2; fragment is the field of flags and offset.
func ipv4(proto byte, fragment uint16, payload []byte) []byte {
	b := []byte{0x45, 0, 0, 0, 0, 1, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(b[6:], fragment)
	return append(b, payload...)
}

// ipv6 is a packet from ::ffff:10.0.0.1 to 2001:db8::2, behind a hop-by-hop header if asked.
func ipv6(hopByHop bool, proto byte, payload []byte) []byte {
	if hopByHop {
		payload = append([]byte{proto, 0, 1, 4, 0, 0, 0, 0}, payload...)
		proto = 0
	}
	b := []byte{0x60, 0, 0, 0, 0, 0, proto, 64, 39: 2}
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	copy(b[18:], []byte{0xff, 0xff, 10, 0, 0, 1})
	copy(b[24:], []byte{0x20, 1, 0xd, 0xb8})
	return append(b, payload...)
}

func tcp(flags byte) []byte {
	return []byte{0x30, 0x39, 0, 22, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0}
}

// TestPackets runs packets through the parser of the switch and one rule that
// denies.
func TestPackets(t *testing.T) {
	const syn, moreFragments = 2, 0x2000
	port22 := Rule{Protocol: "tcp", DstPort: "22"}
	whole := ethernet(nil, 0x0800, ipv4(6, 0, tcp(syn)))
	for name, c := range map[string]struct {
		frame   []byte
		wireLen int // 0: the frame's
		rule    Rule
		matches bool
	}{
		"tcp":                           {whole, 0, port22, true},
		"first fragment":                {ethernet(nil, 0x0800, ipv4(6, moreFragments, tcp(syn))), 0, port22, true},
		"later fragment":                {ethernet(nil, 0x0800, ipv4(6, 5, tcp(syn))), 0, port22, false},
		"later fragment, all ports":     {ethernet(nil, 0x0800, ipv4(6, 5, tcp(syn))), 0, Rule{DstPort: "0-65535"}, false},
		"later fragment by protocol":    {ethernet(nil, 0x0800, ipv4(6, 5, tcp(syn))), 0, Rule{Protocol: "tcp"}, true},
		"later fragment, flags":         {ethernet(nil, 0x0800, ipv4(6, 5, tcp(syn))), 0, Rule{TCPFlags: "!rst"}, false},
		"hop-by-hop header":             {ethernet(nil, 0x86dd, ipv6(true, 6, tcp(syn))), 0, port22, true},
		"hop-by-hop header, flags":      {ethernet(nil, 0x86dd, ipv6(true, 6, tcp(syn))), 0, Rule{TCPFlags: "syn,!ack"}, true},
		"mapped address in all of IPv6": {ethernet(nil, 0x86dd, ipv6(false, 6, tcp(syn))), 0, Rule{Src: "::/0"}, true},
		"mapped address is not IPv4":    {ethernet(nil, 0x86dd, ipv6(false, 6, tcp(syn))), 0, Rule{Src: "10.0.0.0/8"}, false},
		"IPv4 is not IPv6":              {whole, 0, Rule{Src: "::/0"}, false},
		"priority tag is VLAN 0":        {ethernet([]uint16{5 << 13}, 0x0800, ipv4(6, 0, tcp(syn))), 0, Rule{VLAN: "0"}, true},
		"priority tag is a tag":         {ethernet([]uint16{5 << 13}, 0x0800, ipv4(6, 0, tcp(syn))), 0, Rule{VLAN: "none"}, false},
		"priority is no VLAN":           {ethernet([]uint16{5<<13 | 7}, 0x0800, ipv4(6, 0, tcp(syn))), 0, Rule{VLAN: "7"}, true},
		"the outer tag counts":          {ethernet([]uint16{7, 8}, 0x0800, ipv4(6, 0, tcp(syn))), 0, Rule{VLAN: "8"}, false},
		"type and ports behind tags":    {ethernet([]uint16{7, 8}, 0x0800, ipv4(6, 0, tcp(syn))), 0, Rule{EtherType: "ipv4", DstPort: "22"}, true},
		"capture cut behind IP":         {whole[:34], len(whole), port22, false},
		"capture cut behind IP, prefix": {whole[:34], len(whole), Rule{Dst: "10.0.0.2", Protocol: "tcp"}, true},
		"capture cut in flags":          {whole[:34+13], len(whole), Rule{TCPFlags: "syn"}, false},
		"not IP":                        {ethernet(nil, 0x88b5, make([]byte, 46)), 0, Rule{Src: "0.0.0.0/0"}, false},
		"not IP, no protocol":           {ethernet(nil, 0x88b5, make([]byte, 46)), 0, Rule{Protocol: "0"}, false},
		"bare Ethernet header":          {ethernet(nil, 0x88b5, nil), 0, Rule{SrcMAC: "02:00:00:00:00:02"}, true},
	} {
		c.rule.Action = Deny
		b, stage := parsed(t, []Rule{c.rule}, c.frame, max(c.wireLen, len(c.frame)))
		stage.Process(b)
		p := &b.Pkts[0]
		if got := p.Reason == reasonDenied; got != c.matches {
			t.Errorf("%s: the rule matches: %v, reason %v", name, got, p.Reason)
		}
	}
}

// TestCacheForgets changes large rule sets, whose verdicts are cached, between
// batches of the same packets.
func TestCacheForgets(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	b := newBatch(t)
	for i := range b.Pkts {
		randomPacket(r, b, i)
	}
	m := newModule(t, DefaultConfig())
	s := m.Stage(0).(*stage)
	fates := map[bool]int{}
	for round := range 30 {
		c := Config{Default: pick(r, Permit, Deny)}
		for range 100 + r.IntN(200) {
			c.Rules = append(c.Rules, randomRule(r))
		}
		if err := m.setConfig(c); err != nil {
			t.Fatal(err)
		}
		m.rules.Load().remember(1, 64) // though there are few rules
		set, err := c.compile(pipeline.PortNames(m.env.Ports))
		if err != nil {
			t.Fatal(err)
		}
		for pass := range 2 { // to the cache, and out of it
			revive(b)
			s.Process(b)
			hits := make([]hit, len(set.rules)+1)
			for i := range b.Pkts {
				permit := walk(set, b, &b.Pkts[i], hits)
				if permit != (b.Pkts[i].Reason == 0) {
					t.Fatalf("round %d, pass %d: the rules permit %v: %s", round, pass, permit, s.Explain(b, &b.Pkts[i]))
				}
				fates[permit]++
			}
		}
	}
	if fates[true] == 0 || fates[false] == 0 {
		t.Errorf("all packets had one fate: %v", fates)
	}
}

// TestOnePortNoRules: the smallest switch, and rules that leave it nothing to look at.
func TestOnePortNoRules(t *testing.T) {
	env := testEnv
	env.Ports = env.Ports[:1]
	b := newBatch(t)
	r := rand.New(rand.NewPCG(8, 8))
	for i := range b.Pkts {
		randomPacket(r, b, i)
		b.Pkts[i].InPort = 0
	}
	for _, c := range []struct {
		rules   []Rule
		dropped int
	}{{nil, 0}, {[]Rule{{Action: Count}}, 0}, {[]Rule{{Action: Count}, {Action: Deny, InPorts: []string{"p0"}}}, packet.BatchSize}} {
		m, err := New(Config{Default: Permit, Rules: c.rules}, env)
		if err != nil {
			t.Fatal(err)
		}
		s := m.Stage(0).(*stage)
		revive(b)
		s.Process(b)
		s.Finish(0)
		total := uint64(0)
		for _, rule := range m.Counters() {
			if rule.Action != Count {
				total += rule.Packets
			}
		}
		if b.Dropped != c.dropped || total != packet.BatchSize {
			t.Errorf("%d rules: %d dropped, %d counted", len(c.rules), b.Dropped, total)
		}
	}
}

// TestTinyFragments: fragments cannot hide ports or flags from rules that look at
// them, nor put others over them; where no rule does, they are nobody's business.
func TestTinyFragments(t *testing.T) {
	const ack, more = 16, 0x2000
	denySSH := []Rule{{Action: Deny, Protocol: "tcp", DstPort: "22"}}
	denySYN := []Rule{{Action: Deny, TCPFlags: "syn,!ack"}}
	denyNet := []Rule{{Action: Deny, Dst: "192.0.2.0/24"}}
	whole := tcp(ack)
	whole[3] = 80 // not what the rules deny
	udp := []byte{0x30, 0x39, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}
	sctp := []byte{0x30, 0x39, 0, 53, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4}
	fragment6 := func(proto byte, offset uint16, payload []byte) []byte {
		h := []byte{proto, 0, byte(offset * 8 >> 8), byte(offset*8) | 1, 0, 0, 0, 7}
		return ethernet(nil, 0x86dd, ipv6(false, 44, append(h, payload...)))
	}
	const passes = packet.Reason(0)
	for name, c := range map[string]struct {
		frame []byte
		rules []Rule
		want  packet.Reason
	}{
		"first, with 8 bytes of TCP":         {ethernet(nil, 0x0800, ipv4(6, more, whole[:8])), denySSH, reasonTinyFragment},
		"first, with 16 bytes of TCP":        {ethernet(nil, 0x0800, ipv4(6, more, whole[:16])), denySYN, reasonTinyFragment},
		"first, with all of TCP":             {ethernet(nil, 0x0800, ipv4(6, more, whole)), denySSH, passes},
		"first, denied":                      {ethernet(nil, 0x0800, ipv4(6, more, tcp(ack))), denySSH, reasonDenied},
		"later, over the flags":              {ethernet(nil, 0x0800, ipv4(6, more|1, whole[:16])), denySYN, reasonTinyFragment},
		"last, over the flags":               {ethernet(nil, 0x0800, ipv4(6, 1, whole[:16])), denySYN, reasonTinyFragment},
		"later, over the end of the header":  {ethernet(nil, 0x0800, ipv4(6, 2, whole[:16])), denySYN, reasonTinyFragment},
		"later, behind the header":           {ethernet(nil, 0x0800, ipv4(6, 3, whole[:16])), denySYN, passes},
		"later of UDP, behind its header":    {ethernet(nil, 0x0800, ipv4(17, 1, udp)), denySSH, passes},
		"first, with all of UDP's header":    {ethernet(nil, 0x0800, ipv4(17, more, udp)), denySSH, passes},
		"first, with 4 bytes of UDP":         {ethernet(nil, 0x0800, ipv4(17, more, udp[:4])), denySSH, reasonTinyFragment},
		"first, with 8 bytes of SCTP":        {ethernet(nil, 0x0800, ipv4(132, more, sctp[:8])), denySSH, reasonTinyFragment},
		"later, over SCTP's header":          {ethernet(nil, 0x0800, ipv4(132, 1, sctp)), denySSH, reasonTinyFragment},
		"first of a protocol without ports":  {ethernet(nil, 0x0800, ipv4(50, more, udp[:8])), denySSH, passes},
		"IPv6, first, with 8 bytes of TCP":   {fragment6(6, 0, whole[:8]), denySSH, reasonTinyFragment},
		"IPv6, first, with all of TCP":       {fragment6(6, 0, whole), denySSH, passes},
		"IPv6, later, over the flags":        {fragment6(6, 1, whole[:16]), denySSH, reasonTinyFragment},
		"IPv6, later, behind the header":     {fragment6(6, 3, whole[:16]), denySSH, passes},
		"no rule looks at ports, first tiny": {ethernet(nil, 0x0800, ipv4(6, more, whole[:8])), denyNet, passes},
		"no rule looks at ports, later tiny": {ethernet(nil, 0x0800, ipv4(6, 1, whole[:16])), denyNet, passes},
		"no fragment":                        {ethernet(nil, 0x0800, ipv4(6, 0, whole)), denySSH, passes},
		"no fragment, and DF":                {ethernet(nil, 0x0800, ipv4(6, 0x4000, whole)), denySSH, passes},
	} {
		b, s := parsed(t, c.rules, c.frame, len(c.frame))
		p := &b.Pkts[0]
		s.Process(b)
		if p.Reason != c.want {
			t.Errorf("%s: reason %v, want %v", name, p.Reason, c.want)
		}
	}
}

// TestUnparsed: what a rule cannot see it denies if it is one that denies, and does not match otherwise.
func TestUnparsed(t *testing.T) {
	denyDNS := []Rule{{Action: Deny, Protocol: "udp", DstPort: "53"}}
	denyTelnet := []Rule{{Action: Deny, Protocol: "tcp", DstPort: "23"}}
	dns := []byte{0x30, 0x39, 0, 53, 0, 8, 0, 0}
	tags := func(n int, last uint16) []uint16 { return append(make([]uint16, n-1), last) }
	options := func(n int, proto byte, payload []byte) []byte {
		for range n {
			payload = append([]byte{proto, 0, 1, 4, 0, 0, 0, 0}, payload...)
			proto = 60
		}
		return ipv6(false, proto, payload)
	}
	jumbo := ipv6(true, 6, tcp(2))
	jumbo[4], jumbo[5] = 0, 0 // without the option, Linux takes what is there
	nine := ethernet(tags(9, 0), 0x0800, ipv4(17, 0, dns))
	snapped := ethernet(nil, 58, append([]byte{0xaa, 0xaa, 3, 0, 0, 0, 8, 0}, ipv4(17, 0, dns)...))
	bpdu := ethernet(nil, 38, append([]byte{0x42, 0x42, 3}, make([]byte, 35)...))
	shims := func(n int) []byte {
		payload, etherType := ipv4(17, 0, dns), uint16(0x0800)
		for range n {
			payload, etherType = append(shimOf(etherType), payload...), 0x88b5
		}
		return ethernet(nil, etherType, payload)
	}
	fragment6 := func(proto byte, offset uint16, payload []byte) []byte {
		h := []byte{proto, 0, byte(offset * 8 >> 8), byte(offset*8) | 1, 0, 0, 0, 7}
		return ethernet(nil, 0x86dd, ipv6(false, 44, append(h, payload...)))
	}
	const passes = packet.Reason(0)
	for name, c := range map[string]struct {
		frame   []byte
		wireLen int // 0: the frame's
		rules   []Rule
		want    packet.Reason
	}{
		"eight tags":                                {ethernet(tags(8, 0), 0x0800, ipv4(17, 0, dns)), 0, denyDNS, reasonDenied},
		"nine tags":                                 {nine, 0, denyDNS, reasonUnparsed},
		"nine tags, by prefix":                      {nine, 0, []Rule{{Action: Deny, Src: "10.0.0.0/8"}}, reasonUnparsed},
		"nine tags, by type":                        {nine, 0, []Rule{{Action: Deny, EtherType: "ipv4"}}, reasonUnparsed},
		"nine tags, permitted before":               {nine, 0, append([]Rule{{Action: Permit, SrcMAC: "02:00:00:00:00:02"}}, denyDNS...), passes},
		"nine tags, permitted by what is unknown":   {nine, 0, append([]Rule{{Action: Permit, Src: "10.0.0.0/8"}}, denyDNS...), reasonUnparsed},
		"nine tags, permitted by the type of a tag": {nine, 0, append([]Rule{{Action: Permit, EtherType: "0x8100"}}, denyDNS...), reasonUnparsed},
		"nine tags, permitted behind":               {nine, 0, append(denyDNS, Rule{Action: Permit}), reasonUnparsed},
		"nine tags, denied by MAC":                  {nine, 0, []Rule{{Action: Deny, SrcMAC: "02:00:00:00:00:02"}}, reasonDenied},
		"nine tags, another MAC":                    {nine, 0, []Rule{{Action: Deny, SrcMAC: "02:00:00:00:00:03", Dst: "10.0.0.2"}}, passes},
		"nine tags, another masked MAC":             {nine, 0, []Rule{{Action: Deny, SrcMAC: "04:00:00:00:00:00/ff:00:00:00:00:00", Dst: "10.0.0.2"}}, passes},
		"nine tags, masked MAC":                     {nine, 0, []Rule{{Action: Deny, SrcMAC: "02:00:00:00:00:00/ff:00:00:00:00:00", Dst: "10.0.0.9"}}, reasonUnparsed},
		"nine tags, another port of the switch":     {nine, 0, []Rule{{Action: Deny, InPorts: []string{"p1"}, Dst: "10.0.0.2"}}, passes},
		"nine tags, no rule denies":                 {nine, 0, []Rule{{Action: Count, DstPort: "53"}}, passes},
		"a tag behind a priority tag, outer":        {ethernet([]uint16{0, 7}, 0x0800, ipv4(17, 0, dns)), 0, []Rule{{Action: Deny, VLAN: "0"}}, reasonUnparsed},
		"a tag behind a priority tag, inner":        {ethernet([]uint16{0, 7}, 0x0800, ipv4(17, 0, dns)), 0, []Rule{{Action: Deny, VLAN: "7"}}, reasonUnparsed},
		"a tag behind a tag":                        {ethernet([]uint16{3, 7}, 0x0800, ipv4(17, 0, dns)), 0, []Rule{{Action: Deny, VLAN: "7"}}, passes},
		"sixteen options":                           {ethernet(nil, 0x86dd, options(16, 6, tcp(2))), 0, []Rule{{Action: Deny, Protocol: "tcp", DstPort: "22"}}, reasonDenied},
		"seventeen options":                         {ethernet(nil, 0x86dd, options(17, 6, tcp(2))), 0, denyTelnet, reasonUnparsed},
		"seventeen options, by address":             {ethernet(nil, 0x86dd, options(17, 6, tcp(2))), 0, []Rule{{Action: Deny, Dst: "2001:db8::3"}}, passes},
		"seventeen options, by protocol":            {ethernet(nil, 0x86dd, options(17, 6, tcp(2))), 0, []Rule{{Action: Deny, Protocol: "icmpv6"}}, reasonUnparsed},
		"seventeen options, permitted as options":   {ethernet(nil, 0x86dd, options(17, 6, tcp(2))), 0, append([]Rule{{Action: Permit, Protocol: "60"}}, denyTelnet...), reasonUnparsed},
		"no payload length behind hop-by-hop":       {ethernet(nil, 0x86dd, jumbo), 0, denyTelnet, reasonUnparsed},
		"UDP over IPv6 of length 0":                 {ethernet(nil, 0x86dd, ipv6(false, 17, []byte{0x30, 0x39, 0, 80, 0, 0, 0, 0})), 0, denyDNS, reasonUnparsed},
		"UDP of a wrong length, deny TCP":           {ethernet(nil, 0x0800, ipv4(17, 0, []byte{0x30, 0x39, 0, 80, 0, 99, 0, 0})), 0, denyTelnet, passes},
		"UDP of a wrong length, deny flags":         {ethernet(nil, 0x0800, ipv4(17, 0, []byte{0x30, 0x39, 0, 80, 0, 99, 0, 0})), 0, []Rule{{Action: Deny, TCPFlags: "!ack"}}, passes},
		"cut TCP, deny flags":                       {ethernet(nil, 0x0800, ipv4(6, 0, tcp(2)[:12])), 0, []Rule{{Action: Deny, TCPFlags: "ack"}}, reasonUnparsed},
		"cut ICMP":                                  {ethernet(nil, 0x0800, ipv4(1, 0, nil)), 0, denyTelnet, passes},
		"IPv4 of a wrong version":                   {ethernet(nil, 0x0800, append([]byte{0x65}, ipv4(17, 0, dns)[1:]...)), 0, denyDNS, reasonUnparsed},
		"cut IPv6":                                  {ethernet(nil, 0x86dd, ipv6(false, 17, dns)[:39]), 0, denyDNS, reasonUnparsed},
		"a capture cut in the ports":                {ethernet(nil, 0x0800, ipv4(17, 0, dns))[:36], 42, denyDNS, reasonUnparsed},
		"IPv6, first, in the middle of options":     {fragment6(60, 0, []byte{6, 3, 1, 4, 0, 0, 0, 0}), 0, denyTelnet, reasonUnparsed},
		"IPv6, later, behind unknown options":       {fragment6(60, 1, tcp(2)), 0, denyTelnet, reasonUnparsed},
		"two shims":                                 {shims(2), 0, denyDNS, reasonDenied},
		"three shims":                               {shims(3), 0, denyDNS, reasonUnparsed},
		"the shims' type in another's use":          {ethernet(nil, 0x88b5, make([]byte, 46)), 0, denyDNS, passes},
		"SNAP":                                      {snapped, 0, denyDNS, reasonUnparsed},
		"spanning tree":                             {bpdu, 0, denyDNS, passes},
		"no next header":                            {ethernet(nil, 0x86dd, ipv6(true, 59, nil)), 0, denyDNS, passes},
		"encrypted":                                 {ethernet(nil, 0x86dd, ipv6(true, 50, dns)), 0, denyDNS, passes},
	} {
		b, s := parsed(t, c.rules, c.frame, max(c.wireLen, len(c.frame)))
		p := &b.Pkts[0]
		s.Process(b)
		if p.Reason != c.want {
			t.Errorf("%s: reason %v, want %v", name, p.Reason, c.want)
		}
		if p.Reason == reasonUnparsed && !strings.Contains(s.(*stage).Explain(b, p), "could not be parsed: denies it") {
			t.Errorf("%s: %s", name, s.(*stage).Explain(b, p))
		}
	}
}

// shimOf is a telemetry shim in front of an EtherType.
func shimOf(etherType uint16) []byte {
	s := make([]byte, header.ShimLen(1))
	header.NewShim(s, 1, 0)
	binary.BigEndian.PutUint16(s[len(s)-2:], etherType)
	return s
}

// TestManyCountingRules: more counting rules than a verdict holds, some in one word of
// the rows and some words and summaries apart, with others in between and a mask that needs
// verification, count each packet once, as the twin does.
func TestManyCountingRules(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	b := newBatch(t)
	for i := range b.Pkts {
		randomPacket(r, b, i)
	}
	for _, share := range []int{1, 2, 70, 1000} {
		c := Config{Default: Deny}
		for i := range 9000 {
			rule := Rule{Action: Count, Dst: "203.0.113.0/24"}
			switch {
			case i%share == 0:
				rule.Dst = pick(r, "", "10.0.0.0/8")
			case i%share == 1:
				rule = Rule{Action: Count, DstMAC: "02:00:00:00:00:00/ff:ff:00:00:00:00"}
			}
			c.Rules = append(c.Rules, rule)
		}
		m := newModule(t, c)
		m.rules.Load().remember(1, 64)
		s := m.Stage(0).(*stage)
		set, err := c.compile(pipeline.PortNames(m.env.Ports))
		if err != nil {
			t.Fatal(err)
		}
		want := make([]hit, len(set.rules)+1)
		for range 2 {
			revive(b)
			s.Process(b)
			for i := range b.Pkts {
				walk(set, b, &b.Pkts[i], want)
			}
		}
		for i := range want {
			if s.hits[i] != want[i] {
				t.Fatalf("one rule in %d counts: rule %d counts %+v, not %+v", share, i, s.hits[i], want[i])
			}
		}
	}
}

// parsed returns a batch of one packet, parsed, and the stage of the rules.
func parsed(t *testing.T, rules []Rule, frame []byte, wireLen int) (*packet.Batch, pipeline.Stage) {
	t.Helper()
	parser, err := parse.New(parse.DefaultConfig(), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(t)
	b.Pkts = b.Pkts[:1]
	p := &b.Pkts[0]
	*p = packet.Packet{Addr: p.Addr, Len: uint32(len(frame)), WireLen: uint32(wireLen)}
	copy(b.Data(p), frame)
	parser.Stage(0).Process(b)
	return b, newModule(t, Config{Default: Permit, Rules: rules}).Stage(0)
}
