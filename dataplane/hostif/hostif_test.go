package hostif

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

const patience = 2 * time.Minute

// TestWatch: a host interface gets what it lacks, and the kernel's routes by it are reported: many of them, several next
// hops, metrics, those that drop, and none any more when the interface goes down, which the kernel does not report for each.
func TestWatch(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, "whi")
	h := ns.Netlink()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	netnstest.NewHost(t, "whi", netnstest.Port{Namespace: ns, Name: "t0"})
	states, failures := make(chan *State, 1000), make(chan error, 1000)
	want := Want{Interface: "t0", MAC: [6]byte{2, 0, 0, 0, 7, 1}, MTU: 1400, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.1.1/24")}, Carrier: true}
	w, stop, ended := New(ns.Do), make(chan struct{}), make(chan error)
	go func() {
		ended <- w.Run(stop, Options{
			Want:  func() []Want { return []Want{want, {Interface: "missing"}} },
			Apply: func(s *State) { states <- s }, Failed: func(err error) { failures <- err },
		})
	}()
	until := func(what string, so func(*State) bool) {
		t.Helper()
		for {
			select {
			case s := <-states:
				if so(s) {
					return
				}
			case <-time.After(patience):
				t.Fatalf("waited in vain: %s", what)
			}
		}
	}
	until("the address", func(s *State) bool {
		return slices.Contains(s.Addresses, Address{"t0", want.Addresses[0]})
	})
	link, err := ns.Link("t0")
	check(err)
	if a := link.Attrs(); a.MTU != 1400 || a.HardwareAddr.String() != "02:00:00:00:07:01" || a.RawFlags&unix.IFF_LOWER_UP == 0 {
		t.Errorf("%+v", a)
	}

	cidr := func(text string) *net.IPNet {
		_, n, err := net.ParseCIDR(text)
		check(err)
		return n
	}
	gateway := func(last byte) net.IP { return net.IP{10, 0, 1, last} }
	index := link.Attrs().Index
	for _, r := range []*netlink.Route{
		{Dst: cidr("10.1.0.0/16"), Gw: gateway(3), LinkIndex: index, Priority: 20},
		{Dst: cidr("10.1.0.0/16"), Gw: gateway(2), LinkIndex: index, Priority: 10},
		{Dst: cidr("10.2.0.0/16"), Type: unix.RTN_BLACKHOLE},
		{Dst: cidr("10.3.0.0/16"), LinkIndex: index, Scope: netlink.SCOPE_LINK},
		{Dst: cidr("10.4.0.0/16"), MultiPath: []*netlink.NexthopInfo{{LinkIndex: index, Gw: gateway(2)}, {LinkIndex: index, Gw: gateway(3), Hops: 2}}},
		{Dst: cidr("0.0.0.0/0"), Gw: gateway(2), LinkIndex: index, Protocol: unix.RTPROT_BIRD},
	} {
		check(h.RouteAdd(r))
	}
	two, three := netip.MustParseAddr("10.0.1.2"), netip.MustParseAddr("10.0.1.3")
	routes := []Route{
		{netip.MustParsePrefix("0.0.0.0/0"), "bird", 0, []Hop{{"t0", two, 1}}},
		{netip.MustParsePrefix("10.1.0.0/16"), "boot", 10, []Hop{{"t0", two, 1}}},
		{netip.MustParsePrefix("10.2.0.0/16"), "boot", 0, nil},
		{netip.MustParsePrefix("10.3.0.0/16"), "boot", 0, []Hop{{"t0", netip.Addr{}, 1}}},
		{netip.MustParsePrefix("10.4.0.0/16"), "boot", 0, []Hop{{"t0", two, 1}, {"t0", three, 3}}},
	}
	until("the routes", func(s *State) bool { return s.equal(&State{s.Addresses, routes, nil, true}) })

	const many = 10_000
	begin := time.Now()
	for i := range many {
		n := &net.IPNet{IP: net.IP{20, byte(i >> 8), byte(i), 0}, Mask: net.CIDRMask(24, 32)}
		check(h.RouteAdd(&netlink.Route{Dst: n, Gw: gateway(2), LinkIndex: index, Protocol: unix.RTPROT_BIRD}))
	}
	added := time.Now()
	until("many routes", func(s *State) bool { return len(s.Routes) == many+len(routes) })
	t.Logf("%d routes: added to the kernel in %v, all reported %v after the last", many, added.Sub(begin), time.Since(added))

	check(h.LinkSetDown(link)) // the kernel removes the routes, and does not say so
	until("no route by the interface", func(s *State) bool { return len(s.Routes) == 1 })
	close(stop)
	check(<-ended)
	for len(failures) != 0 {
		if err := <-failures; err != nil && !strings.Contains(err.Error(), "t0") {
			t.Error(err)
		}
	}
}

