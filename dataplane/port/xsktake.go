package port

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
	"github.com/weirswitch/weir/pipeline/packet"
)

// xskShare is the State of an XSK port's Share, whose files are those of the link, of each socket, and of the ledger, if there is one.
// The XDP program and its map are not among them: the other process loads its own, which directs packets to the same sockets,
// and has it replace this one when its workers have them.
type xskShare struct {
	Interface string      `json:"interface"`
	Index     int         `json:"index"`
	Mode      xdp.Mode    `json:"mode"`
	NoNative  string      `json:"no_native,omitempty"`
	Sockets   []xsk.Share `json:"sockets"`
	Settings  nic.Share   `json:"settings"`
}

// xskTaking is what an XSK port has been given by another process, until its queues are open.
type xskTaking struct {
	share xskShare
	files *Share
}

// Share implements Takeable.
func (x *XSK) Share() (_ *Share, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.beneath == nil {
		return absent(x.config.Name, DriverXSK), nil // its interface is missing, or it is switched off
	}
	if x.opening || x.stopped || len(x.queues) != x.config.Queues {
		return nil, fmt.Errorf("port %s is being opened or closed", x.config.Name)
	}
	s := &Share{Name: x.config.Name, Driver: DriverXSK}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("port %s: %w", x.config.Name, err), s.Close())
		}
	}()
	b := x.beneath
	state := xskShare{Interface: b.link.name, Index: b.link.index, Mode: b.attach.Mode()}
	if why := b.attach.NoNative(); why != nil {
		state.NoNative = why.Error()
	}
	file, err := b.attach.File()
	if err != nil {
		return nil, err
	}
	s.Files = append(s.Files, file)
	for _, q := range x.queues {
		q.shared.Store(true)
		fd, err := unix.FcntlInt(uintptr(q.socket.FD()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("copy a socket's descriptor: %w", err)
		}
		s.Files = append(s.Files, os.NewFile(uintptr(fd), "xsk"))
		state.Sockets = append(state.Sockets, q.socket.Share())
	}
	settings, ledger, err := b.settings.Share()
	if err != nil {
		return nil, err
	}
	state.Settings = settings
	if ledger != nil {
		s.Files = append(s.Files, ledger)
	}
	s.State, err = json.Marshal(state)
	return s, err
}

// TakeXSK makes the port of another process's share, in the network namespace of the calling thread, over that process's
// packet memory. It takes the share's files.
func TakeXSK(c Config, memory *UMEM, s *Share) (*XSK, error) {
	x := &XSK{config: c, memory: memory, reception: packet.Reception{All: true}}
	if err := x.takeFrom(s); err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", c.Name, err), x.Close(), s.Close())
	}
	return x, nil
}

func (x *XSK) takeFrom(s *Share) (err error) {
	x.left = true // until it is entered, Close leaves all to the other process
	t := &xskTaking{files: s}
	if err := json.Unmarshal(s.State, &t.share); err != nil {
		return fmt.Errorf("what the other process says of the port: %w", err)
	}
	state := &t.share
	if x.space, err = CurrentSpace(); err != nil {
		return err
	}
	l, err := findLink(state.Interface)
	if err != nil {
		return err
	}
	if l.index != state.Index {
		l.close()
		return fmt.Errorf("interface %s has the index %d here, and %d where the old switch runs: start both in the same network namespace", state.Interface, l.index, state.Index)
	}
	x.config.Queues = len(state.Sockets)
	b := &beneath{link: l}
	x.beneath = b // Close closes what there is of it
	if err := x.fits(l); err != nil {
		return err
	}
	var ledger *os.File
	if state.Settings.Ledger != "" {
		if ledger, err = s.take(1 + len(state.Sockets)); err != nil {
			return err
		}
	}
	if b.settings, err = nic.Adopt(state.Interface, state.Settings, ledger); err != nil {
		return err
	}
	file, err := s.take(0)
	if err != nil {
		return err
	}
	var noNative error
	if state.NoNative != "" {
		noNative = errors.New(state.NoNative)
	}
	fd, err := takeFD(file)
	if err != nil {
		return err
	}
	if b.attach, err = xdp.Adopt(fd, l.index, state.Mode, noNative); err != nil {
		return err
	}
	if err := x.load(l); err != nil {
		return err
	}
	if err := b.attach.Replace(x.program); err != nil {
		return err
	}
	x.bound = true
	l.countQueues()
	if b.member, err = openMembership(l.index); err != nil {
		return err
	}
	x.taking = t
	return b.member.set(x.reception)
}

