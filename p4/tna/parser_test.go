package tna_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

// p4parser is parse_packet of include/parser.p4, read from its source: what the parser
// of a Tofino would do, as far as it is states, extractions and selections.
type p4parser struct {
	numbers map[string]uint64    // macros and constants
	headers map[string][]p4field // by type
	members map[string]string    // types of the members of headers_t
	places  map[string]int       // of these, in the order in which they are sent
	states  map[string]p4state
}

type p4field struct {
	name string
	bits int
}

type p4state struct {
	statements []string
	on         []string // expressions of the select; none: a plain transition
	cases      []p4case
}

type p4case struct {
	match []p4match
	to    string
}

type p4match struct{ value, mask uint64 }

var (
	macroLine  = regexp.MustCompile(`(?m)^#define (\w+)(\(([\w, ]*)\))? ((?:.*\\\n)*.*)\n`)
	comments   = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	constants  = regexp.MustCompile(`const \w+(?:<\d+>)? (\w+) = (\w+);`)
	typedefs   = regexp.MustCompile(`typedef bit<(\d+)> (\w+);`)
	headerType = regexp.MustCompile(`(?s)header (\w+) \{(.*?)\}`)
	fieldLine  = regexp.MustCompile(`(bit<(\w+)>|\w+) (\w+);`)
	memberLine = regexp.MustCompile(`(\w+)(?:\[\w+\])? (\w+);`)
	stateHead  = regexp.MustCompile(`state (\w+) \{`)
)

func newP4parser(t *testing.T) *p4parser {
	t.Helper()
	p := &p4parser{numbers: map[string]uint64{}, headers: map[string][]p4field{}, members: map[string]string{}, places: map[string]int{}, states: map[string]p4state{}}
	text := ""
	for _, name := range []string{"../include/sizes.p4", "../include/types.p4", "../include/headers.p4", "include/headers.p4", "include/parser.p4"} {
		data, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		text += string(data) + "\n"
	}
	text = expand(comments.ReplaceAllString(text, ""))
	for _, m := range constants.FindAllStringSubmatch(text, -1) {
		if v, err := strconv.ParseUint(m[2], 0, 64); err == nil {
			p.numbers[m[1]] = v
		}
	}
	widths := map[string]int{}
	for _, m := range typedefs.FindAllStringSubmatch(text, -1) {
		widths[m[2]], _ = strconv.Atoi(m[1])
	}
	for _, h := range headerType.FindAllStringSubmatch(text, -1) {
		for _, f := range fieldLine.FindAllStringSubmatch(h[2], -1) {
			bits := widths[f[1]]
			if f[2] != "" {
				bits, _ = strconv.Atoi(f[2])
			}
			p.headers[h[1]] = append(p.headers[h[1]], p4field{f[3], bits})
		}
	}
	_, members, _ := strings.Cut(text, "struct headers_t {")
	members, _, _ = strings.Cut(members, "}")
	for i, m := range memberLine.FindAllStringSubmatch(members, -1) {
		p.members[m[2]], p.places[m[2]] = m[1], i
	}
	_, body, found := strings.Cut(text, "parser parse_packet(")
	if !found {
		t.Fatal("no parser parse_packet")
	}
	for _, at := range stateHead.FindAllStringSubmatchIndex(body, -1) {
		p.states[body[at[2]:at[3]]] = p.state(t, block(body[at[1]:]))
	}
	return p
}

