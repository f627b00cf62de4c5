package node

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// TestHostsWithOffloads: hosts that leave checksums and segments to their devices, as Linux does
// by default, and veth devices that do none of it, speak TCP and UDP over a switch.
func TestHostsWithOffloads(t *testing.T) {
	for _, driver := range []string{"xsk", "asavie"} {
		t.Run(driver, func(t *testing.T) {
			b := bedWithOffloads(t, driver, "native")
			for _, n := range offloadNetworks {
				to := netip.MustParsePrefix(fmt.Sprintf(n, 2)).Addr()
				if err := transfer(b.hosts[0], b.hosts[1], to, 4<<20); err != nil {
					t.Errorf("TCP to %v: %v", to, err)
				}
				if err := echo(b.hosts[0], b.hosts[1], to); err != nil {
					t.Errorf("UDP to %v: %v", to, err)
				}
			}
			completed := uint64(0)
			for _, p := range b.stop(t).Ports {
				completed += p.ChecksumsCompleted
			}
			if completed == 0 {
				t.Error("no checksum was completed: the hosts have left none open")
			}
		})
	}
}

// TestLongSegments: in generic mode packets come as long as the host's TCP makes them, and no frame
// holds them. The port counts them by name and says what to do.
func TestLongSegments(t *testing.T) {
	b := bedWithOffloads(t, "xsk", "generic")
	ended := make(chan error, 1)
	to := netip.MustParsePrefix(fmt.Sprintf(offloadNetworks[0], 2)).Addr()
	stop := make(chan struct{})
	go func() { ended <- transferUntil(stop, b.hosts[0], b.hosts[1], to, 4<<20) }()
	told := ""
	for deadline := time.Now().Add(patience); told == "" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, p := range b.Report().Ports {
			told += p.Error
		}
	}
	close(stop)
	<-ended
	if !strings.Contains(told, "ethtool -K IFACE tso off gso off") {
		t.Errorf("the port says %q", told)
	}
	lost := uint64(0)
	for _, p := range b.stop(t).Ports {
		lost += p.RxTooLong
	}
	if lost == 0 {
		t.Error("no packet was counted as too long")
	}
}

var offloadNetworks = []string{"10.9.0.%d/24", "fd09::%d/64"}

// bedWithOffloads is a bed whose node joins two hosts that have their offloads.
func bedWithOffloads(t *testing.T, driver, mode string) *bed {
	b := newBed(t)
	for i, h := range b.hosts[:2] {
		for _, o := range []netns.Offload{netns.TxChecksum, netns.TSO} {
			check(t, h.NS.SetOffload("eth0", o, true))
		}
		check(t, h.NS.SetARP("eth0", true))
		for _, n := range offloadNetworks {
			check(t, h.NS.AddAddress("eth0", netip.MustParsePrefix(fmt.Sprintf(n, i+1))))
		}
	}
	b.write(t, fmt.Sprintf(`
[switch]
name = "s"
graph = ["parse", "patch"]
[dataplane]
audit = true
[[port]]
interface = "p0"
driver = %q
mode = %q
[[port]]
interface = "p1"
driver = %[1]q
mode = %[2]q
[stages.patch]
pairs = [["p0", "p1"]]
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`, driver, mode))
	b.start(t)
	return b
}

// patience is far more than what a test waits for takes.
const patience = time.Minute

// transfer sends random bytes over TCP, which must arrive whole.
func transfer(from, to *netnstest.Host, address netip.Addr, size int64) error {
	return transferUntil(nil, from, to, address, size)
}

// transferUntil gives up when stop is closed.
func transferUntil(stop <-chan struct{}, from, to *netnstest.Host, address netip.Addr, size int64) error {
	listener, err := to.NS.Listen("tcp", net.JoinHostPort(address.String(), "0"))
	if err != nil {
		return err
	}
	defer listener.Close()
	received := make(chan [sha256.Size]byte, 1)
	go func() {
		var sum [sha256.Size]byte
		if conn, err := listener.Accept(); err == nil {
			digest := sha256.New()
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, _ = io.Copy(digest, conn)
			sum = [sha256.Size]byte(digest.Sum(nil))
			conn.Close()
		}
		received <- sum
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := from.NS.Dial(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-stop:
			conn.Close()
			listener.Close()
		case <-over:
		}
	}()
	var seed [32]byte
	digest := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(conn, digest), rand.NewChaCha8(seed), size); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	if sum := <-received; sum != [sha256.Size]byte(digest.Sum(nil)) {
		return fmt.Errorf("received other bytes than were sent: %x", sum)
	}
	return nil
}

// echo sends one datagram to and fro, of a length with an odd last byte.
func echo(from, to *netnstest.Host, address netip.Addr) error {
	server, err := to.NS.ListenPacket("udp", net.JoinHostPort(address.String(), "0"))
	if err != nil {
		return err
	}
	defer server.Close()
	go func() {
		buf := make([]byte, 2048)
		for {
			n, peer, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buf[:n], peer)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := from.NS.Dial(ctx, "udp", server.LocalAddr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write(make([]byte, 777)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 2048))
	return err
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
