package port

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/internal/testpmd"
	"github.com/weirswitch/weir/pipeline/packet"
)

// memifBridge is two memif ports in one worker's hands.
type memifBridge struct {
	vhostBridge
	ports [2]*Memif
}

// openMemifs opens two ports, by default the interfaces 0 and 1 of one socket.
func openMemifs(t *testing.T, change func(i int, c *Config)) *memifBridge {
	t.Helper()
	b := &memifBridge{vhostBridge: vhostBridge{t: t}}
	var err error
	b.pool, err = packet.NewPool(packet.PoolConfig{Frames: bridgeFrames, FrameSize: 2048, Audit: true})
	check(t, err)
	b.cache = b.pool.NewCache()
	b.batch = packet.NewBatch(b.cache, packet.BatchSize)
	dir := t.TempDir()
	for i := range b.ports {
		c := DefaultConfig()
		c.Name, c.Driver, c.Socket, c.ID = fmt.Sprintf("m%d", i), DriverMemif, filepath.Join(dir, "memif.sock"), i
		change(i, &c)
		check(t, c.Validate())
		b.ports[i], err = NewMemif(c, b.pool.FrameSize())
		check(t, err)
		b.queues[i], err = b.ports[i].Open(uint16(i), 0, b.cache)
		check(t, err)
	}
	return b
}

// close checks that nothing is left.
func (b *memifBridge) close() {
	b.t.Helper()
	for i := range b.ports {
		_, err := b.queues[i].Close()
		check(b.t, err)
		check(b.t, b.ports[i].Close())
	}
	b.cache.Close()
	if c := b.pool.Census(); c.Free != bridgeFrames || c.Faults != 0 {
		b.t.Errorf("%d of %d frames are free, %d faults", c.Free, bridgeFrames, c.Faults)
	}
	check(b.t, b.pool.Close())
}

// connected reports whether both ports have a peer.
func (b *memifBridge) connected() bool {
	return b.ports[0].Info().State == StateUp && b.ports[1].Info().State == StateUp
}

// fill makes the frame of packet number n: its length and its bytes follow from the number.
func fill(frame []byte, n uint64) int {
	length := 60 + int(n*37%1455)
	for i := range frame[:length] {
		frame[i] = byte(n + uint64(i))
	}
	binary.BigEndian.PutUint64(frame[14:], n)
	return length
}

// send puts packets from number n into a port, and returns how many it took.
func (b *memifBridge) send(port int, n uint64, count int) int {
	idx := make([]uint16, 0, count)
	for range count {
		addr, ok := b.cache.AllocOne()
		if !ok {
			break
		}
		p := b.batch.Append()
		p.Addr = addr + Headroom
		p.Len = uint32(fill(b.batch.Mem[p.Addr:], n+uint64(len(idx))))
		p.WireLen = p.Len
		idx = append(idx, uint16(len(idx)))
	}
	taken := b.queues[port].Transmit(b.batch, idx)
	for _, i := range idx[taken:] {
		b.cache.FreePacket(&b.batch.Pkts[i])
	}
	b.batch.Reset()
	return taken
}

// expect receives from a port, and checks that packets are whole and in order from number n on.
func (b *memifBridge) expect(port int, n uint64) int {
	got := b.queues[port].Receive(b.batch)
	var want [2048]byte
	for i := range b.batch.Pkts {
		p := &b.batch.Pkts[i]
		length := fill(want[:], n+uint64(i))
		if data := b.batch.Data(p); string(data) != string(want[:length]) {
			b.t.Fatalf("port %d: a packet of %d bytes, number %d, where %d of %d bytes is due", port, len(data), binary.BigEndian.Uint64(data[14:]), n+uint64(i), length)
		}
		b.cache.FreePacket(p)
	}
	b.batch.Reset()
	return got
}

// cross sends numbered packets by both ports through testpmd, which exchanges them, and loses none: no more are on
// their way than the rings hold.
func (b *memifBridge) cross(p *testpmd.Process, packets uint64) {
	b.t.Helper()
	var sent, got [2]uint64
	last := time.Now()
	for got[0] < packets || got[1] < packets {
		moved := false
		for i := range 2 {
			if room := min(64, packets-sent[i], 200-(sent[i]-got[1-i])); room != 0 {
				n := b.send(i, sent[i], int(room))
				sent[i] += uint64(n)
			}
			if n := b.expect(i, got[i]); n != 0 {
				got[i] += uint64(n)
				moved = true
			}
		}
		if p != nil && p.Ended() {
			b.t.Fatalf("testpmd ended: %v\n%s", p.Err, &p.Text)
		}
		if moved {
			last = time.Now()
		} else if runtime.Gosched(); time.Since(last) > 2*time.Minute {
			b.t.Fatalf("%d and %d packets of %d and %d arrived", got[0], got[1], sent[1], sent[0])
		}
	}
	for i, m := range b.ports {
		if c := m.Counters(); c.Lost() != 0 {
			b.t.Errorf("port %d: %+v (%s)", i, c, listFaults(c.Faults))
		}
	}
}

