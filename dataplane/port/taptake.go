package port

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/gso"
)

// tapShare is the State of a Tap's Share, whose files are those of its queues. The interface exists as long as any process has one of them, so that
// its addresses and what waits in the kernel for the port stay.
type tapShare struct {
	Interface string       `json:"interface"`
	Index     int          `json:"index"`
	Leaves    gso.Offloads `json:"leaves"`
}

// Share implements Takeable.
func (t *Tap) Share() (_ *Share, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.link == nil {
		return absent(t.config.Name, DriverTap), nil
	}
	if t.opening || t.stopped {
		return nil, fmt.Errorf("port %s is being opened or closed", t.config.Name)
	}
	s := &Share{Name: t.config.Name, Driver: DriverTap}
	for _, q := range t.queues {
		q.shared.Store(true)
	}
	for _, file := range t.files {
		fd, err := unix.FcntlInt(uintptr(file), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("port %s: copy a queue's descriptor: %w", t.config.Name, err), s.Close())
		}
		s.Files = append(s.Files, os.NewFile(uintptr(fd), "tap"))
	}
	s.State, err = json.Marshal(tapShare{t.link.name, t.link.index, t.leaves})
	return s, err
}

// TakeTap makes the port of another process's share, in the network namespace of the calling thread. It takes the share's files.
func TakeTap(c Config, d DataplaneConfig, s *Share) (_ *Tap, err error) {
	var state tapShare
	if err := json.Unmarshal(s.State, &state); err != nil {
		return nil, fmt.Errorf("port %s: what the other process says of it: %w", c.Name, err)
	}
	c.Queues = len(s.Files)
	t := &Tap{config: c, ring: d.RXRing, room: d.FrameSizeFor([]Config{c}) - Headroom, leaves: state.Leaves}
	t.left = true
	if t.space, err = CurrentSpace(); err == nil {
		t.link, err = findLink(state.Interface)
	}
	if err == nil && t.link.index != state.Index {
		err = fmt.Errorf("interface %s has the index %d here, and %d where the old switch runs: start both in the same network namespace", state.Interface, t.link.index, state.Index)
	}
	for i := 0; err == nil && i < c.Queues; i++ {
		var file *os.File
		if file, err = s.take(i); err != nil {
			break
		}
		var fd int
		if fd, err = takeFD(file); err == nil {
			t.files = append(t.files, fd)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", c.Name, err), t.Close(), s.Close())
	}
	return t, nil
}

// Leave implements Takeable.
func (t *Tap) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left, t.stopped = true, true
	t.paused.Store(true)
}

// Entered implements Takeable.
func (t *Tap) Entered() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = false
	return nil
}

// A tapQueue has no frames between two batches, and what waits for the port is in the kernel, but for the rest of a large packet that is being cut. The state is 'T', or
//
//	| 'C' | kind 1 | size of a segment 2 | segments that were received 2 | the large packet |
//
// in little-endian.
const cutHeader = 6

// AppendState implements Movable.
func (q *tapQueue) AppendState(dst []byte) ([]byte, error) {
	if !q.shared.Load() {
		return nil, errMadeAnew
	}
	if !q.cut.On() {
		return append(dst, 'T'), nil
	}
	dst = append(dst, 'C', q.cut.Kind())
	dst = binary.LittleEndian.AppendUint16(dst, uint16(q.cut.Size()))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(q.cut.Taken()))
	return append(dst, q.one[0]...), nil
}

// Enter implements Movable.
func (q *tapQueue) Enter(state []byte) ([]uint32, error) {
	switch {
	case string(state) == "T":
		return nil, nil
	case len(state) == 0 || state[0] != 'C':
		return nil, errClosedMeanwhile
	case len(state) < cutHeader || len(state)-cutHeader > len(q.large):
		return nil, fmt.Errorf("the state of a large packet has %d bytes", len(state))
	}
	kind, size, taken := state[1], int(binary.LittleEndian.Uint16(state[2:])), int(binary.LittleEndian.Uint16(state[4:]))
	total := copy(q.large, state[cutHeader:])
	q.one[0] = q.large[:total]
	q.cut.Source(q.one[:])
	if q.cut.BeginKind(kind, size, total, int(q.room)) != gso.OK {
		return nil, errors.New("the state of a large packet is none of one that is cut")
	}
	segment := make([]byte, q.room)
	for range taken { // they were received there
		if !q.cut.On() {
			break
		}
		q.cut.Next(segment)
	}
	if !q.cut.On() {
		return nil, fmt.Errorf("the state of a large packet of %d bytes says that %d segments of it were received", total, taken)
	}
	return nil, nil
}

// Frames implements Movable.
func (q *tapQueue) Frames(dst []uint32) []uint32 { return dst }

// Begin implements Movable.
func (q *tapQueue) Begin() {}

// Leave implements Movable.
func (q *tapQueue) Leave() { q.cut.Source(nil) }