// expand does what the preprocessor does with the macros of the text.
func expand(text string) string {
	type macro struct {
		parameters []string
		body       string
	}
	macros := map[string]macro{}
	for _, m := range macroLine.FindAllStringSubmatch(text, -1) {
		var parameters []string
		if m[2] != "" {
			parameters = strings.Split(strings.ReplaceAll(m[3], " ", ""), ",")
		}
		macros[m[1]] = macro{parameters, strings.ReplaceAll(m[4], "\\\n", "\n")}
	}
	text = macroLine.ReplaceAllString(text, "")
	word := regexp.MustCompile(`\b[A-Z][A-Z0-9_]*\b`)
	for range 4 { // macros name macros
		var out strings.Builder
		for {
			at := word.FindStringIndex(text)
			if at == nil {
				break
			}
			out.WriteString(text[:at[0]])
			name := text[at[0]:at[1]]
			text = text[at[1]:]
			m, ok := macros[name]
			switch {
			case !ok:
				out.WriteString(name)
			case m.parameters == nil:
				out.WriteString(m.body)
			default:
				end := strings.IndexByte(text, ')')
				body := m.body
				for i, argument := range strings.Split(text[1:end], ",") {
					body = regexp.MustCompile(`##`+m.parameters[i]+`\b`).ReplaceAllString(body, strings.TrimSpace(argument))
					body = regexp.MustCompile(`\b`+m.parameters[i]+`\b`).ReplaceAllString(body, strings.TrimSpace(argument))
				}
				out.WriteString(body)
				text = text[end+1:]
			}
		}
		text = out.String() + text
	}
	return text
}

// block is what stands in front of the brace that closes it.
func block(text string) string {
	depth := 1
	for i, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return text[:i]
			}
		}
	}
	return text
}

func (p *p4parser) state(t *testing.T, text string) (s p4state) {
	t.Helper()
	statements, transition, _ := strings.Cut(text, "transition ")
	for _, line := range strings.Split(statements, ";") {
		if line = strings.TrimSpace(line); line != "" {
			s.statements = append(s.statements, line)
		}
	}
	if !strings.HasPrefix(transition, "select(") {
		s.cases = []p4case{{to: strings.Trim(transition, "; \n")}}
		return s
	}
	on, cases, _ := strings.Cut(strings.TrimPrefix(transition, "select("), ") {")
	s.on = strings.Split(on, ", ")
	cases, _, _ = strings.Cut(cases, "}")
	for _, line := range strings.Split(cases, ";") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		match, to, _ := strings.Cut(line, ":")
		c := p4case{to: strings.TrimSpace(to)}
		match = strings.Trim(strings.TrimSpace(match), "()")
		if match != "default" {
			for _, one := range strings.Split(match, ",") {
				value, mask, masked := strings.Cut(one, "&&&")
				m := p4match{p.number(t, value), ^uint64(0)}
				if strings.TrimSpace(value) == "_" {
					m = p4match{}
				} else if masked {
					m.mask = p.number(t, mask)
				}
				c.match = append(c.match, m)
			}
		}
		s.cases = append(s.cases, c)
	}
	return s
}

// next is the state behind a state, by what it selects on; empty if no case matches.
func (s p4state) next(on ...uint64) string {
	for _, c := range s.cases {
		matches := true
		for i, m := range c.match {
			matches = matches && on[i]&m.mask == m.value&m.mask
		}
		if matches {
			return c.to
		}
	}
	return ""
}

func (p *p4parser) number(t *testing.T, text string) uint64 {
	t.Helper()
	text = strings.TrimSpace(text)
	if v, ok := p.numbers[text]; ok || text == "_" {
		return v
	}
	if width := strings.IndexByte(text, 'w'); width > 0 {
		text = text[width+1:]
	}
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatalf("no number: %q", text)
	}
	return v
}

// parsed is what the parser made of a packet: fields by header and name, as
// "ipv4.src", those of metadata as "md.t2c"; what is not there is zero.
type parsed struct {
	fields map[string]uint64
	valid  map[string]bool
	ended  bool // the packet ended within a header
}

func bitsAt(data []byte, from, n int) (v uint64) {
	for i := from; i < from+n; i++ {
		v = v<<1 | uint64(data[i/8]>>(7-i%8)&1)
	}
	return v
}

var lookahead = regexp.MustCompile(`^pkt\.lookahead<bit<(\d+)>>\(\)(?:\[(\d+):(\d+)\])?$`)
var member = regexp.MustCompile(`^(?:hdr\.)?(md\.\w+|\w+\.\w+)(?:\[(\d+):(\d+)\])?$`)

