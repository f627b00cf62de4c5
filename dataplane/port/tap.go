package port

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/pipeline/packet"
)

// Tap is a port of the host: a TAP interface (drivers/net/tun.c in the kernel), which the port makes and which
// exists as long as the port is open. What the host sends by that interface arrives at the port, and what
// leaves by the port arrives at the host's stack. The kernel takes and gives one packet for a system call, and copies it.
//
// The kernel spreads the host's flows over the queues. It completes checksums and segments before a packet
// arrives here, because the port offers no offloads (TUNSETOFFLOAD).
//
// As with XSK, an interface that someone removes is made again, without the addresses that it had.
type Tap struct {
	space *Space
	ring  int // packets that wait for a queue of the port
	room  int // bytes of a packet in a frame

	paused atomic.Bool // nothing is received

	mu      sync.Mutex // guards what follows
	config  Config
	shaper  *shaper // nil without a rate
	link    *link   // nil while there is no interface
	files   []int   // the queues' descriptors, by number
	queues  []*tapQueue
	stopped bool
	opening bool // between Restore and Restored
	absence
	past Counters // of interfaces that are gone, and all as of Close
}

// NewTap makes the interface, in the network namespace of the calling thread, and brings it up.
func NewTap(c Config, d DataplaneConfig) (*Tap, error) {
	c.Queues = tapQueues(&c)
	t := &Tap{config: c, ring: d.RXRing, room: d.FrameSizeFor([]Config{c}) - Headroom}
	var err error
	if t.space, err = CurrentSpace(); err != nil {
		return nil, fmt.Errorf("port %s: %w", c.Name, err)
	}
	if c.Disabled {
		t.disabled, t.last = true, Info{Name: c.Name, Interface: c.Interface, Driver: DriverTap, Queues: c.Queues}
		return t, nil
	}
	if err := t.create(); err != nil {
		t.space.Close()
		return nil, fmt.Errorf("port %s: %w", c.Name, err)
	}
	return t, nil
}

// tapQueues is how many queues the port of a configuration has.
func tapQueues(c *Config) int {
	if c.Queues != 0 {
		return c.Queues
	}
	return min(max(c.Workers, 1), maxTapQueues)
}

const (
	maxTapQueues  = 64 // the kernel has up to 256 (MAX_TAP_QUEUES)
	defaultTapMTU = 1500
)

