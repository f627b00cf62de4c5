package port

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirswitch/weir/dataplane/vhost"
	"github.com/weirswitch/weir/dataplane/virtio"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Vhost is a port of a virtual machine, or of another program that drives a virtio network device in shared
// memory: the back-end of vhost-user. Each packet is copied once, between the guest's buffer and a
// frame of the pool. Queue k of the port is the guest's pair of rings k. Guests may enable fewer pairs at first.
//
// Front-ends come and go while the port stays: without one its state is "down".
type Vhost struct {
	standing
	whole  bool          // large packets are received as they are
	device *vhost.Device // nil while the port is out of use; guarded by mu
}

// NewVhost opens a device with frames of that many bytes, and waits for no front-end.
func NewVhost(c Config, frameSize int) (*Vhost, error) {
	c.Queues = max(c.Queues, 1)
	v := &Vhost{standing: standing{config: c, room: frameSize - Headroom}}
	if c.Disabled {
		v.absence = absence{disabled: true, last: v.info()}
		return v, nil
	}
	if err := v.Restore(); err != nil {
		return nil, err
	}
	return v, nil
}

// Restore implements Restorable.
func (v *Vhost) Restore() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := &v.config
	var d *vhost.Device
	err := v.mayOpen()
	if err == nil {
		d, err = vhost.New(vhostConfig(c))
	}
	if v.failed(err) {
		return fmt.Errorf("port %s: %w", c.Name, err)
	}
	v.device = d
	v.attach(d)
	return nil
}

func vhostConfig(c *Config) vhost.Config {
	return vhost.Config{Socket: c.Socket, Server: c.Mode != ModeClient, Queues: c.Queues, Offloads: c.Offloads != OffloadsOff}
}