// run parses a packet.
func (p *p4parser) run(t *testing.T, data []byte) (r parsed) {
	t.Helper()
	r = parsed{fields: map[string]uint64{}, valid: map[string]bool{}}
	at := 0 // bits
	last := -1
	padded := append(bytes.Clone(data), make([]byte, 64)...)
	slice := func(v uint64, high, low string) uint64 {
		if high == "" {
			return v
		}
		h, _ := strconv.Atoi(high)
		l, _ := strconv.Atoi(low)
		return v >> l & (1<<(h-l+1) - 1)
	}
	value := func(expression string) uint64 {
		if m := lookahead.FindStringSubmatch(expression); m != nil {
			n, _ := strconv.Atoi(m[1])
			from := 0
			if n > 64 { // of which the lowest bits are asked
				from, n = n-64, 64
			}
			return slice(bitsAt(padded, at+from, n), m[2], m[3])
		}
		if m := member.FindStringSubmatch(expression); m != nil {
			return slice(r.fields[m[1]], m[2], m[3])
		}
		return p.number(t, expression)
	}
	for name := "start"; name != "accept"; {
		s, ok := p.states[name]
		if !ok {
			t.Fatalf("no state %q", name)
		}
		for _, line := range s.statements {
			if target, ok := strings.CutPrefix(line, "pkt.extract(hdr."); ok {
				target = strings.TrimSuffix(target, ")")
				base, index, _ := strings.Cut(strings.TrimSuffix(target, "]"), "[")
				kind, ok := p.headers[p.members[base]]
				if !ok {
					t.Fatalf("no header %q", target)
				}
				i, _ := strconv.Atoi(index)
				if place := p.places[base]<<8 | i; place <= last {
					t.Fatalf("%q is sent in front of what came before it: %x", target, data)
				} else {
					last = place
				}
				r.valid[target] = true
				for _, f := range kind {
					if at+f.bits > 8*len(data) {
						r.ended = true
						return r
					}
					if f.bits <= 64 {
						r.fields[target+"."+f.name] = bitsAt(data, at, f.bits)
					} else { // an IPv6 address
						r.fields[target+"."+f.name+".high"] = bitsAt(data, at, 64)
						r.fields[target+"."+f.name+".low"] = bitsAt(data, at+64, 64)
					}
					at += f.bits
				}
				continue
			}
			to, from, ok := strings.Cut(line, " = ")
			if !ok {
				t.Fatalf("a statement that the test does not know: %q", line)
			}
			r.fields[to] = value(from)
		}
		on := make([]uint64, len(s.on))
		for i, expression := range s.on {
			on[i] = value(expression)
		}
		if name = s.next(on...); name == "" {
			r.ended = true
			return r
		}
	}
	return r
}

// block is the packet id's message, of the fields that block.p4 hashes.
func (r *parsed) block() []byte {
	var b []byte
	add := func(name string, bytes int) {
		v := r.fields[name]
		for i := bytes - 1; i >= 0; i-- {
			b = append(b, byte(v>>(8*i)))
		}
	}
	transport := func() {
		add("l4.a", 2)
		add("l4.b", 2)
		add("l4.c", 4)
		add("ta.a", 4)
		add("tb.b", 2)
		add("md.t2c", 2)
		add("payload.a", 4)
		add("payload.b", 4)
	}
	switch {
	case r.valid["ipv4"]:
		add("ipv4.src", 4)
		add("ipv4.dst", 4)
		add("ipv4.protocol", 1)
		b = append(b, 0)
		add("ipv4.identification", 2)
		add("ipv4.offset", 2)
		add("ipv4.total_length", 2)
		transport()
	case r.valid["ipv6"]:
		for _, half := range []string{"src.high", "src.low", "dst.high", "dst.low"} {
			add("ipv6."+half, 8)
		}
		add("ipv6.next_header", 1)
		b = append(b, 0, 0, 0)
		add("ipv6.payload_length", 2)
		b = append(b, 0, 0)
		transport()
	default:
		for i := range 8 {
			add(fmt.Sprintf("opaque.w%d", i), 4)
		}
	}
	return b
}

