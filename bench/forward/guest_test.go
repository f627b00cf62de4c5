package forward

import (
	"encoding/binary"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/memif"
	"github.com/weirswitch/weir/pipeline/header"
)

// TestMemifGuests: two guests send to each other through a device, packets of all sizes in turn, at the rate that was asked for or below, and count
// what arrives.
func TestMemifGuests(t *testing.T) {
	c := DefaultConfig()
	c.Ports, c.Flows = PortsMemif, 50
	sizes := []int{64, 570, 1518}
	dir := t.TempDir()
	var devices [2]*memif.Device
	var sockets [2]string
	for i := range devices {
		sockets[i] = filepath.Join(dir, "v"+string(rune('0'+i)))
		d, err := memif.New(memif.Config{Socket: sockets[i], Server: true, Queues: 1})
		if err != nil {
			t.Fatal(err)
		}
		devices[i] = d
	}
	var moved, wrong int // of the device; read behind its end
	flows := map[uint32]bool{}
	stop := make(chan struct{})
	var device sync.WaitGroup
	device.Go(func() {
		packet := make([]byte, 2048)
		step := func(i int) (got int) {
			rx, tx := devices[i].Receive(0), devices[1-i].Transmit(0)
			r := rx.Acquire()
			if r == nil {
				return 0
			}
			defer rx.Release()
			w := tx.Acquire()
			if w == nil {
				return 0
			}
			defer tx.Release()
			for ; got < 64; got++ {
				n, ok := r.Get(packet)
				if !ok {
					break
				}
				p := packet[:n]
				if n != sizes[0]-4 && n != sizes[1]-4 && n != sizes[2]-4 || p[5] != byte(2-i) || p[11] != byte(1+i) || header.Checksum(p[14:34]) != 0 ||
					int(binary.BigEndian.Uint16(p[16:])) != n-14 {
					wrong++
				}
				flows[binary.BigEndian.Uint32(p[guestFlowAt:])] = true
				moved++
				w.Put([][]byte{p}, n) // lost, where the guest was held up
			}
			r.Flush()
			w.Flush()
			return got
		}
		for {
			got := step(0) + step(1)
			select {
			case <-stop:
				if got == 0 {
					return
				}
			default:
			}
		}
	})
	g, err := dialGuests(&c, sockets, false, false, sizes)
	if err != nil {
		t.Fatal(err)
	}
	const rate, duration = 20_000, 200 * time.Millisecond
	trial, err := g.offer(t.Context(), rate, duration)
	if err != nil {
		t.Fatal(err)
	}
	if trial.received == 0 || trial.received > trial.sent || trial.offered() > 1.01*rate || g.sent != trial.sent || g.received != trial.received {
		t.Errorf("%+v, offered %.0f per second of %d; in all %d and %d", trial, trial.offered(), rate, g.sent, g.received)
	}
	close(stop)
	device.Wait()
	if moved != int(trial.sent) || wrong != 0 || len(flows) < 2 || len(flows) > c.Flows {
		t.Errorf("the device moved %d packets of %d, %d of them wrong, of %d flows", moved, trial.sent, wrong, len(flows))
	}
	for _, d := range devices { // the guests' connections end with them
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := g.offer(t.Context(), rate, duration); err == nil {
		t.Error("packets are sent to a device that is gone")
	}
	if err := g.close(); err != nil {
		t.Error(err)
	}
}
