package socket

import (
	"net"
	"net/netip"
	"testing"
)

// from is a connection of an address.
type from struct {
	net.Conn
	address string
}

func (f from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.address + ":1"))
}

// TestSlots: one address has its part of the slots, all have no more than there are.
func TestSlots(t *testing.T) {
	p := NewSlots(4, 2)
	var leave []func()
	for i, step := range []struct {
		from string
		ok   bool
	}{{"1.0.0.1", true}, {"1.0.0.1", true}, {"1.0.0.1", false}, {"1.0.0.2", true}, {"1.0.0.3", true}, {"1.0.0.4", false}} {
		l, ok := p.Take(from{address: step.from})
		if ok != step.ok {
			t.Errorf("step %d: %v", i, ok)
		}
		if ok {
			leave = append(leave, l)
		}
	}
	leave[0]()
	l, ok := p.Take(from{address: "1.0.0.4"})
	if _, more := p.Take(from{address: "1.0.0.1"}); !ok || more {
		t.Error("a slot that was left is not another's")
	}
	for _, f := range append(leave[1:], l) {
		f()
	}
	if p.open != 0 || len(p.of) != 0 {
		t.Errorf("%+v", p.of)
	}
}