// create makes the interface with all its queues, or nothing.
func (t *Tap) create() (err error) {
	c := &t.config
	mtu := c.MTU
	if mtu == 0 {
		mtu = defaultTapMTU
	}
	if mtu+ethernetOverhead > t.room {
		return fmt.Errorf("the MTU of %s is to be %d, but a frame holds a packet of %d bytes: set a larger frame_size, or mtu = %d",
			c.Interface, mtu, t.room, t.room-ethernetOverhead)
	}
	var files []int
	var l *link
	defer func() {
		if err != nil {
			if l != nil {
				l.close()
			}
			err = errors.Join(err, closeAll(files))
		}
	}()
	for range c.Queues {
		file, err := openTap(c.Interface, len(files) == 0)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	if l, err = findLink(c.Interface); err != nil {
		return err
	}
	if err = l.setUpTap(c, mtu, t.ring); err != nil {
		return fmt.Errorf("set up the interface %s: %w", c.Interface, err)
	}
	t.link, t.files = l, files
	return nil
}

// openTap opens a queue of a TAP interface, of which the first one makes the interface.
func openTap(name string, first bool) (file int, err error) {
	const device = "/dev/net/tun"
	file, err = unix.Open(device, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return -1, fmt.Errorf("open %s: %w: load the kernel's module (modprobe tun)", device, err)
	case err != nil:
		return -1, fmt.Errorf("open %s: %w", device, err)
	}
	fd := file // file is -1 by then
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	request, err := unix.NewIfreq(name)
	if err != nil {
		return -1, fmt.Errorf("the interface name %q: %w", name, err)
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_MULTI_QUEUE | unix.IFF_VNET_HDR)
	if first {
		flags |= unix.IFF_TUN_EXCL
	}
	request.SetUint16(flags)
	switch err := unix.IoctlIfreq(file, unix.TUNSETIFF, request); {
	case errors.Is(err, unix.EBUSY) && first:
		return -1, fmt.Errorf("the interface %s exists, and a port with driver = %q makes its own: choose another name, or remove it (ip link del %s)", name, DriverTap, name)
	case errors.Is(err, unix.EPERM):
		return -1, fmt.Errorf("make the interface %s: %w: it takes CAP_NET_ADMIN", name, err)
	case err != nil:
		return -1, fmt.Errorf("make the interface %s: %w", name, err)
	}
	if err := unix.IoctlSetPointerInt(file, unix.TUNSETVNETHDRSZ, vnetHeader); err != nil {
		return -1, fmt.Errorf("set the header of %s's packets: %w", name, err)
	}
	if err := unix.IoctlSetInt(file, unix.TUNSETOFFLOAD, 0); err != nil {
		return -1, fmt.Errorf("switch off the offloads of %s: %w", name, err)
	}
	return file, nil
}

// setUpTap gives a new interface what is configured, and brings it up.
func (l *link) setUpTap(c *Config, mtu, ring int) error {
	found, err := l.handle.LinkByIndex(l.index)
	if err != nil {
		return err
	}
	if c.MAC != "" {
		mac, err := net.ParseMAC(c.MAC)
		if err != nil {
			return err
		}
		if err := l.handle.LinkSetHardwareAddr(found, mac); err != nil {
			return fmt.Errorf("set the MAC address %s: %w", mac, err)
		}
		l.mac = mac.String()
	}
	// A tap's queues to us are as long as its queue of the traffic control (tun_queue_resize in drivers/net/tun.c).
	return errors.Join(l.handle.LinkSetMTU(found, mtu), l.handle.LinkSetTxQLen(found, ring), l.handle.LinkSetUp(found))
}

func closeAll(files []int) error {
	var errs []error
	for _, file := range files {
		errs = append(errs, unix.Close(file))
	}
	return errors.Join(errs...)
}

// Open implements Port.
func (t *Tap) Open(number uint16, queue int, frames *packet.Cache) (Queue, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.link == nil {
		return Down(), nil // a port that is off
	}
	q := &tapQueue{
		port: t, file: t.files[queue], frames: frames, number: number, queue: uint8(queue), room: uint64(t.room),
		sums: completer{pool: frames.Pool()},
	}
	t.queues = append(t.queues, q)
	if t.shaper == nil {
		t.shaper = newShaper(&t.config, t.link.maxFrame())
	}
	return t.shaper.shape(q, frames), nil
}

// Info implements Port.
func (t *Tap) Info() Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.info()
}

func (t *Tap) info() Info {
	if t.link == nil {
		return t.absence.info()
	}
	i := t.link.info(t.config.Name, DriverTap, t.config.Queues)
	i.Speed = 0 // the kernel's number is made up
	i.Mode = fmt.Sprintf("tap, %d queues, copy", t.config.Queues)
	if i.MaxFrame > t.room {
		i.MaxFrame = t.room
		i.Error = fmt.Sprintf("the MTU was set to %d, but a frame holds a packet of %d bytes: longer ones are dropped; set a larger frame_size, or the MTU to %d",
			i.MTU, t.room, t.room-ethernetOverhead)
	}
	switch {
	case t.opening:
		i.State = StateRebuilding
	case i.State == StateGone:
		i.Error = missingInterface(t.config.Interface).Error()
	}
	return i
}

// Counters implements Port.
func (t *Tap) Counters() Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.past
	b := t.current()
	c.Add(&b)
	return c
}

// current are the counters of the interface that there is now.
func (t *Tap) current() (c Counters) {
	for _, q := range t.queues {
		c.RxTooLong += q.tooLong.Load()
		c.RxInvalid += q.rxInvalid.Load()
		c.TxInvalid += q.txInvalid.Load()
		c.ChecksumsCompleted += q.sums.completed.Load()
	}
	if t.link != nil {
		c.RxRingFull, _ = t.link.losses() // what the host sent while our queue was full
	}
	return c
}

// StopReceive implements Port.
func (t *Tap) StopReceive() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.paused.Store(true)
	return nil
}

// Close implements Port.
func (t *Tap) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	var err error
	if t.link != nil {
		t.last, t.why = t.info(), ""
		err = t.remove()
	}
	if t.space != nil {
		t.space.Close()
		t.space = nil
	}
	return err
}

// remove closes all queues' descriptors, with the last of which the kernel removes the interface.
func (t *Tap) remove() error {
	c := t.current()
	t.past.Add(&c)
	t.link.close()
	err := closeAll(t.files)
	t.link, t.files, t.queues, t.opening = nil, nil, nil, false
	return err
}

