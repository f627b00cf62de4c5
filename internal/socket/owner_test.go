package socket

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// TestOwnerOf: the kernel says who is at the other end of connections on loopback, of either version of IP.
func TestOwnerOf(t *testing.T) {
	for _, listen := range []struct{ network, at, to string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1"}, {"tcp6", "[::1]:0", "::1"}, {"tcp", "[::]:0", "127.0.0.1"}, {"tcp", "[::]:0", "::1"},
	} {
		l, err := net.Listen(listen.network, listen.at)
		if err != nil {
			t.Logf("%s: %v", listen.at, err) // no IPv6 here
			continue
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		client, err := net.Dial("tcp", net.JoinHostPort(listen.to, port))
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if uid, err := OwnerOf(server); err != nil || uid != os.Geteuid() {
			t.Errorf("%s: user %d, %v", listen.to, uid, err)
		}
		from, to := netip.MustParseAddrPort(server.RemoteAddr().String()), netip.MustParseAddrPort(server.LocalAddr().String())
		if uid, err := ownerInList(from, to); err != nil || uid != os.Geteuid() {
			t.Errorf("%s, in the kernel's lists: user %d, %v", listen.to, uid, err)
		}
		for _, c := range []interface{ Close() error }{client, server, l} {
			_ = c.Close()
		}
	}
}