// takeFD takes the descriptor out of a file.
func takeFD(f *os.File) (int, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return fd, errors.Join(err, f.Close())
}

// takeQueue is openQueue of a port that another process has still.
func (x *XSK) takeQueue(b *beneath, program *xdp.Program, number uint16, queue int, frames *packet.Cache) (*xskQueue, error) {
	file, err := x.taking.files.take(1 + queue)
	if err != nil {
		return nil, err
	}
	fd, err := takeFD(file)
	if err != nil {
		return nil, err
	}
	share := x.taking.share.Sockets[queue]
	socket, err := x.memory.umem.Adopt(fd, b.link.index, share)
	if err != nil {
		return nil, err
	}
	x.memory.multiBuffer = share.MultiBuffer
	x.memory.opened.Store(true)
	q := makeXSKQueue(socket, number, uint8(queue), frames)
	x.ready(q, b, program)
	if err := program.Register(queue, socket.FD()); err != nil {
		_, closeErr := q.Close()
		return nil, errors.Join(err, closeErr)
	}
	return q, nil
}

// Leave implements Takeable.
func (x *XSK) Leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.past = x.counters() // the sockets' counters are the other process's from now on
	x.left, x.stopped = true, true
	for _, q := range x.queues {
		q.Leave()
	}
}

// Entered implements Takeable.
func (x *XSK) Entered() error {
	x.mu.Lock()
	b := x.beneath
	x.left, x.taking = false, nil
	x.mu.Unlock()
	if b == nil {
		return nil // its interface is missing, or the port is switched off
	}
	// Without the lock, which Info takes: the kernel replaces a program in its own time.
	return b.attach.Commit()
}

// Frames implements Movable.
func (q *xskQueue) Frames(dst []uint32) []uint32 {
	for i, kernel := range q.given {
		if kernel {
			dst = append(dst, uint32(i))
		}
	}
	return dst
}

// AppendState implements Movable: a bit per frame that the queue has, the lowest first. With the audit a second row of bits has those of them that
// are to be transmitted.
func (q *xskQueue) AppendState(dst []byte) ([]byte, error) {
	if !q.shared.Load() {
		return nil, errMadeAnew
	}
	row, n := (len(q.given)+7)/8, 0
	has := make([]byte, row, 2*row)
	if q.pool.Audited() {
		has = has[:2*row]
	}
	for i, kernel := range q.given {
		if !kernel {
			continue
		}
		has[i/8] |= 1 << (i % 8)
		n++
		if len(has) > row && q.pool.KernelOwner(uint64(i*q.pool.FrameSize())) == packet.OwnerTx {
			has[row+i/8] |= 1 << (i % 8)
		}
	}
	if rx, tx := q.socket.Outstanding(); rx+tx != n {
		return nil, fmt.Errorf("queue %d has %d frames, and its rings account for %d", q.number, n, rx+tx)
	}
	return append(dst, has...), nil
}

// Enter implements Movable.
func (q *xskQueue) Enter(state []byte) (frames []uint32, err error) {
	row := (len(q.given) + 7) / 8
	rows := 1
	if q.pool.Audited() {
		rows = 2
	}
	if len(state) == 0 {
		return nil, errClosedMeanwhile
	}
	if len(state) != rows*row {
		return nil, fmt.Errorf("queue %d: a state of %d bytes, and not of %d", q.number, len(state), rows*row)
	}
	for i := range q.given {
		if q.given[i] = state[i/8]&(1<<(i%8)) != 0; !q.given[i] || rows == 1 {
			continue
		}
		owner := packet.OwnerFill
		if state[row+i/8]&(1<<(i%8)) != 0 {
			owner = packet.OwnerTx
		}
		q.pool.Adopt(uint64(i*q.pool.FrameSize()), owner)
	}
	frames = q.Frames(nil)
	rx, tx := q.socket.Outstanding()
	if rx+tx != len(frames) || rx > q.socket.Fill.Size() {
		return nil, fmt.Errorf("queue %d has %d frames, and its rings account for %d", q.number, len(frames), rx+tx)
	}
	q.debt, q.inFlight = q.socket.Fill.Size()-rx, tx
	return frames, nil
}

// Begin implements Movable. What the kernel has counted for the socket so far is the other process's.
func (q *xskQueue) Begin() {
	q.base, _ = q.socket.Stats()
	q.socket.Sync()
}

// Leave implements Movable.
func (q *xskQueue) Leave() { q.socket.Leave() }
