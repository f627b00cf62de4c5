package port

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Tap is a port of the host: a TAP interface (drivers/net/tun.c in the kernel), which the port makes and which
// exists as long as the port is open. What the host sends by that interface arrives at the port, and what
// leaves by the port arrives at the host's stack. The kernel takes and gives one packet for a system call, and copies it.
//
// The kernel spreads the host's flows over the queues. It leaves checksums, and the cutting of large packets into segments,
// to the port (TUNSETOFFLOAD), which completes and cuts them as they are received, or receives them whole; and it takes large
// packets of others as they are. One system call then moves up to 64 KiB.
//
// As with XSK, an interface that someone removes is made again, without the addresses that it had.
type Tap struct {
	space *Space
	ring  int  // packets that wait for a queue of the port
	room  int  // bytes of a packet in a frame
	whole bool // large packets are received as they are

	paused atomic.Bool // nothing is received

	mu      sync.Mutex // guards what follows
	config  Config
	shaper  *shaper      // nil without a rate
	link    *link        // nil while there is no interface
	files   []int        // the queues' descriptors, by number
	leaves  gso.Offloads // what the kernel leaves to the port, and takes from it
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

// TapMTU is the MTU that the interface of a TAP port gets.
func (c *Config) TapMTU() int { return cmp.Or(c.MTU, defaultTapMTU) }

// create makes the interface with all its queues, or nothing.
func (t *Tap) create() (err error) {
	c := &t.config
	mtu := c.TapMTU()
	if err := CheckMTU(c, mtu, t.room+Headroom); err != nil {
		return err
	}
	var files []int
	var leaves gso.Offloads
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
		if leaves, err = offerOffloads(file, c.Offloads != OffloadsOff); err != nil {
			return fmt.Errorf("set the offloads of %s: %w", c.Interface, err)
		}
	}
	if l, err = findLink(c.Interface); err != nil {
		return err
	}
	if err = l.setUpTap(c, mtu, t.ring); err != nil {
		return fmt.Errorf("set up the interface %s: %w", c.Interface, err)
	}
	t.link, t.files, t.leaves = l, files, leaves
	return nil
}

