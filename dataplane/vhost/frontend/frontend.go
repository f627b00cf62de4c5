// Package frontend is the other end of a vhost-user device (QEMU's docs/interop/vhost-user.rst): the messages of a virtual
// machine's monitor, and what the guest's driver does with split rings. It is source and sink of "weir bench forward", and the guest of
// tests; it trusts the device.
//
//	Sender.Next, Send, Flush ── available ──> device ── used ──> Receiver.Next, Flush
package frontend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// HeaderSize is the length of the header of virtio-net in front of each packet, in bytes (virtio 1.3, 5.1.6).
const HeaderSize = 12

// Config is a network device of a guest.
type Config struct {
	Socket string
	Server bool // listen on the socket, and wait for the device to connect
	Pairs  int  // of rings, 1 or more
	// Descriptors of each ring, a power of two; each has a buffer of Buffer bytes, which hold a packet and its header.
	Descriptors, Buffer int
	HugePages           bool // the memory is in huge pages of 2 MiB
	Features            uint64
}

// The features of virtio that a Config may name besides those that all front-ends here need (VERSION_1, MRG_RXBUF, the protocol's).
const (
	Checksum = 1 << 0 // VIRTIO_NET_F_CSUM
	TCP4     = 1 << 11
	TCP6     = 1 << 12

	GuestChecksum = 1 << 1 // VIRTIO_NET_F_GUEST_CSUM
	GuestTCP4     = 1 << 7
	GuestTCP6     = 1 << 8

	mergeable   = 1 << 15
	multiqueue  = 1 << 22
	hasProtocol = 1 << 30
	version1    = 1 << 32
)

// DefaultConfig has one pair of 1,024 descriptors and buffers of 2 KiB.
func DefaultConfig(socket string) Config {
	return Config{Socket: socket, Pairs: 1, Descriptors: 1024, Buffer: 2048}
}

// Frontend is a device that is connected. Each Sender and Receiver has one user at a time.
type Frontend struct {
	Senders   []*Sender
	Receivers []*Receiver
	// Memory is the guest's, as the device sees it.
	Memory []byte

	config Config
	conn   *net.UnixConn
	file   int
	events []int
}

// The requests of the protocol.
const (
	getFeatures         = 1
	setFeatures         = 2
	setOwner            = 3
	setMemTable         = 5
	setVringNum         = 8
	setVringAddr        = 9
	setVringBase        = 10
	getVringBase        = 11
	setVringKick        = 12
	setVringCall        = 13
	getProtocolFeatures = 15
	setProtocolFeatures = 16
	setVringEnable      = 18

	protocolMQ = 1 << 0
)

// The addresses of the memory for the guest and for the monitor.
const (
	guestBase = 0x1_0000_0000
	userBase  = 0x7f00_0000_0000
)

// patience bounds the wait for an answer: a device that does not answer is none.
const patience = 2 * time.Minute

// Dial connects, and starts all rings.
func Dial(c Config) (*Frontend, error) {
	conn, err := connect(c)
	if err != nil {
		return nil, err
	}
	f := &Frontend{config: c, conn: conn, file: -1}
	if err := f.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the rings of %s: %w", c.Socket, err), f.Close())
	}
	return f, nil
}

func connect(c Config) (*net.UnixConn, error) {
	at := &net.UnixAddr{Name: c.Socket, Net: "unix"}
	if !c.Server {
		return net.DialUnix("unix", nil, at)
	}
	l, err := net.ListenUnix("unix", at)
	if err != nil {
		return nil, err
	}
	defer l.Close() // and removes the socket
	if err := l.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	return l.AcceptUnix()
}

// Close ends the connection, and gives all memory back.
func (f *Frontend) Close() error {
	err := f.conn.Close()
	for _, fd := range f.events {
		err = errors.Join(err, unix.Close(fd))
	}
	if f.Memory != nil {
		err = errors.Join(err, unix.Munmap(f.Memory))
	}
	if f.file >= 0 {
		err = errors.Join(err, unix.Close(f.file))
	}
	f.Memory, f.file, f.events = nil, -1, nil
	return err
}

func (f *Frontend) start() error {
	if err := f.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	offered, err := f.request(getFeatures)
	if err != nil {
		return err
	}
	features := f.config.Features | mergeable | hasProtocol | version1
	if f.config.Pairs > 1 {
		features |= multiqueue
	}
	if features&^offered != 0 {
		return fmt.Errorf("the device offers features %#x, and not %#x", offered, features&^offered)
	}
	protocol, err := f.request(getProtocolFeatures)
	if err != nil {
		return err
	}
	if err := f.mapMemory(); err != nil {
		return err
	}
	err = errors.Join(
		f.sendNumber(setProtocolFeatures, protocol&protocolMQ),
		f.send(setOwner, nil),
		f.sendNumber(setFeatures, features),
		f.send(setMemTable, numbers(1, guestBase, uint64(len(f.Memory)), userBase, 0), f.file),
	)
	for i := 0; i < 2*f.config.Pairs && err == nil; i++ {
		err = f.startRing(i)
	}
	for i := 0; i < 2*f.config.Pairs && err == nil; i++ {
		err = f.sendNumber(setVringEnable, uint64(i)|1<<32)
	}
	if err != nil {
		return err
	}
	_, err = f.request(getFeatures) // all that was said before is done
	return errors.Join(err, f.conn.SetDeadline(time.Time{}))
}

