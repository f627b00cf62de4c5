package port

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weirswitch/weir/dataplane/memif"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Memif is a port of a container, or of another program, by memif. Each packet is copied once, between the shared memory and
// a frame of the pool. Queue k of the port is pair of rings k. Peers may have fewer pairs.
//
// Peers come and go while the port stays: without one its state is "down".
type Memif struct {
	standing
	device *memif.Device // nil while the port is out of use; guarded by mu
}

// NewMemif opens an interface with frames of that many bytes, and waits for no peer.
func NewMemif(c Config, frameSize int) (*Memif, error) {
	c.Queues = max(c.Queues, 1)
	m := &Memif{standing: standing{config: c, room: frameSize - Headroom}}
	if c.Disabled {
		m.absence = absence{disabled: true, last: m.info()}
		return m, nil
	}
	if err := m.Restore(); err != nil {
		return nil, err
	}
	return m, nil
}

// Restore implements Restorable.
func (m *Memif) Restore() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.config
	var d *memif.Device
	mc, err := memifConfig(c)
	if err == nil {
		err = m.mayOpen()
	}
	if err == nil {
		d, err = memif.New(mc)
	}
	if m.failed(err) {
		return fmt.Errorf("port %s: %w", c.Name, err)
	}
	m.device = d
	m.attach(d)
	return nil
}

func memifConfig(c *Config) (memif.Config, error) {
	secret, err := readSecret(c.SecretFile)
	if err != nil {
		return memif.Config{}, fmt.Errorf("secret_file: %w", err)
	}
	return memif.Config{
		Socket: c.Socket, Server: c.Mode != ModeClient, ID: uint32(c.ID), Secret: secret,
		Queues: c.Queues, RingSize: c.ringSize(), Name: c.Name,
	}, nil
}

// TakeMemif makes the port of another process's share. It takes the share's files.
func TakeMemif(c Config, frameSize int, s *Share) (*Memif, error) {
	c.Queues = max(c.Queues, 1)
	m := &Memif{standing: standing{config: c, room: frameSize - Headroom}}
	file, err := listening(s)
	if err == nil {
		var mc memif.Config
		if mc, err = memifConfig(&c); err == nil {
			m.device, err = memif.Adopt(mc, file)
		} else if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", c.Name, err), s.Close())
	}
	m.attach(m.device)
	return m, nil
}

// Detach implements Restorable: the peer is disconnected.
func (m *Memif) Detach(why error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disabled = errors.Is(why, ErrDisabled)
	if m.device == nil {
		return nil
	}
	was := m.info()
	c := m.count()
	err := m.device.Close()
	m.device = nil
	m.detached(was, c, why)
	return err
}

// readSecret returns a file's content, less the end of its line.
func readSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	s := strings.TrimRight(string(b), "\r\n")
	if s == "" || len(s) > memif.SecretSize || strings.IndexByte(s, 0) >= 0 {
		return "", fmt.Errorf("%s has a secret of %d bytes: want 1 to %d, none of them 0", file, len(s), memif.SecretSize)
	}
	return s, nil
}

// Open implements Port.
func (m *Memif) Open(number uint16, queue int, frames *packet.Cache) (Queue, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.device == nil {
		return Down(), nil // a port that is off
	}
	q := &memifQueue{
		port: m, rx: m.device.Receive(queue), tx: m.device.Transmit(queue), first: m.device.Transmit(0),
		standingQueue: standingQueue{copyQueue{frames: frames, number: number, queue: uint8(queue), room: uint64(m.room)}, &m.standing},
	}
	return m.shaper.shape(q, frames), nil
}

// Info implements Port.
func (m *Memif) Info() Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.device == nil {
		return m.absence.info()
	}
	return m.info()
}

func (m *Memif) info() Info {
	i := Info{
		Name: m.config.Name, Interface: m.config.Socket, Driver: DriverMemif, Queues: m.config.Queues,
		MTU: m.room - ethernetOverhead, MaxFrame: m.room, State: StateDown,
	}
	if m.device == nil {
		return i
	}
	s := m.device.Status()
	role := ModeServer
	if m.config.Mode == ModeClient {
		role = ModeClient
	}
	mode := []string{role, fmt.Sprintf("id %d", m.config.ID)}
	switch {
	case s.Connected:
		i.Up, i.State = true, StateUp
		mode = append(mode, fmt.Sprintf("%d descriptors", s.RingSize))
		if s.Rings < 2*m.config.Queues {
			i.Error = fmt.Sprintf("the peer uses %d of %d rings, and what is for the others leaves by the first: set queues as the peer has them", s.Rings, 2*m.config.Queues)
		}
	case s.Error != "":
		i.Error = s.Error
	default:
		i.Error = fmt.Sprintf("no peer has connected to interface %d of %s", m.config.ID, m.config.Socket)
	}
	i.Mode = strings.Join(append(mode, "copy"), ", ")
	if text := listFaults(m.count().Faults); text != "" && i.Error == "" {
		i.Error = "the peer's rings had faults, which cost packets: " + text
	}
	return i
}

// Counters implements Port.
func (m *Memif) Counters() Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.count()
	c.Add(&m.past)
	return c
}

func (m *Memif) count() (c Counters) {
	if m.device == nil {
		return c
	}
	for k := range m.config.Queues {
		countRings(&c, &m.device.Receive(k).Faults, &m.device.Transmit(k).Faults)
	}
	return c
}

// Close implements Port.
func (m *Memif) Close() error {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	err := m.Detach(errStopped)
	m.end()
	return err
}

type memifQueue struct {
	standingQueue
	port   *Memif
	rx, tx *memif.Queue
	first  *memif.Queue // the first one to transmit
}

// Receive implements Queue.
func (q *memifQueue) Receive(b *packet.Batch) (received int) {
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
	defer q.free() // also if the memory is gone in the middle
	for tries := q.end; tries > 0; tries-- {
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
		n, ok := ring.Get(b.Mem[addr:][:q.room])
		if !ok {
			break
		}
		if n == 0 {
			continue // refused, and counted
		}
		q.next++
		p := b.Append()
		p.Addr, p.Len, p.WireLen = addr, uint32(n), uint32(n)
		p.InPort, p.InQueue = q.number, q.queue
		received++
	}
	ring.Flush()
	return received
}

// Transmit implements Queue. A packet that the peer's buffers will never hold is taken, and counted as invalid. Where the
// peer has fewer rings than the port has queues, the first one serves the others' workers too.
func (q *memifQueue) Transmit(b *packet.Batch, idx []uint16) (taken int) {
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
			tx.Faults.Add(memif.FaultLong)
		} else if result := ring.Put(q.pieces[:n], length); result == memif.Full {
			q.refusal = packet.ReasonTxFull
			break
		} else if result == memif.Refused && ring.Broken() {
			break
		}
		q.frames.FreePacket(p)
		taken++
	}
	if ring.Flush() {
		tx.Notify()
	}
	return taken
}

// FD implements Queue.
func (q *memifQueue) FD() int { return q.rx.FD() }

// Sleep implements Sleeper.
func (q *memifQueue) Sleep() (ready bool) { return q.rx.Sleep() }
