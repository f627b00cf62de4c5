package port

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/internal/testpmd"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestVhostAlone: without a front-end the port is down and says why, sends nothing, and leaves no socket.
func TestVhostAlone(t *testing.T) {
	b := openBridge(t)
	v := b.ports[0]
	if i := v.Info(); i.State != StateDown || i.Up || i.Error != "no virtual machine is connected to "+i.Interface || i.Mode != "server, copy" {
		t.Errorf("%+v", i)
	}
	batch := b.batch
	p := batch.Append()
	addr, _ := b.cache.AllocOne()
	p.Addr, p.Len, p.WireLen = addr+Headroom, 60, 60
	if n := b.queues[0].Transmit(batch, []uint16{0}); n != 0 || b.queues[0].Refusal() != packet.ReasonPortDown {
		t.Errorf("%d packets taken, refused for %s; want 0 and port_down", n, b.queues[0].Refusal())
	}
	b.cache.FreePacket(p)
	batch.Reset()
	if b.queues[0].Receive(batch) != 0 {
		t.Error("a packet from nobody")
	}
	b.close()
	if _, err := os.Stat(v.Info().Interface); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// vhostBridge is two ports and what a worker does with them: what comes in at one leaves by the other.
type vhostBridge struct {
	t      *testing.T
	pool   *packet.Pool
	cache  *packet.Cache
	batch  *packet.Batch
	ports  [2]*Vhost
	queues [2]Queue

	received, sent uint64
	idle           int
}

const bridgeFrames = 512

func openBridge(t *testing.T) *vhostBridge {
	t.Helper()
	return openBridgeIn(t, t.TempDir(), ModeServer)
}

// openBridgeIn opens the ports at the sockets v0 and v1 of a folder.
func openBridgeIn(t *testing.T, dir, mode string) *vhostBridge {
	t.Helper()
	b := &vhostBridge{t: t}
	var err error
	b.pool, err = packet.NewPool(packet.PoolConfig{Frames: bridgeFrames, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	b.cache = b.pool.NewCache()
	b.batch = packet.NewBatch(b.cache, packet.BatchSize)
	for i := range b.ports {
		c := DefaultConfig()
		c.Name, c.Driver, c.Socket, c.Mode = fmt.Sprintf("v%d", i), DriverVhost, filepath.Join(dir, fmt.Sprintf("v%d", i)), mode
		if b.ports[i], err = NewVhost(c, b.pool.FrameSize()); err != nil {
			t.Fatal(err)
		}
		if b.queues[i], err = b.ports[i].Open(uint16(i), 0, b.cache); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// close checks that nothing is left.
func (b *vhostBridge) close() {
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

// turn is one round of a worker, which sleeps after some rounds without a packet.
func (b *vhostBridge) turn() {
	got := 0
	for i, q := range b.queues {
		got += b.forward(q, b.queues[1-i])
	}
	if b.idle++; got != 0 {
		b.idle = 0
	}
	if b.idle < 100 {
		return
	}
	runtime.Gosched()
	var fds []unix.PollFd
	for _, q := range b.queues {
		if q.(Sleeper).Sleep() {
			return
		}
		fds = append(fds, unix.PollFd{Fd: int32(q.FD()), Events: unix.POLLIN})
	}
	_, _ = unix.Poll(fds, 100) // the end of the peer wakes nobody
}

func (b *vhostBridge) forward(from, to Queue) int {
	n := from.Receive(b.batch)
	idx := make([]uint16, n)
	for i := range idx {
		idx[i] = uint16(i)
	}
	taken := to.Transmit(b.batch, idx)
	for _, i := range idx[taken:] {
		b.cache.FreePacket(&b.batch.Pkts[i])
	}
	b.batch.Reset()
	b.received += uint64(n)
	b.sent += uint64(taken)
	return n
}

// startTestpmd sends by both ports of a bridge, and counts what comes back.
func startTestpmd(t *testing.T, b *vhostBridge, huge, options string) *testpmd.Process {
	t.Helper()
	return testpmd.Start(t, testpmd.Config{Dir: filepath.Dir(b.ports[0].config.Socket), HugePages: huge, Forward: "flowgen", Devices: []string{
		"net_virtio_user0,queue_size=256,path=" + b.ports[0].Info().Interface + options,
		"net_virtio_user1,queue_size=256,path=" + b.ports[1].Info().Interface + options,
	}})
}

// TestVhostTestpmd: packets of DPDK's driver pass from port to port, by split and packed rings. The driver is killed, another one
// takes its place, and its counts are those of the ports.
func TestVhostTestpmd(t *testing.T) {
	huge := testpmd.HugePages(t)
	for name, options := range map[string]string{"split": "", "packed": ",packed_vq=1", "unmerged": ",mrg_rxbuf=0"} {
		t.Run(name, func(t *testing.T) {
			b := openBridge(t)
			defer b.close()
			killed := startTestpmd(t, b, huge, options)
			for b.sent < 20_000 && !killed.Ended() {
				b.turn()
			}
			killed.Kill()
			if b.sent < 20_000 {
				t.Fatalf("testpmd ended: %v\n%s", killed.Err, &killed.Text)
			}
			for b.ports[0].device.Status().Connected || b.ports[1].device.Status().Connected {
				b.turn()
			}
			b.received, b.sent = 0, 0

			next := startTestpmd(t, b, huge, options)
			for b.sent < 100_000 && !next.Ended() {
				b.turn()
			}
			next.Quit()
			for !next.Ended() {
				b.turn()
			}
			if next.Err != nil {
				t.Fatalf("testpmd: %v\n%s", next.Err, &next.Text)
			}
			// What is in the rings when testpmd stops is counted by one side only.
			const rings = 2 * 256
			if tx := next.Total("TX"); tx < b.received || tx-b.received > rings {
				t.Errorf("testpmd sent %d packets, and %d were received", tx, b.received)
			}
			if rx := next.Total("RX"); rx > b.sent || b.sent-rx > rings {
				t.Errorf("%d packets were sent, and testpmd received %d", b.sent, rx)
			}
			for _, p := range b.ports {
				if c := p.Counters(); c.Lost() != 0 {
					t.Errorf("%s: %+v (%s)", p.config.Name, c, listFaults(c.Faults))
				}
				if s := p.device.Status(); s.Connections != 2 {
					t.Errorf("%s: %d front-ends, want 2", p.config.Name, s.Connections)
				}
			}
		})
	}
}
