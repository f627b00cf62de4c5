package vhost

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

// A device passes to another process while its front-end is connected and its guest drives the rings, and sees nothing but a pause:
//
//	the process that has the device          the process that takes it over
//	Listener                            ──>  Adopt
//	Freeze: no message is read
//	its workers rest
//	State                               ──>  Enter: maps memory, reads no ring
//	Leave                                    Begin: rings go on, messages are read
//	Close
//
// Up to Leave the first one goes on by Thaw: all that the other one has done is to map the memory. What rings know is in the guest's memory between
// two batches, but where they go on, and how much of a large packet was received. So State is taken once no worker uses a ring.

// deviceState is the text of State, whose descriptors are those of the connection, regions, log, tracking, each ring's kick and call, and of the message that
// has come in part.
type deviceState struct {
	Connections uint64        `json:"connections"`
	Error       string        `json:"error,omitempty"`
	Connected   bool          `json:"connected"`
	Features    uint64        `json:"features,omitempty"`
	Protocol    uint64        `json:"protocol,omitempty"`
	Regions     []regionState `json:"regions,omitempty"`
	Log         *regionState  `json:"log,omitempty"`
	Inflight    *regionState  `json:"inflight,omitempty"`
	Tracked     int           `json:"tracked,omitempty"` // rings in Inflight
	Each        int           `json:"each,omitempty"`    // bytes of a ring
	Rings       []ringState   `json:"rings,omitempty"`
	Message     []byte        `json:"message,omitempty"`
	Passed      int           `json:"passed,omitempty"` // descriptors of the message
}

type regionState struct {
	Guest  uint64 `json:"guest,omitempty"`
	User   uint64 `json:"user,omitempty"`
	Size   uint64 `json:"size"`
	Offset uint64 `json:"offset"` // in its file
}

type ringState struct {
	Size    int    `json:"size"`
	Desc    uint64 `json:"desc"`
	Driver  uint64 `json:"driver"`
	Device  uint64 `json:"device"`
	Base    uint32 `json:"base"`
	Cut     int    `json:"cut,omitempty"`
	Log     bool   `json:"log,omitempty"`
	LogUsed uint64 `json:"log_used,omitempty"`
	Placed  bool   `json:"placed"`
	Started bool   `json:"started"`
	Enabled bool   `json:"enabled"`
	Running bool   `json:"running"`
	Broken  bool   `json:"broken,omitempty"`
	Kick    bool   `json:"kick"`
	Call    bool   `json:"call"`
}

// Listener returns a descriptor of the socket, nil in client mode.
func (d *Device) Listener() (*os.File, error) {
	if d.listener == nil {
		return nil, nil
	}
	return d.listener.Share()
}

// Freeze has the front-end wait: until Thaw no message of it is read, and none is accepted. It fails where one has been handled for longer than the limit.
func (d *Device) Freeze(limit time.Duration) error { return d.turn.Freeze(limit) }

// Thaw undoes Freeze.
func (d *Device) Thaw() { d.turn.Thaw() }

// Leave gives a frozen device up: what is shared with the front-end is another process's. Close follows.
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
	s := deviceState{Connections: d.status.Connections, Error: d.status.Error, Connected: d.status.Connected}
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			files = nil
		}
	}()
	if s.Connected {
		c, err := shmem.Share(d.conn)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, c)
		var all []int
		s.Features, s.Protocol, s.Tracked, s.Each = d.features, d.protocol, d.tracked, d.each
		of := func(m *mapping) regionState {
			all = append(all, m.file)
			return regionState{m.region.Guest, m.region.User, uint64(len(m.region.Bytes)), m.offset}
		}
		for _, m := range d.mapped.regions {
			s.Regions = append(s.Regions, of(m))
		}
		for _, beside := range []struct {
			m  *mapping
			to **regionState
		}{{d.mapped.log, &s.Log}, {d.mapped.inflight, &s.Inflight}} {
			if beside.m != nil {
				r := of(beside.m)
				*beside.to = &r
			}
		}
		for _, v := range d.vrings {
			var files []int
			r := v.state(&files)
			s.Rings = append(s.Rings, r)
			all = append(all, files...)
		}
		s.Message, s.Passed = d.message.buf[:d.message.have], len(d.message.files)
		all = append(all, d.message.files...)
		for _, fd := range all {
			f, err := shmem.ShareFD(fd)
			if err != nil {
				return nil, files, err
			}
			files = append(files, f)
		}
	}
	text, err = json.Marshal(s)
	return text, files, err
}