// frame makes a random packet, most of them right in most places.
func frame(r *rand.Rand) []byte {
	var b []byte
	word := func(v int) { b = binary.BigEndian.AppendUint16(b, uint16(v)) }
	random := func(n int) {
		for range n {
			b = append(b, byte(r.Uint32()))
		}
	}
	often := func(n int) bool { return r.IntN(n) != 0 }
	random(12)
	for range r.IntN(4) * r.IntN(2) {
		word([]int{0x8100, 0x88a8, 0x9100}[r.IntN(3)])
		random(2)
	}
	for range max(0, r.IntN(5)-2) {
		word(0x88b5)
		length := 1
		if !often(4) {
			length = r.IntN(8)
		}
		b = append(b, byte(1<<4|r.IntN(2)<<3|length))
		if !often(20) {
			b[len(b)-1] ^= 0x20
		}
		random(3 + length + 1)
	}
	protocols := []int{6, 6, 6, 17, 17, 1, 58, 132, 136, 47, 50, 33, 59, 0, 44}
	payload := r.IntN(100)
	if !often(8) {
		payload = r.IntN(1500) // lengths of all bits
	}
	switch r.IntN(8) {
	case 0: // anything
		word(r.IntN(1 << 16))
		random(32 + payload)
		return b
	case 1, 2:
		word(0x86dd)
		b = append(b, 0x60)
		random(3)
		word(payload)
		b = append(b, byte(protocols[r.IntN(len(protocols))]))
		random(33)
	default:
		word(0x0800)
		b = append(b, 0x45)
		if !often(20) {
			b[len(b)-1] = byte(r.Uint32())
		}
		random(1)
		word(20 + payload)
		random(2)
		word([]int{0x4000, 0, 0x2000, 0x2003, 0x0003, 0xc000}[r.IntN(6)])
		random(1)
		b = append(b, byte(protocols[r.IntN(len(protocols))]))
		random(10)
	}
	transport := len(b)
	random(payload)
	if payload >= 14 && often(4) { // a likely length of UDP, a likely offset of TCP
		binary.BigEndian.PutUint16(b[transport+4:], uint16([]int{payload, 8, 7, 0}[r.IntN(4)]))
		b[transport+12] = byte(max(5, r.IntN(16)))<<4 | 1
	}
	random(48) // as padding, so that opaque frames are long enough
	return b
}