// Lost implements Restorable.
func (t *Tap) Lost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.link != nil && t.link.info("", "", 0).State == StateGone
}

// Pause implements Restorable.
func (t *Tap) Pause() error {
	t.paused.Store(true)
	return nil
}

// Detach implements Restorable.
func (t *Tap) Detach(why error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disabled = errors.Is(why, ErrDisabled)
	if t.link == nil {
		return nil
	}
	t.leave(t.info(), why)
	return t.remove()
}

// GiveBack implements Restorable: there is nothing to give back.
func (t *Tap) GiveBack() error { return nil }

// Restore implements Restorable.
func (t *Tap) Restore() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.space.Do(t.create); t.failed(err) {
		return err
	}
	t.opening = true
	return nil
}

// Configure implements Restorable.
func (t *Tap) Configure(c Config) (before Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before = t.config
	t.config, t.shaper, t.disabled = before.with(c), nil, c.Disabled
	return before
}

// Restored implements Restorable.
func (t *Tap) Restored() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return errStopped
	}
	t.opening, t.absence.present, t.why = false, false, ""
	t.paused.Store(false)
	return nil
}

// vnetHeader is the length of struct virtio_net_hdr (include/uapi/linux/virtio_net.h), in front of each packet:
//
//	flags 1 | gso_type 1 | hdr_len 2 | gso_size 2 | csum_start 2 | csum_offset 2
const (
	vnetHeader    = 10
	vnetNeedsCsum = 1 // of flags: the checksum is the sum of the pseudo-header
)

type tapQueue struct {
	port    *Tap
	file    int
	frames  *packet.Cache
	number  uint16
	queue   uint8
	refusal packet.Reason
	room    uint64
	skip    int    // rounds without a look, after one that found nothing
	spare   uint64 // a frame that Receive has, and no packet yet, if held
	held    bool
	sums    completer

	header [vnetHeader]byte // of the packet received last
	none   [vnetHeader]byte // of packets sent: zeros
	over   [1]byte          // has a byte if a packet exceeds a frame
	iov    [1 + maxPieces]unix.Iovec

	tooLong, rxInvalid, txInvalid atomic.Uint64
}

// idleRounds is how many rounds of the worker's loop pass between two looks at an empty queue. Each
// look is a system call, which delays the worker's other ports.
const idleRounds = 8

// Receive implements Queue.
func (q *tapQueue) Receive(b *packet.Batch) (received int) {
	if q.skip > 0 {
		q.skip--
		return 0
	}
	if q.port.paused.Load() {
		return 0
	}
	for tries := min(packet.BatchSize, cap(b.Pkts)-len(b.Pkts)); tries > 0; tries-- {
		if !q.held {
			if q.spare, q.held = q.frames.AllocOne(); !q.held {
				return received
			}
		}
		addr := q.spare + Headroom
		q.iov[0] = unix.Iovec{Base: &q.header[0], Len: vnetHeader}
		q.iov[1] = unix.Iovec{Base: &b.Mem[addr], Len: q.room}
		q.iov[2] = unix.Iovec{Base: &q.over[0], Len: 1}
		n, _, errno := unix.Syscall(unix.SYS_READV, uintptr(q.file), uintptr(unsafe.Pointer(&q.iov)), 3)
		if errno != 0 {
			q.skip = idleRounds // EAGAIN: there is nothing; else the interface is gone
			return received
		}
		length := uint64(n) - vnetHeader
		if n <= vnetHeader || q.header[1] != 0 {
			q.rxInvalid.Add(1) // a packet to be segmented, which the port does not offer to do
			continue
		}
		if length > q.room {
			q.tooLong.Add(1)
			continue
		}
		q.held = false
		p := b.Append()
		p.Addr, p.Len, p.WireLen = addr, uint32(length), uint32(length)
		p.InPort, p.InQueue = q.number, q.queue
		if received++; q.header[0]&vnetNeedsCsum != 0 {
			q.sums.complete(b.Mem, b.Pkts[len(b.Pkts)-1:])
		}
	}
	return received
}