// state describes the ring, and appends its descriptors.
func (v *Vring) state(files *[]int) ringState {
	v.gate.Lock()
	defer v.gate.Unlock()
	l := v.layout
	if v.ring != nil {
		l.Base, l.Cut = v.ring.Base(), v.ring.Cut()
	}
	s := ringState{
		Size: l.Size, Desc: l.Desc, Driver: l.Driver, Device: l.Device, Base: l.Base, Cut: l.Cut, Log: l.Log, LogUsed: l.LogUsed,
		Placed: v.placed, Started: v.started, Enabled: v.enabled, Running: v.ring != nil, Broken: v.ring != nil && v.ring.Broken(),
		Kick: v.bell.Kick() >= 0, Call: v.call >= 0,
	}
	if s.Kick {
		*files = append(*files, v.bell.Kick())
	}
	if s.Call {
		*files = append(*files, v.call)
	}
	return s
}

// Adopt makes a device that another process has still, with a descriptor of its socket, nil in client mode, which it takes. Close leaves all to that process until Begin.
func Adopt(c Config, listener *os.File) (*Device, error) {
	if (listener != nil) != c.Server {
		err := errors.New("the listening socket is missing, or there is one in client mode")
		if listener != nil {
			err = errors.Join(err, listener.Close())
		}
		return nil, err
	}
	d, err := makeDevice(c)
	if err != nil {
		if listener != nil {
			err = errors.Join(err, listener.Close())
		}
		return nil, err
	}
	d.entering = true
	if listener != nil {
		if d.listener, err = shmem.AdoptListener(listener); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
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
	var s deviceState
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if !d.entering {
		return errors.New("it was opened here meanwhile: try again")
	}
	next := func() (*os.File, error) {
		if len(left) == 0 {
			return nil, errors.New("a descriptor is missing")
		}
		f := left[0]
		left = left[1:]
		return f, nil
	}
	number := func() (int, error) {
		f, err := next()
		if err != nil {
			return -1, err
		}
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		return fd, errors.Join(err, f.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = Status{Connected: s.Connected, Features: s.Features, Connections: s.Connections, Error: s.Error}
	if !s.Connected {
		if len(left) != 0 {
			return fmt.Errorf("%d descriptors without a front-end", len(left))
		}
		return nil
	}
	if s.Features&^d.offered() != 0 || s.Protocol&^uint64(offeredByWire) != 0 {
		return fmt.Errorf("features %#x and %#x of the protocol, of which %#x and %#x are offered", s.Features, s.Protocol, d.offered(), offeredByWire)
	}
	if len(s.Rings) != len(d.vrings) || len(s.Regions) > maxSlots || len(s.Message) > len(d.message.buf) || s.Passed < 0 || s.Passed > maxRegions {
		return fmt.Errorf("%d rings, %d regions, and a message of %d bytes with %d descriptors: want %d, and at most %d, %d, and %d",
			len(s.Rings), len(s.Regions), len(s.Message), s.Passed, len(d.vrings), maxSlots, len(d.message.buf), maxRegions)
	}
	conn, err := next()
	if err != nil {
		return err
	}
	if d.conn, err = shmem.AdoptConn(conn); err != nil {
		return err
	}
	d.features, d.protocol = s.Features, s.Protocol
	mapNext := func(r regionState, limit uint64) (*mapping, error) {
		f, err := next()
		if err != nil {
			return nil, err
		}
		m, err := mapFile(int(f.Fd()), r.Size, r.Offset, limit)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		m.region.Guest, m.region.User = r.Guest, r.User
		return m, nil
	}
	for i, r := range s.Regions {
		m, err := mapNext(r, room(d.mapped.regions))
		if err != nil {
			return fmt.Errorf("memory region %d: %w", i, err)
		}
		d.mapped.regions = append(d.mapped.regions, m)
	}
	if s.Log != nil {
		if d.mapped.log, err = mapNext(*s.Log, maxBeside); err != nil {
			return fmt.Errorf("the log of dirty pages: %w", err)
		}
	}
	if s.Inflight != nil {
		if d.mapped.inflight, err = mapNext(*s.Inflight, maxBeside); err != nil {
			return fmt.Errorf("the tracking of buffers in flight: %w", err)
		}
		if n := len(d.mapped.inflight.region.Bytes); s.Tracked < 0 || s.Tracked > len(d.vrings) || s.Each < 0 || s.Each > n || s.Tracked*s.Each > n {
			return fmt.Errorf("tracking of %d rings of %d bytes in %d", s.Tracked, s.Each, n)
		}
	}
	memory, err := d.mapped.memory(d.features&logAll != 0)
	if err != nil {
		return err
	}
	for i, v := range d.vrings {
		if err := v.enter(&s.Rings[i], number); err != nil {
			return fmt.Errorf("ring %d: %w", i, err)
		}
		v.gate.Lock()
		v.negotiated(d.features)
		v.enabled, v.memory = s.Rings[i].Enabled, memory
		v.gate.Unlock()
	}
	if s.Inflight != nil {
		d.track(d.mapped.inflight, s.Tracked, s.Each)
	}
	d.message.have = copy(d.message.buf[:], s.Message)
	for range s.Passed {
		fd, err := number()
		if err != nil {
			return err
		}
		d.message.files = append(d.message.files, fd)
	}
	if len(left) != 0 {
		return fmt.Errorf("%d descriptors more than are expected", len(left))
	}
	return nil
}

// enter takes a ring's state, and its descriptors, of which number returns the next.
func (v *Vring) enter(s *ringState, number func() (int, error)) error {
	event := func(has bool) (fd int, err error) {
		if !has {
			return -1, nil
		}
		if fd, err = number(); err != nil {
			return -1, err
		}
		if err := shmem.Eventfd(fd); err != nil {
			return -1, errors.Join(err, unix.Close(fd))
		}
		return fd, nil
	}
	if s.Size < 0 || s.Size > 1<<15 || s.Cut < 0 || s.Cut > maxMemory {
		return fmt.Errorf("%d descriptors, and %d segments of a packet", s.Size, s.Cut)
	}
	kick, err := event(s.Kick)
	if err != nil {
		return err
	}
	v.gate.Lock()
	defer v.gate.Unlock()
	if err := v.setKick(kick); err != nil {
		return err
	}
	if v.call, err = event(s.Call); err != nil {
		return err
	}
	l := &v.layout
	l.Size, l.Desc, l.Driver, l.Device, l.Base, l.Cut, l.Log, l.LogUsed = s.Size, s.Desc, s.Driver, s.Device, s.Base, s.Cut, s.Log, s.LogUsed
	v.placed, v.started, v.must = s.Placed, s.Started, s.Running
	if s.Broken {
		v.lost = errors.New("it could not be followed any more in the process before")
	}
	return nil
}

// Begin starts the rings of a device that was entered, and its goroutine. It is called once, or more often, once the other process has left the device.
func (d *Device) Begin() {
	d.begin.Do(func() {
		for _, v := range d.vrings {
			if err := v.resume(); err != nil {
				d.fail(fmt.Errorf("ring %d: %w", v.index, err))
			}
		}
		d.entering = false
		d.done.Go(d.run)
	})
}

// resume goes on with a ring where another process has left it.
func (v *Vring) resume() error {
	v.gate.Lock()
	defer v.gate.Unlock()
	if v.lost != nil || !v.started {
		return v.lost
	}
	if err := v.start(); err != nil && v.must { // else it waits for memory
		return err
	}
	return nil
}
