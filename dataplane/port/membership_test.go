package port

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestReception: an open port is promiscuous until it is told what it must receive, and leaves nothing behind.
func TestReception(t *testing.T) {
	// veth has no filter for further addresses, so the kernel lets all in for them (IFF_UNICAST_FLT).
	const veth = unix.IFF_PROMISC | unix.IFF_ALLMULTI
	for _, driver := range []string{DriverXSK, DriverAsavie} {
		t.Run(driver, func(t *testing.T) {
			w := openWire(t, DriverXSK)
			w.close()
			p := w.reopen(func(c *Config) { c.Driver = driver })
			expect := func(when string, flags uint64) {
				t.Helper()
				check(t, w.ns.Do(func() error {
					folder, err := nic.OpenSysfs("p0")
					if err != nil {
						return err
					}
					defer folder.Close()
					// What rtnetlink shows is only what an operator has set.
					text, err := folder.Read("flags")
					if err != nil {
						return err
					}
					have, err := strconv.ParseUint(text, 0, 32)
					if have &= unix.IFF_PROMISC | unix.IFF_ALLMULTI; have != flags {
						t.Errorf("%s: flags %#x, want %#x", when, have, flags)
					}
					return err
				}))
			}
			reception := func() string { return p.Info().Reception }
			expect("opened", unix.IFF_PROMISC)
			check(t, p.(Receptive).Receive(packet.Reception{}))
			expect("multicast", unix.IFF_ALLMULTI)
			router := packet.Reception{Addresses: [][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}}
			for range 2 {
				check(t, p.(Receptive).Receive(router))
				expect("router", veth)
				if got := reception(); got != "02:00:00:00:00:01, 02:00:00:00:00:02, all multicast" {
					t.Errorf("reception %q", got)
				}
			}
			// Away and back: the new interface beneath is told too.
			check(t, p.Pause())
			check(t, p.Detach(ErrDisabled))
			expect("detached", 0)
			check(t, p.Restore())
			expect("restored", veth)
			check(t, p.(Receptive).Receive(packet.Reception{All: true}))
			expect("switch", unix.IFF_PROMISC)
			if got := reception(); got != "promiscuous" {
				t.Errorf("reception %q", got)
			}
			check(t, p.Close())
			expect("closed", 0)
		})
	}
}