// TestMemifPair: two ports of ours, a server and a client, with a secret.
func TestMemifPair(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("a secret of 24 bytes, 24\n"), 0o600))
	b := openMemifs(t, func(i int, c *Config) {
		c.ID, c.SecretFile, c.RingSize = 7, secret, 256
		if i == 1 {
			c.Mode = ModeClient
		}
	})
	defer b.close()
	await(t, "connections", b.connected)
	if i := b.ports[1].Info(); i.Mode != "client, id 7, 256 descriptors, copy" || i.Error != "" {
		t.Errorf("%+v", i)
	}
	var sent, got [2]uint64
	for got[0] < 3000 || got[1] < 3000 {
		for i := range 2 {
			sent[i] += uint64(b.send(i, sent[i], 64))
			got[1-i] += uint64(b.expect(1-i, got[1-i]))
		}
	}
	for i := range 2 { // what is in the rings
		for n := 1; n != 0; got[i] += uint64(n) {
			n = b.expect(i, got[i])
		}
		if got[i] != sent[1-i] {
			t.Errorf("port %d: %d packets of %d", i, got[i], sent[1-i])
		}
	}
	one := []uint16{0}
	if allocs := testing.AllocsPerRun(100, func() {
		b.batch.Reset()
		addr, _ := b.cache.AllocOne()
		p := b.batch.Append()
		p.Addr, p.Len, p.WireLen = addr+Headroom, 60, 60
		if b.queues[0].Transmit(b.batch, one) != 1 {
			t.Fatal("not sent")
		}
		b.batch.Reset()
		if b.queues[1].Receive(b.batch) != 1 {
			t.Fatal("not received")
		}
		b.cache.FreePacket(&b.batch.Pkts[0])
	}); allocs != 0 {
		t.Errorf("%v allocations per packet", allocs)
	}
	b.batch.Reset()
}

// TestMemifSecret: a client without the server's secret is refused, and both say so.
func TestMemifSecret(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("right"), 0o600))
	b := openMemifs(t, func(i int, c *Config) {
		c.ID = 0
		if c.SecretFile = secret; i == 1 {
			c.Mode, c.SecretFile = ModeClient, ""
		}
	})
	defer b.close()
	for i, want := range []string{"a client was refused: the secret is missing, or another one", "the peer disconnected"} {
		await(t, want, func() bool { return strings.Contains(b.ports[i].Info().Error, want) })
	}
	if b.connected() {
		t.Error("they are connected")
	}
}

// TestMemifTestpmd: numbered packets pass through DPDK's net_memif in both roles; it is killed, another one takes its place, and
// none is lost or reordered.
func TestMemifTestpmd(t *testing.T) {
	huge := testpmd.HugePages(t)
	packets := uint64(200_000)
	if testing.Short() {
		packets = 10_000
	}
	for _, c := range []struct {
		name, mode, options string
	}{
		{"server", ModeServer, ",role=client"},
		{"zero-copy", ModeServer, ",role=client,rsize=9,zero-copy=yes"},
		{"client", ModeClient, ",role=server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := openMemifs(t, func(_ int, p *Config) { p.Mode = c.mode })
			defer b.close()
			start := func() *testpmd.Process {
				path := b.ports[0].config.Socket
				if c.mode == ModeClient {
					_ = os.Remove(path) // of the one that was killed
				}
				device := func(i int) string {
					options := c.options
					if i == 1 { // DPDK's second one would send a descriptor that the first one has closed
						options = strings.TrimSuffix(options, ",zero-copy=yes")
					}
					return fmt.Sprintf("net_memif%d,id=%d,socket=%s,socket-abstract=no%s", i, i, path, options)
				}
				p := testpmd.Start(t, testpmd.Config{Dir: filepath.Dir(path), HugePages: huge, Forward: "io", Devices: []string{device(0), device(1)}})
				await(t, "connections", func() bool { return b.connected() || p.Ended() })
				return p
			}
			p := start()
			b.cross(p, 1000)
			p.Kill()
			await(t, "ports that are down", func() bool { return b.ports[0].Info().State != StateUp && b.ports[1].Info().State != StateUp })
			p = start()
			b.cross(p, packets)
			p.Quit()
			<-p.Done
			if p.Err != nil {
				t.Errorf("testpmd: %v\n%s", p.Err, &p.Text)
			}
			if rx := p.Total("RX"); rx != 2*packets {
				t.Errorf("testpmd received %d packets, want %d", rx, 2*packets)
			}
		})
	}
}

// await waits for what another goroutine or process does.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("not after two minutes: %s", what)
		}
	}
}