// TakeVhost makes the port of another process's share. It takes the share's files.
func TakeVhost(c Config, frameSize int, s *Share) (*Vhost, error) {
	c.Queues = max(c.Queues, 1)
	v := &Vhost{standing: standing{config: c, room: frameSize - Headroom}}
	file, err := listening(s)
	if err == nil {
		v.device, err = vhost.Adopt(vhostConfig(&c), file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", c.Name, err), s.Close())
	}
	v.attach(v.device)
	return v, nil
}

// Detach implements Restorable: the front-end is dismissed.
func (v *Vhost) Detach(why error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.disabled = errors.Is(why, ErrDisabled)
	if v.device == nil {
		return nil
	}
	was := v.info()
	c := v.count()
	err := v.device.Close()
	v.device = nil
	v.detached(was, c, why)
	return err
}

// Open implements Port.
func (v *Vhost) Open(number uint16, queue int, frames *packet.Cache) (Queue, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.device == nil {
		return Down(), nil // a port that is off
	}
	q := &vhostQueue{
		port: v, rx: v.device.Receive(queue), tx: v.device.Transmit(queue), first: v.device.Transmit(0),
		standingQueue: standingQueue{copyQueue{frames: frames, number: number, queue: uint8(queue), room: uint64(v.room)}, &v.standing},
	}
	return v.shaper.shape(q, frames), nil
}

// Info implements Port.
func (v *Vhost) Info() Info {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.device == nil {
		return v.absence.info()
	}
	return v.info()
}

func (v *Vhost) info() Info {
	i := Info{
		Name: v.config.Name, Interface: v.config.Socket, Driver: DriverVhost, Queues: v.config.Queues,
		MTU: v.room - ethernetOverhead, MaxFrame: v.room, State: StateDown,
	}
	if v.device == nil {
		return i
	}
	s := v.device.Status()
	mode := []string{ModeServer}
	if v.config.Mode == ModeClient {
		mode[0] = ModeClient
	}
	switch {
	case s.Rings != 0:
		i.Up, i.State = true, StateUp
		mode = append(mode, vhost.FeatureNames(s.Features)...)
		if pairs := s.Rings / 2; pairs < v.config.Queues {
			i.Error = fmt.Sprintf("the guest uses %d of %d pairs of rings, and what is for the others leaves by the first: set queues to %d, or have the guest use more (ethtool -L)",
				pairs, v.config.Queues, max(pairs, 1))
		}
	case s.Connected:
		i.Error = "the guest has not started its device yet"
	case s.Error != "":
		i.Error = s.Error
	default:
		i.Error = "no virtual machine is connected to " + v.config.Socket
	}
	i.Mode = strings.Join(append(mode, "copy"), ", ")
	if text := listFaults(v.count().Faults); text != "" && i.Error == "" {
		i.Error = "the guest's rings had faults, which cost packets: " + text
	}
	return i
}

// Counters implements Port.
func (v *Vhost) Counters() Counters {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.count()
	c.Add(&v.past)
	return c
}

func (v *Vhost) count() (c Counters) {
	if v.device == nil {
		return c
	}
	for k := range v.config.Queues {
		countRings(&c, &v.device.Receive(k).Faults, &v.device.Transmit(k).Faults)
	}
	return c
}

// Close implements Port.
func (v *Vhost) Close() error {
	v.mu.Lock()
	v.stopped = true
	v.mu.Unlock()
	err := v.Detach(errStopped)
	v.end()
	return err
}

// PassLarge implements LargePasser.
func (v *Vhost) PassLarge(pass bool) { v.whole = pass }

type vhostQueue struct {
	standingQueue
	port   *Vhost
	rx, tx *vhost.Vring
	first  *vhost.Vring // that of the first pair to transmit
}

// Receive implements Queue.
func (q *vhostQueue) Receive(b *packet.Batch) (received int) {
	if q.port.pause.Load() {
		return 0
	}
	ring := q.rx.Acquire()
	if ring == nil {
		return 0
	}
	defer q.rx.Release()
	want := ring.Available(min(packet.BatchSize, cap(b.Pkts)-len(b.Pkts)))
	if want == 0 {
		return 0
	}
	ring.Disarm()
	q.begin(want)
	defer q.free() // also if the guest's memory is gone in the middle
	ring.Whole = q.port.whole
	large := 0 // bytes
	for tries := q.end; tries > 0 && large < maxLargeBytes; tries-- {
		n := ring.GetEach(b.Mem, q.addrs[q.next:][:tries], q.fits(), q.lengths[:])
		q.add(b, n)
		received += n
		if tries -= n; tries == 0 {
			break
		}
		if q.align() { // the next one may fit then
			tries++
			continue
		}
		addr := q.addrs[q.next]
		first := b.Mem[addr:][:q.room]
		var ok bool
		if n, ok = ring.Get(first); !ok {
			break
		}
		length, kind, size := ring.Large()
		if length != 0 {
			if pieces, ok := q.chain(b.Mem, first, length); ok {
				ring.GetWhole(pieces)
			} else { // its segments need fewer frames at once
				length = 0
				n, _ = ring.Get(first)
			}
		}
		if n == 0 && length == 0 {
			continue // refused, and counted
		}
		q.next++
		p := b.Append()
		p.Addr, p.Len, p.WireLen = addr, uint32(n), uint32(n)
		p.InPort, p.InQueue = q.number, q.queue
		if length != 0 {
			large += largeCost(length, size)
			p.Len, p.WireLen = uint32(q.room), uint32(length)
			q.link(p, packet.Large{Kind: kind, Size: uint16(size)})
		}
		received++
	}
	if ring.Flush() {
		q.rx.Call()
	}
	return received
}

// Transmit implements Queue. A packet that no buffer of the guest will hold is taken, and counted as invalid. Where the
// guest uses fewer pairs of rings than the port has, the first one serves the others' workers too.
func (q *vhostQueue) Transmit(b *packet.Batch, idx []uint16) (taken int) {
	q.refusal = packet.ReasonPortDown
	tx := q.tx
	if !tx.Running() {
		tx = q.first
	}
	ring := tx.Acquire()
	if ring == nil {
		if tx.Running() { // another worker has it
			q.refusal = packet.ReasonTxFull
		}
		return 0
	}
	defer tx.Release()
	ring.Prepare(len(idx))
	for taken < len(idx) {
		n := q.list(b, idx[taken:])
		done := ring.PutEach(b.Mem, q.addrs[:n], q.lengths[:n])
		q.frames.FreeAll(q.addrs[:done])
		if taken += done; taken == len(idx) {
			break
		}
		if done == n && n != 0 {
			continue
		}
		p := &b.Pkts[idx[taken]]
		if n, length := q.gather(b, p); n == 0 {
			tx.Faults.Add(virtio.FaultLong)
		} else if put(ring, b, p, q.pieces[:n], length) == virtio.Full {
			q.refusal = packet.ReasonTxFull
			break
		}
		q.frames.FreePacket(p)
		taken++
	}
	if ring.Flush() {
		tx.Call()
	}
	return taken
}

func put(ring *virtio.Ring, b *packet.Batch, p *packet.Packet, pieces [][]byte, length int) virtio.Result {
	if p.Next != 0 {
		if l := b.Pool().Large(p.Next); l.Kind != 0 {
			return ring.PutLarge(pieces, length, l.Kind, int(l.Size))
		}
	}
	return ring.Put(pieces, length)
}

// TakesLarge implements LargeTaker.
func (q *vhostQueue) TakesLarge(l packet.Large) bool { return q.tx.Takes(l.Kind) }

// FD implements Queue.
func (q *vhostQueue) FD() int { return q.rx.FD() }

// Sleep implements Sleeper.
func (q *vhostQueue) Sleep() (ready bool) { return q.rx.Sleep() }
