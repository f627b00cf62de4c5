package filter

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Filter says of a packet whether it is wanted. The zero value wants all. It does
// not change, and may be used by many goroutines; Match does not allocate.
type Filter struct{ match match }

type match func(fields) bool

// The bounds of an expression.
const (
	maxText  = 1024 // bytes
	maxDepth = 32   // of brackets and of "not"
)

// Parse reads an expression; an empty one wants all packets.
func Parse(text string) (Filter, error) {
	if len(text) > maxText {
		return Filter{}, fmt.Errorf("the filter has %d bytes: write at most %d", len(text), maxText)
	}
	p := parser{words: strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text))}
	if len(p.words) == 0 {
		return Filter{}, nil
	}
	m, err := p.expression(0)
	if err == nil && len(p.words) != 0 {
		err = fmt.Errorf("%q is too much", p.words[0])
	}
	if err != nil {
		return Filter{}, fmt.Errorf("filter %q: %w: write it as in \"tcp and port 80 and not host 10.0.0.1\"", text, err)
	}
	return Filter{m}, nil
}

// Match reports whether the filter wants a packet, an Ethernet frame without FCS.
// Bytes behind the headers need not be there.
func (f Filter) Match(frame []byte) bool {
	if f.match == nil {
		return true
	}
	h, ok := read(frame)
	return ok && f.match(h)
}

type parser struct{ words []string }

func (p *parser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *parser) take() string {
	w := p.peek()
	p.words = p.words[min(1, len(p.words)):]
	return w
}

func (p *parser) expression(depth int) (match, error) {
	a, err := p.term(depth)
	for err == nil && p.peek() == "or" {
		p.take()
		var b match
		left := a
		b, err = p.term(depth)
		a = func(f fields) bool { return left(f) || b(f) }
	}
	return a, err
}

func (p *parser) term(depth int) (match, error) {
	a, err := p.factor(depth)
	for err == nil && !slices.Contains([]string{"", "or", ")"}, p.peek()) {
		if p.peek() == "and" {
			p.take()
		}
		var b match
		left := a
		b, err = p.factor(depth)
		a = func(f fields) bool { return left(f) && b(f) }
	}
	return a, err
}

func (p *parser) factor(depth int) (match, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is more than %d deep", maxDepth)
	}
	switch p.peek() {
	case "not", "!":
		p.take()
		m, err := p.factor(depth + 1)
		return func(f fields) bool { return !m(f) }, err
	case "(":
		p.take()
		m, err := p.expression(depth + 1)
		if err == nil && p.take() != ")" {
			err = fmt.Errorf("a bracket is open")
		}
		return m, err
	}
	return p.primitive()
}

var protocols = map[string]int{"tcp": 6, "udp": 17, "icmp": 1, "icmp6": 58, "sctp": 132}

var types = map[string]uint16{"arp": typeARP, "ip": typeIPv4, "ip6": typeIPv6}

func (p *parser) primitive() (match, error) {
	word := p.take()
	if proto, ok := protocols[word]; ok {
		return func(f fields) bool { return f.proto == proto }, nil
	}
	if t, ok := types[word]; ok {
		return func(f fields) bool { return f.etherType == t }, nil
	}
	switch word {
	case "vlan":
		if _, err := strconv.Atoi(p.peek()); err != nil {
			return func(f fields) bool { return f.vlan >= 0 }, nil
		}
		n, err := p.number(0xfff)
		return func(f fields) bool { return f.vlan == n }, err
	case "proto":
		n, err := p.number(255)
		return func(f fields) bool { return f.proto == n }, err
	case "ethertype":
		n, err := p.number(0xffff)
		return func(f fields) bool { return int(f.etherType) == n }, err
	case "src", "dst":
		return p.directed(p.take(), word == "src", word == "dst")
	}
	return p.directed(word, true, true)
}

// directed reads what there is of both ends of a packet.
func (p *parser) directed(word string, src, dst bool) (match, error) {
	switch word {
	case "host", "net":
		prefix, err := p.prefix(word == "host")
		return func(f fields) bool { return src && prefix.Contains(f.src) || dst && prefix.Contains(f.dst) }, err
	case "port":
		low, high, err := p.ports()
		in := func(port int) bool { return port >= low && port <= high }
		return func(f fields) bool { return src && in(f.srcPort) || dst && in(f.dstPort) }, err
	case "ether":
		mac, err := p.mac()
		return func(f fields) bool { return src && f.srcMAC == mac || dst && f.dstMAC == mac }, err
	case "":
		return nil, fmt.Errorf("it ends too early")
	}
	if _, err := netip.ParseAddr(word); err == nil {
		which := "host"
		switch {
		case !dst:
			which = "src host"
		case !src:
			which = "dst host"
		}
		return nil, fmt.Errorf("%q is an address: write %s %s", word, which, word)
	}
	return nil, fmt.Errorf("%q is no word of filters", word)
}

func (p *parser) number(most int) (int, error) {
	n, err := strconv.ParseUint(p.peek(), 0, 31)
	if err != nil || int(n) > most {
		return 0, fmt.Errorf("%q is no number up to %d", p.peek(), most)
	}
	p.take()
	return int(n), nil
}

func (p *parser) prefix(host bool) (netip.Prefix, error) {
	word := p.take()
	if a, err := netip.ParseAddr(word); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(word)
	if err != nil || host {
		return netip.Prefix{}, fmt.Errorf("%q is no address", word)
	}
	return prefix, nil
}

func (p *parser) ports() (low, high int, err error) {
	word := p.take()
	a, b, isRange := strings.Cut(word, "-")
	if !isRange {
		b = a
	}
	x, err1 := strconv.ParseUint(a, 10, 16)
	y, err2 := strconv.ParseUint(b, 10, 16)
	if err1 != nil || err2 != nil || x > y {
		return 0, 0, fmt.Errorf("%q is no port and no range of ports", word)
	}
	return int(x), int(y), nil
}

func (p *parser) mac() (uint64, error) {
	word := p.take()
	mac, err := net.ParseMAC(word)
	if err != nil || len(mac) != 6 {
		return 0, fmt.Errorf("%q is no MAC address", word)
	}
	v := uint64(0)
	for _, b := range mac {
		v = v<<8 | uint64(b)
	}
	return v, nil
}
