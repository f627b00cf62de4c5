package memif

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// A device passes to another process while its peer is connected, and that sees nothing but a pause:
//
//	the process that has the device          the process that takes it over
//	Listener                            ──>  Adopt
//	Freeze: no message is read
//	its workers rest
//	State                               ──>  Enter: maps memory, reads no ring
//	Leave                                    Begin: rings go on, messages are read
//	Close
//
// Up to Leave the first one goes on by Thaw. A peer that is not connected yet, but has begun to, is disconnected by Leave, and
// connects anew. Between two batches a ring is its memory and the index that this side has written last, which is not read from that memory: the peer
// may have written to it.

// deviceState is the text of State, whose descriptors are those of the connection, the regions, and the notification of each ring.
type deviceState struct {
	Connections uint64      `json:"connections"`
	Error       string      `json:"error,omitempty"`
	Connected   bool        `json:"connected"`
	Peer        string      `json:"peer,omitempty"`
	Regions     []uint64    `json:"regions,omitempty"` // bytes
	Rings       []ringState `json:"rings,omitempty"`
}

type ringState struct {
	Sends  bool   `json:"sends"`
	Index  int    `json:"index"`
	Region uint16 `json:"region"`
	Offset uint32 `json:"offset"`
	Log2   uint8  `json:"log2"`
	Next   uint16 `json:"next"`
	Broken bool   `json:"broken,omitempty"`
}

// Listener returns a descriptor of the socket, nil for a client. Interfaces of one socket return the same.
func (d *Device) Listener() (*os.File, error) {
	if d.listener == nil {
		return nil, nil
	}
	return d.listener.socket.Share()
}

// Freeze has the peer wait: until Thaw no message of it is read, and none is accepted at the socket. It fails where a message has been handled for longer than the limit.
func (d *Device) Freeze(limit time.Duration) error { return d.turn.Freeze(limit) }

// Thaw undoes Freeze.
func (d *Device) Thaw() { d.turn.Thaw() }

// Leave gives a frozen device up, and all others of its socket: what is shared with the peer is another process's. Close follows.
func (d *Device) Leave() {
	d.turn.Leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.SetReadDeadline(time.Now()) // the goroutine waits for it
	}
}

// State describes a frozen device, no ring of which is used. The files are the caller's.
func (d *Device) State() (text []byte, files []*os.File, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := deviceState{Connections: d.status.Connections, Error: d.status.Error, Connected: d.status.Connected, Peer: d.status.Peer}
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			files = nil
		}
	}()
	if state.Connected {
		s := d.session
		c, err := shmem.Share(s.conn)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, c)
		all := slices.Clone(s.memory.files)
		for _, r := range s.memory.regions {
			state.Regions = append(state.Regions, uint64(len(r)))
		}
		for _, p := range s.rings {
			r, file := p.queue.state(p.ring)
			for i := range d.receive {
				if p.queue == d.receive[i] || p.queue == d.transmit[i] {
					r.Index = i
				}
			}
			state.Rings = append(state.Rings, r)
			all = append(all, file)
		}
		for _, fd := range all {
			f, err := shmem.ShareFD(fd)
			if err != nil {
				return nil, files, err
			}
			files = append(files, f)
		}
	}
	text, err = json.Marshal(state)
	return text, files, err
}

// state describes a ring of the queue's, and returns the descriptor by which its receiver is notified.
func (q *Queue) state(r *Ring) (s ringState, file int) {
	q.gate.Lock()
	defer q.gate.Unlock()
	l := &r.layout
	s = ringState{Sends: l.sends, Region: l.region, Offset: l.offset, Log2: l.log2, Next: r.next, Broken: r.broken}
	if l.sends {
		return s, q.notify
	}
	return s, q.bell.Kick()
}

// Adopt makes a device that another process has still, with a descriptor of its socket, nil for a client, which it takes. Close leaves all to that process until Begin.
func Adopt(c Config, socket *os.File) (*Device, error) {
	if (socket != nil) != c.Server {
		err := errors.New("the listening socket is missing, or a client has one")
		if socket != nil {
			err = errors.Join(err, socket.Close())
		}
		return nil, err
	}
	d, err := makeDevice(c)
	if err == nil {
		d.entering = true
		if socket == nil {
			return d, nil
		}
		if err = adoptListener(d, socket); err == nil {
			return d, nil
		}
		err = errors.Join(err, d.Close())
	} else if socket != nil {
		err = errors.Join(err, socket.Close())
	}
	return nil, err
}

// adoptListener is listen with the socket of another process.
func adoptListener(d *Device, socket *os.File) error {
	listenersMu.Lock()
	defer listenersMu.Unlock()
	path := d.config.Socket
	l := listeners[path]
	if l == nil {
		s, err := shmem.AdoptListener(socket)
		if err != nil {
			return err
		}
		l = newListener(path, s)
		l.theirs = true
	} else if err := socket.Close(); err != nil {
		return err
	}
	return l.enter(d)
}