// offerOffloads has the kernel leave as much to a queue's reader as it can: UDP's segmentation since Linux 6.2.
func offerOffloads(file int, on bool) (o gso.Offloads, err error) {
	const (
		tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
		udp = unix.TUN_F_USO4 | unix.TUN_F_USO6
	)
	if !on {
		return o, unix.IoctlSetInt(file, unix.TUNSETOFFLOAD, 0)
	}
	o = gso.Offloads{Checksum: true, TCP4: true, TCP6: true, ECN: true}
	if unix.IoctlSetInt(file, unix.TUNSETOFFLOAD, tcp|udp) == nil {
		o.UDP = true
		return o, nil
	}
	return o, unix.IoctlSetInt(file, unix.TUNSETOFFLOAD, tcp)
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
	if err := unix.IoctlSetPointerInt(file, unix.TUNSETVNETHDRSZ, gso.HeaderSize); err != nil {
		return -1, fmt.Errorf("set the header of %s's packets: %w", name, err)
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
		port: t, file: t.files[queue], leaves: t.leaves,
		copyQueue: copyQueue{frames: frames, number: number, queue: uint8(queue), room: uint64(t.room)},
	}
	beyond := 1
	if t.leaves.Any() {
		beyond = gso.MaxLarge
	}
	q.large = make([]byte, t.room+beyond)
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
	mode := []string{"tap", fmt.Sprintf("%d queues", t.config.Queues)}
	if t.leaves.Checksum {
		mode = append(mode, "checksum", "segmentation", "large receive")
	}
	i.Mode = strings.Join(append(mode, "copy"), ", ")
	if i.MaxFrame > t.room {
		i.MaxFrame = t.room
		i.Error = cutsMTU(DriverTap, i.MTU, t.room)
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
	return t.link != nil && !t.left && t.link.info("", "", 0).State == StateGone
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
	if t.left {
		return errLeft
	}
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

// PassLarge implements LargePasser.
func (t *Tap) PassLarge(pass bool) { t.whole = pass }

type tapQueue struct {
	copyQueue
	port   *Tap
	file   int
	leaves gso.Offloads
	skip   int // rounds without a look, after one that found nothing

	header [gso.HeaderSize]byte // of the packet received last, or of the one that is sent
	// large[room:] gets what a packet has beyond its first frame. A packet that is cut is copied to it whole.
	large []byte
	cut   gso.Cut
	one   [1][]byte // the source of cut
	iov   [1 + maxPieces]unix.Iovec

	tooLong, rxInvalid, txInvalid atomic.Uint64
	shared                        atomic.Bool // another process has had its descriptor (Tap.Share)
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
	q.begin(min(packet.BatchSize, cap(b.Pkts)-len(b.Pkts)))
	q.align()  // the kernel writes, into all of their room
	large := 0 // bytes
	for tries := q.end; tries > 0 && large < maxLargeBytes; tries-- {
		addr := q.addrs[q.next]
		first := b.Mem[addr:][:q.room]
		n, length := 0, 0
		if q.cut.On() {
			n = q.cut.Next(first)
		} else if n, length = q.read(b.Mem, first); n < 0 {
			q.skip = idleRounds // there is nothing, or the interface is gone
			break
		}
		if n == 0 {
			continue // refused, and counted
		}
		q.next++
		p := b.Append()
		p.Addr, p.Len, p.WireLen = addr, uint32(n), uint32(n)
		p.InPort, p.InQueue = q.number, q.queue
		if length != 0 {
			size := binary.LittleEndian.Uint16(q.header[4:])
			large += largeCost(length, int(max(size, 1)))
			p.WireLen = uint32(length)
			q.link(p, packet.Large{Kind: q.header[1], Size: size})
		}
		received++
	}
	q.free()
	return received
}

// read reads the next packet into its first frame, and returns how many bytes are there: 0 of a packet that is refused, -1
// if there is none. Of a large packet that is received whole, length bytes are in this and more frames; any other one is
// cut, and the first segment is in the frame.
func (q *tapQueue) read(mem, first []byte) (n, length int) {
	q.iov[0] = unix.Iovec{Base: &q.header[0], Len: gso.HeaderSize}
	q.iov[1] = unix.Iovec{Base: &first[0], Len: q.room}
	q.iov[2] = unix.Iovec{Base: &q.large[q.room], Len: uint64(len(q.large)) - q.room}
	got, _, errno := unix.Syscall(unix.SYS_READV, uintptr(q.file), uintptr(unsafe.Pointer(&q.iov)), 3)
	if errno != 0 {
		return -1, 0
	}
	n = int(got) - gso.HeaderSize
	start, field := int(binary.LittleEndian.Uint16(q.header[6:])), int(binary.LittleEndian.Uint16(q.header[8:]))
	switch {
	case n <= 0:
		q.rxInvalid.Add(1)
		return 0, 0
	case q.header[1] != gso.None:
		return q.segment(mem, first, n)
	case n > len(first):
		q.tooLong.Add(1)
		return 0, 0
	case q.header[0]&gso.NeedsChecksum != 0 && !gso.FinishChecksum(first[:n], start, field):
		q.rxInvalid.Add(1)
		return 0, 0
	}
	return n, 0
}

// segment is read of a large packet of total bytes.
func (q *tapQueue) segment(mem, first []byte, total int) (n, length int) {
	copy(q.large, first[:min(total, len(first))])
	q.one[0] = q.large[:total]
	q.cut.Source(q.one[:])
	if q.cut.Begin(q.header[:], total, len(first)) != gso.OK {
		headers, size := binary.LittleEndian.Uint16(q.header[2:]), binary.LittleEndian.Uint16(q.header[4:])
		if int(headers)+int(size) > len(first) {
			q.tooLong.Add(1) // the MTU was raised
		} else {
			q.rxInvalid.Add(1)
		}
		return 0, 0
	}
	if q.port.whole && total > len(first) {
		if pieces, ok := q.chain(mem, first, total); ok {
			q.cut.Source(nil)
			rest := q.large[len(first):total]
			for _, p := range pieces[1:] {
				rest = rest[copy(p, rest):]
			}
			return len(first), total
		} // its segments need fewer frames at once
	}
	return q.cut.Next(first), 0
}

// Transmit implements Queue. A packet that the kernel refuses is taken, and counted as invalid.
func (q *tapQueue) Transmit(b *packet.Batch, idx []uint16) (taken int) {
	for _, i := range idx {
		p := &b.Pkts[i]
		if n, _ := q.gather(b, p); n == 0 || !q.describe(b, p) {
			q.txInvalid.Add(1)
		} else {
			q.iov[0] = unix.Iovec{Base: &q.header[0], Len: gso.HeaderSize}
			for k, piece := range q.pieces[:n] {
				q.iov[1+k] = unix.Iovec{Base: unsafe.SliceData(piece), Len: uint64(len(piece))}
			}
			_, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(q.file), uintptr(unsafe.Pointer(&q.iov)), uintptr(1+n))
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

// describe writes the header of a packet that is sent: zeros, or what its segments are to be.
func (q *tapQueue) describe(b *packet.Batch, p *packet.Packet) bool {
	clear(q.header[:])
	if p.Next != 0 {
		if l := b.Pool().Large(p.Next); l.Kind != 0 {
			return gso.Header(q.header[:], q.pieces[0], l.Kind, int(l.Size))
		}
	}
	return true
}

// TakesLarge implements LargeTaker.
func (q *tapQueue) TakesLarge(l packet.Large) bool { return q.leaves.Takes(l.Kind) }

// FD implements Queue.
func (q *tapQueue) FD() int { return q.file }

// Sleep implements Sleeper: behind poll, Receive looks at once. It has work while a packet is being cut, of which the
// descriptor knows nothing.
func (q *tapQueue) Sleep() (ready bool) {
	q.skip = 0
	return q.cut.On()
}

// Close implements Queue. The descriptor is the port's.
func (q *tapQueue) Close() (Rest, error) {
	if q.cut.On() {
		q.rxInvalid.Add(1) // the rest of a large packet
		q.cut.Source(nil)
	}
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