// TestHold: a watch that is held reads, and changes nothing; one that takes over what another gave removes what the interface is no longer to have.
func TestHold(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, "whi")
	netnstest.NewHost(t, "whi", netnstest.Port{Namespace: ns, Name: "t0"})
	one, two := netip.MustParsePrefix("10.0.1.1/24"), netip.MustParsePrefix("10.0.2.1/24")
	has := func(want ...netip.Prefix) func(*State) bool {
		return func(s *State) bool {
			var got []netip.Prefix
			for _, a := range s.Addresses {
				if a.Prefix.Addr().Is4() {
					got = append(got, a.Prefix)
				}
			}
			slices.SortFunc(got, netip.Prefix.Compare)
			return slices.Equal(got, want)
		}
	}
	run := func(w *Watch, addresses ...netip.Prefix) (until func(string, func(*State) bool), end func()) {
		states, stop, ended := make(chan *State, 1000), make(chan struct{}), make(chan error, 1)
		want := Want{Interface: "t0", MAC: [6]byte{2, 0, 0, 0, 7, 1}, Addresses: addresses, Carrier: true}
		go func() {
			ended <- w.Run(stop, Options{Want: func() []Want { return []Want{want} }, Apply: func(s *State) { states <- s }, Failed: func(error) {}})
		}()
		return func(what string, so func(*State) bool) {
				t.Helper()
				for {
					select {
					case s := <-states:
						if so(s) {
							return
						}
					case <-time.After(patience):
						t.Fatalf("waited in vain: %s", what)
					}
				}
			}, func() {
				close(stop)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
	}
	old := New(ns.Do)
	until, end := run(old, one, two)
	until("both addresses", has(one, two))
	old.Hold()
	given := old.Given()
	if len(given) != 1 || given[0].Interface != "t0" || !slices.Equal(given[0].Addresses, []netip.Prefix{one, two}) {
		t.Fatalf("%+v", given)
	}
	next := New(ns.Do)
	next.Hold()
	untilNext, endNext := run(next, one)
	untilNext("what the kernel has", has(one, two))
	if err := next.Take(given); err != nil {
		t.Fatal(err)
	}
	if err := ns.AddAddress("t0", netip.MustParsePrefix("10.0.3.1/24")); err != nil { // has both look
		t.Fatal(err)
	}
	untilNext("a change of the kernel", has(one, two, netip.MustParsePrefix("10.0.3.1/24")))
	end()
	next.Release()
	untilNext("an address less, and not that of another", has(one, netip.MustParsePrefix("10.0.3.1/24")))
	endNext()

	for _, c := range []struct {
		given []Given
		want  string
	}{
		{[]Given{{"t0", 0, nil}}, "index 0"},
		{[]Given{{"", 1, nil}}, `""`},
		{[]Given{{"t0", 1, nil}, {"t0", 1, nil}}, "twice: true"},
		{[]Given{{"t0", 1, make([]netip.Prefix, 1)}}, "invalid Prefix"},
		{[]Given{{"t0", 1, make([]netip.Prefix, maxAddresses+1)}}, "4097 addresses"},
		{make([]Given, maxGiven+1), "65537 host interfaces"},
	} {
		if err := next.Take(c.given); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, and nothing of %q", err, c.want)
		}
	}
	if now := next.Given(); len(now) != 1 || !slices.Equal(now[0].Addresses, []netip.Prefix{one}) {
		t.Errorf("what is refused is taken: %+v", now)
	}
}