// Enter takes what State says, and the files, also on failure. It changes nothing that is shared.
func (d *Device) Enter(text []byte, files []*os.File) (err error) {
	left := slices.Clone(files) // those that nothing has taken
	defer func() {
		for _, f := range left {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			err = fmt.Errorf("what the other process says of the device: %w", err)
		}
	}()
	var state deviceState
	if err := json.Unmarshal(text, &state); err != nil {
		return err
	}
	if !d.entering {
		return errors.New("it was opened here meanwhile: try again")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = Status{Connections: state.Connections, Error: state.Error}
	want := 0
	if state.Connected {
		want = 1 + len(state.Regions) + len(state.Rings)
	}
	if len(left) != want || len(state.Regions) > maxRegions || len(state.Rings) > 2*d.config.Queues {
		return fmt.Errorf("%d regions and %d rings with %d descriptors: want at most %d and %d with %d", len(state.Regions), len(state.Rings), len(left), maxRegions, 2*d.config.Queues, want)
	}
	if !state.Connected {
		return nil
	}
	next := func() (f *os.File) {
		f, left = left[0], left[1:]
		return f
	}
	s := &session{device: d, joined: true}
	if s.conn, err = shmem.AdoptConn(next()); err != nil {
		return err
	}
	d.conn, d.session, d.entered = s.conn, s, s
	for i, size := range state.Regions {
		f := next()
		err := s.memory.add(int(f.Fd()), size)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("region %d: %w", i, err)
		}
	}
	for _, r := range state.Rings {
		if err := s.enter(r, next()); err != nil {
			return fmt.Errorf("ring %d: %w", r.Index, err)
		}
		d.status.RingSize = 1 << r.Log2
	}
	d.status.Connected, d.status.Peer = true, state.Peer
	return nil
}

// enter takes a ring's state, and its descriptor.
func (s *session) enter(r ringState, f *os.File) error {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	p := pending{file: fd}
	defer func() {
		if p.queue == nil {
			_ = unix.Close(fd)
		}
	}()
	if err := shmem.Eventfd(fd); err != nil {
		return err
	}
	d := s.device
	if r.Index < 0 || r.Index >= d.config.Queues {
		return fmt.Errorf("there are %d", d.config.Queues)
	}
	q := d.receive[r.Index]
	if r.Sends {
		q = d.transmit[r.Index]
	}
	if slices.ContainsFunc(s.rings, func(p pending) bool { return p.queue == q }) {
		return errors.New("it is there already")
	}
	l := layout{region: r.Region, offset: r.Offset, log2: r.Log2, sends: r.Sends, lends: !d.config.Server, runs: true, next: r.Next}
	if l.lends { // the buffers are where this side has put them, as in shareRings
		l.buffers, err = lentAt(&s.memory, l)
		if err != nil {
			return err
		}
	}
	if p.ring, err = newRing(&s.memory, l, &q.Faults); err != nil {
		return err
	}
	p.ring.broken = r.Broken
	p.queue = q
	s.rings = append(s.rings, p)
	return nil
}

// lentAt returns where the buffers of a client's ring are: rings are in front of its one region, and the buffers follow in their order.
func lentAt(m *memory, l layout) (buffers int, err error) {
	if len(m.regions) != 1 || l.region != 0 || l.log2 > maxLog2 {
		return 0, fmt.Errorf("2^%d descriptors in region %d of %d", l.log2, l.region, len(m.regions))
	}
	size := 1 << l.log2
	each := ringBytes(size)
	rings := len(m.regions[0]) / (each + bufferSize*size)
	i := int(l.offset) / each
	buffers = rings*each + i*bufferSize*size
	if int(l.offset)%each != 0 || i >= rings || buffers+bufferSize*size > len(m.regions[0]) {
		return 0, fmt.Errorf("%d descriptors at %d of %d bytes", size, l.offset, len(m.regions[0]))
	}
	return buffers, nil
}

// Begin starts the rings of a device that was entered, and its goroutines. It is called once, or more often, once the other process has left the device.
func (d *Device) Begin() {
	d.begin.Do(func() {
		d.entering = false
		s := d.entered // and not d.session: a peer may have come to a listener that runs already
		if s != nil {
			for i := range s.rings {
				p := &s.rings[i]
				fd := p.file
				p.file = -1
				err := p.queue.start(p.ring, fd)
				if err == nil && p.ring.broken {
					err = errors.New("it could not be followed any more in the process before")
				}
				if err != nil {
					d.fail(fmt.Errorf("%s: %w", p.queue.name, err))
				}
			}
			d.done.Add(1) // for serve
		}
		if d.listener == nil {
			d.done.Go(d.runClient)
			return
		}
		d.listener.run()
		if s != nil {
			go func() {
				defer d.turn.Give()
				d.turn.Take()
				d.serve(s, nil)
			}()
		}
	})
}