// Transmit implements Queue. A packet that the kernel refuses is taken, and counted as invalid.
func (q *tapQueue) Transmit(b *packet.Batch, idx []uint16) (taken int) {
	for _, i := range idx {
		p := &b.Pkts[i]
		if pieces := q.gather(b, p); pieces == 0 {
			q.txInvalid.Add(1)
		} else {
			_, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(q.file), uintptr(unsafe.Pointer(&q.iov)), uintptr(pieces))
			switch errno {
			case 0:
			case unix.EIO, unix.EBADFD: // down, gone
				q.refusal = packet.ReasonPortDown
				return taken
			case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, unix.EINTR:
				q.refusal = packet.ReasonTxFull
				return taken
			default:
				q.txInvalid.Add(1)
			}
		}
		q.frames.FreePacket(p)
		taken++
	}
	return taken
}

// gather lists the pieces of a packet behind its header, and returns their number: 0 if they are too many.
func (q *tapQueue) gather(b *packet.Batch, p *packet.Packet) (pieces int) {
	q.iov[0] = unix.Iovec{Base: &q.none[0], Len: vnetHeader}
	q.iov[1] = unix.Iovec{Base: &b.Mem[p.Addr], Len: uint64(p.Len)}
	pieces = 2
	for link := p.Next; link != 0; pieces++ {
		if pieces == len(q.iov) {
			return 0
		}
		addr, size, next := b.Pool().Next(link)
		q.iov[pieces] = unix.Iovec{Base: &b.Mem[addr], Len: uint64(size)}
		link = next
	}
	return pieces
}

// Refusal implements Queue.
func (q *tapQueue) Refusal() packet.Reason { return q.refusal }

// Service implements Queue: there is nothing between batches, for packets are copied.
func (q *tapQueue) Service() bool { return false }

// Depth implements Queue: what was transmitted is the host's at once.
func (q *tapQueue) Depth() int { return 0 }

// FD implements Queue.
func (q *tapQueue) FD() int { return q.file }

// Sleep implements Sleeper: behind poll, Receive looks at once.
func (q *tapQueue) Sleep() (ready bool) {
	q.skip = 0
	return false
}

// Ended implements Queue: the host may always send something.
func (q *tapQueue) Ended() bool { return false }

// Rehome implements Rehomer.
func (q *tapQueue) Rehome(frames *packet.Cache) {
	q.free()
	q.frames = frames
}

// free gives back the frame that no packet came for.
func (q *tapQueue) free() {
	if q.held {
		q.frames.Free(q.spare)
		q.held = false
	}
}

// Close implements Queue. The descriptor is the port's.
func (q *tapQueue) Close() (Rest, error) {
	q.free()
	return Rest{}, nil
}

// validateTap reports the faults of a port of the host.
func (c *Config) validateTap(fault func(string, ...any)) {
	c.validateMemif(fault)
	if c.Interface == "" {
		fault("interface: missing: name the interface that the port makes")
	} else if len(c.Interface) >= unix.IFNAMSIZ || strings.ContainsAny(c.Interface, "/:% \t\n") || c.Interface == "." || c.Interface == ".." {
		fault("interface: %q: the kernel takes names of up to %d characters, without space, slash, colon and percent sign", c.Interface, unix.IFNAMSIZ-1)
	}
	if c.Queues < 0 || c.Queues > maxTapQueues {
		fault("queues: %d: choose 1 to %d, or 0 for one per worker", c.Queues, maxTapQueues)
	}
	if mac, err := net.ParseMAC(c.MAC); c.MAC != "" && (err != nil || len(mac) != 6 || mac[0]&1 != 0) {
		fault("mac: %q is not the address of a station: write six bytes, as in \"02:00:00:00:00:01\"", c.MAC)
	}
	if c.MTU != 0 && (c.MTU < minTapMTU || c.MTU > maxTapMTU) {
		fault("mtu: %d: choose %d to %d bytes, or 0 for %d", c.MTU, minTapMTU, maxTapMTU, defaultTapMTU)
	}
	for _, k := range []struct {
		key string
		set bool
	}{
		{"socket", c.Socket != ""}, {"mode", c.Mode != "auto"}, {"tx_budget", c.TXBudget != 0}, {"busy_poll", c.BusyPoll != 0}, {"jumbo", c.Jumbo},
		{"rss", c.RSS != RSSKeep}, {"optional", c.Optional}, {"keep", len(c.Keep) != 0},
	} {
		if k.set {
			fault("%s: the driver tap makes its interface and has no such key: remove it", k.key)
		}
	}
	c.validateRate(fault)
}

// The bounds of the MTU of a TAP interface, in bytes.
const (
	minTapMTU = 68
	maxTapMTU = 9000
)