// TestParser compares the parser's view of a packet with that of stages/parse: of all
// that it says to measure, the packet id's message and the ports of the flow key must be the same, but
// for what it says that it cannot tell.
func TestParser(t *testing.T) {
	p := newP4parser(t)
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 4, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	batch := packet.NewBatch(pool.NewCache(), packet.BatchSize)
	m, err := parse.New(parse.DefaultConfig(), pipeline.Env{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	stage := m.Stage(0)
	addr, ok := batch.Frames.AllocOne()
	if !ok {
		t.Fatal("no frame")
	}
	r := rand.New(rand.NewPCG(5, 6))
	seen := map[string]int{}
	for range 30_000 {
		data := frame(r)
		batch.Reset()
		pkt := batch.Append()
		pkt.Addr, pkt.Len, pkt.WireLen = addr, uint32(copy(batch.Mem[addr:addr+2048], data)), uint32(len(data))
		before := maps.Clone(m.Counters().Malformed)
		stage.Process(batch)
		fault := ""
		for name, n := range m.Counters().Malformed {
			if n != before[name] {
				fault = name
			}
		}
		got := p.run(t, data)
		if got.fields["md.unmeasured"] != 0 {
			seen["unmeasured"]++
			continue
		}
		if got.ended {
			t.Fatalf("the parser ended in %x", data)
		}
		// What a parser cannot compare.
		switch {
		case fault == "ipv4_total_length" && binary.BigEndian.Uint16(data[pkt.L3+2:]) >= 20, fault == "ipv6_payload_length", fault == "ipv4_fragment",
			fault == "udp_length" && !short(data, pkt, 8), fault == "udplite_coverage" && !short(data, pkt, 8):
			seen["believed"]++
			continue
		}
		var want packet.IDBlock
		n := want.Fill(data, pkt, false)
		var message []byte
		for _, w := range want[:n] {
			message = binary.LittleEndian.AppendUint64(message, w)
		}
		if b := got.block(); !bytes.Equal(b, message) {
			t.Fatalf("packet %x\nfault %q\nmessage %x\nwant    %x", data, fault, b, message)
		}
		if key, ok := pkt.Key(data); ok && !pkt.Flags.Has(packet.FlagFragment) {
			if got.fields["md.src_port"] != uint64(key.SrcPort) || got.fields["md.dst_port"] != uint64(key.DstPort) {
				t.Fatalf("packet %x\nfault %q: ports %d and %d, want %d and %d", data, fault,
					got.fields["md.src_port"], got.fields["md.dst_port"], key.SrcPort, key.DstPort)
			}
			seen["key"]++
		}
		seen[fmt.Sprintf("%d words", n)]++
		if fault != "" {
			seen[fault]++
		}
	}
	t.Log(seen)
	for _, kind := range []string{"4 words", "5 words", "8 words", "tcp_data_offset", "tcp_truncated", "udp_length", "udp_truncated",
		"udplite_coverage", "sctp_truncated", "icmp_truncated", "ipv4_header_length", "ipv4_version", "unmeasured", "key"} {
		if seen[kind] == 0 {
			t.Errorf("no packet was %q", kind)
		}
	}
}

// short says that UDP's length, or UDP-Lite's coverage, is less than its header: that can be told without
// another field.
func short(data []byte, p *packet.Packet, least uint16) bool {
	l4 := int(p.L3) + 20
	if p.Flags.Has(packet.FlagIPv6) {
		l4 = int(p.L3) + 40
	}
	return binary.BigEndian.Uint16(data[l4+4:]) < least
}

// TestTCPLengths tries all lengths with all data offsets.
func TestTCPLengths(t *testing.T) {
	p := newP4parser(t)
	for _, ip := range []struct {
		state, other  string
		header, least int // what of the length is not TCP's; what comes there
	}{{"tcp4", "other4", 20, 28}, {"tcp6", "other6", 0, 0}} {
		state := p.states[ip.state]
		for length := ip.least; length < 1<<16; length++ {
			for offset := range 16 {
				want := "tcp"
				switch segment := length - ip.header; {
				case offset < 5, segment < 4*offset:
					want = ip.other
				case segment < 4*offset+8:
					want = "tcp_alone"
				}
				if got := state.next(uint64(length), uint64(offset)); got != want {
					t.Fatalf("%s: length %d, data offset %d: %s, want %s", ip.state, length, offset, got, want)
				}
			}
		}
	}
}

// TestParserRows counts the cases of all selects, and states without one: a Tofino has 256 rows for
// them in ingress, and its compiler adds states for what one state cannot extract.
func TestParserRows(t *testing.T) {
	const most = 256 - 16
	p := newP4parser(t)
	rows := 0
	seen := map[string]bool{"accept": true}
	for todo := []string{"start"}; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		rows += len(p.states[name].cases)
		for _, c := range p.states[name].cases {
			todo = append(todo, c.to)
		}
	}
	t.Logf("%d rows", rows)
	if rows > most {
		t.Errorf("the parser needs %d rows, which are more than %d", rows, most)
	}
	for name := range p.states {
		if !seen[name] {
			t.Errorf("no state leads to %q", name)
		}
	}
}