// RingBytes is what ring i and the device share beside the buffers: descriptors, available and used ring. Those with even numbers are the
// guest's to receive.
func (f *Frontend) RingBytes(i int) []byte {
	_, _, buffers, size := f.ringBytes()
	return f.Memory[i*size:][:buffers]
}

// Notify notifies the device of ring i.
func (f *Frontend) Notify(i int) {
	one := [8]byte{1}
	_, _ = unix.Write(f.events[2*i], one[:]) // full is notified
}

// Dismissed reports whether the device has ended the connection.
func (f *Frontend) Dismissed() bool {
	var b [1]byte
	ended := false
	raw, err := f.conn.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		ended = n == 0 && err == nil || err != nil && !errors.Is(err, unix.EAGAIN)
		return true
	})
	return ended || err != nil
}

// Stop stops a ring, as a driver that ends does, and returns where it would go on: the available index.
func (f *Frontend) Stop(ring int) (base uint16, err error) {
	if err := f.send(getVringBase, numbers(uint64(ring))); err != nil {
		return 0, err
	}
	v, err := f.answer()
	return uint16(v >> 32), err
}

// ringBytes is what a ring takes, and where its parts are.
func (f *Frontend) ringBytes() (avail, used, buffers, size int) {
	n := f.config.Descriptors
	const line = 64
	round := func(v int) int { return (v + line - 1) &^ (line - 1) }
	avail = 16 * n
	used = avail + round(6+2*n)
	buffers = used + round(6+8*n)
	return avail, used, buffers, (buffers + n*f.config.Buffer + 4095) &^ 4095
}

func (f *Frontend) mapMemory() (err error) {
	flags, align := unix.MFD_CLOEXEC, 4096
	if f.config.HugePages {
		flags, align = flags|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB, 2<<20
	}
	if f.file, err = unix.MemfdCreate("guest", flags); err != nil {
		return fmt.Errorf("make the guest's memory: %w", err)
	}
	_, _, _, ring := f.ringBytes()
	size := (2*f.config.Pairs*ring + align - 1) &^ (align - 1)
	if err := unix.Ftruncate(f.file, int64(size)); err != nil {
		return err
	}
	f.Memory, err = unix.Mmap(f.file, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map %d MiB: %w", size>>20, err)
	}
	return nil
}

// startRing starts ring i: those with even numbers are the guest's to receive.
func (f *Frontend) startRing(i int) error {
	avail, used, buffers, size := f.ringBytes()
	var kick, call int
	for _, fd := range []*int{&kick, &call} {
		var err error
		if *fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return err
		}
		f.events = append(f.events, *fd)
	}
	at := i * size
	r := newRing(f.Memory[at:at+size], avail, used, buffers, f.config.Descriptors, f.config.Buffer, kick)
	flags := uint64(deviceWrite)
	if i%2 == 1 {
		flags = 0
	}
	r.describe(guestBase+uint64(at+buffers), flags)
	if i%2 == 0 {
		f.Receivers = append(f.Receivers, newReceiver(r))
	} else {
		f.Senders = append(f.Senders, newSender(r))
	}
	if i%2 == 0 {
		defer f.Receivers[i/2].Flush()
	}
	base := userBase + uint64(at)
	return errors.Join(
		f.sendNumber(setVringNum, uint64(i)|uint64(f.config.Descriptors)<<32),
		f.sendNumber(setVringBase, uint64(i)),
		f.send(setVringAddr, numbers(uint64(i), base, base+uint64(used), base+uint64(avail), 0)),
		f.send(setVringCall, numbers(uint64(i)), call),
		f.send(setVringKick, numbers(uint64(i)), kick),
	)
}

func numbers(v ...uint64) (b []byte) {
	for _, n := range v {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func (f *Frontend) sendNumber(request uint32, v uint64) error { return f.send(request, numbers(v)) }

func (f *Frontend) send(request uint32, payload []byte, files ...int) error {
	b := binary.LittleEndian.AppendUint32(nil, request)
	b = binary.LittleEndian.AppendUint32(b, 1) // version
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	var oob []byte
	if len(files) != 0 {
		oob = unix.UnixRights(files...)
	}
	_, _, err := f.conn.WriteMsgUnix(append(b, payload...), oob, nil)
	return err
}

func (f *Frontend) request(request uint32) (uint64, error) {
	if err := f.send(request, nil); err != nil {
		return 0, err
	}
	return f.answer()
}

func (f *Frontend) answer() (uint64, error) {
	var b [12 + 8]byte
	if _, err := io.ReadFull(f.conn, b[:]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[12:]), nil
}
