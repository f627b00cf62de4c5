package vhost

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/virtio"
)

// The guest's memory in tests, and what lies where in it for ring i: the rings of 16 descriptors, and a buffer
// per descriptor.
const (
	guestBase  = 0x1_0000_0000
	userBase   = 0x7f12_0000_0000
	memorySize = 1 << 20
	ringStride = 0x10000
	availAt    = 0x1000
	usedAt     = 0x2000
	buffersAt  = 0x4000
	bufferSize = 2048
	ringSize   = 16
)

// frontend is the other end of a Device's socket, in plain code: a monitor and its guest's driver of split
// rings.
type frontend struct {
	t     testing.TB
	conn  *net.UnixConn
	file  int // the guest's memory
	bytes []byte
	kick  [8]int
	call  [8]int
	next  [8]uint16
	seen  [8]uint16
}

// newDevice makes a device that listens, and a front-end's memory.
func newDevice(t testing.TB, queues int) (*Device, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vm")
	d, err := New(Config{Socket: path, Server: true, Queues: queues})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, path
}

func dial(t testing.TB, path string) *frontend {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return newFrontend(t, c)
}

func newFrontend(t testing.TB, c *net.UnixConn) *frontend {
	t.Helper()
	f := &frontend{t: t, conn: c}
	var err error
	if f.file, err = unix.MemfdCreate("guest", unix.MFD_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(f.file, memorySize); err != nil {
		t.Fatal(err)
	}
	f.bytes, err = unix.Mmap(f.file, 0, memorySize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.kick {
		f.kick[i], f.call[i] = -1, -1
	}
	t.Cleanup(f.close)
	return f
}

// close is safe to call twice.
func (f *frontend) close() {
	if f.bytes == nil {
		return
	}
	_ = f.conn.Close()
	_ = unix.Munmap(f.bytes)
	f.bytes = nil
	_ = unix.Close(f.file)
	for i := range f.kick {
		if f.kick[i] >= 0 {
			_ = unix.Close(f.kick[i])
			_ = unix.Close(f.call[i])
		}
	}
}

func numbers(v ...uint64) (b []byte) {
	for _, n := range v {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func state(index, value uint32) []byte { return numbers(uint64(index) | uint64(value)<<32) }

// send sends a message with its descriptors.
func (f *frontend) send(r request, flags uint32, payload []byte, files ...int) error {
	b := binary.LittleEndian.AppendUint32(nil, uint32(r))
	b = binary.LittleEndian.AppendUint32(b, flags|flagVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	var oob []byte
	if len(files) != 0 {
		oob = unix.UnixRights(files...)
	}
	_, _, err := f.conn.WriteMsgUnix(append(b, payload...), oob, nil)
	return err
}

// answer reads the answer to a request: its number.
func (f *frontend) answer(r request) (uint64, error) {
	var b [headerSize + 8]byte
	if _, err := io.ReadFull(f.conn, b[:]); err != nil {
		return 0, err
	}
	if got := request(binary.LittleEndian.Uint32(b[:])); got != r {
		f.t.Errorf("an answer to request %d, want to %d", got, r)
	}
	return binary.LittleEndian.Uint64(b[headerSize:]), nil
}

// must sends what the device must take.
func (f *frontend) must(r request, payload []byte, files ...int) {
	f.t.Helper()
	if err := f.send(r, 0, payload, files...); err != nil {
		f.t.Fatal(err)
	}
}

// ask sends a request and returns its answer.
func (f *frontend) ask(r request, payload []byte) uint64 {
	f.t.Helper()
	f.must(r, payload)
	v, err := f.answer(r)
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

// sync returns once all that was sent before is done: messages are handled in order.
func (f *frontend) sync() {
	f.t.Helper()
	f.ask(getFeatures, nil)
}

// dismissed waits for the device's end of the connection.
func (f *frontend) dismissed() {
	f.t.Helper()
	if n, err := io.Copy(io.Discard, f.conn); n != 0 {
		f.t.Errorf("%d bytes before the end (%v)", n, err)
	}
}

func memoryTable(regions ...[4]uint64) []byte {
	b := numbers(uint64(len(regions)))
	for _, r := range regions {
		b = append(b, numbers(r[:]...)...)
	}
	return b
}

// negotiate does what comes before the rings.
func (f *frontend) negotiate(features uint64) {
	f.t.Helper()
	if got := f.ask(getFeatures, nil); features&^got != 0 {
		f.t.Fatalf("features %#x of %#x", features, got)
	}
	f.must(setOwner, nil)
	f.must(setFeatures, numbers(features))
	f.must(setMemTable, memoryTable([4]uint64{guestBase, memorySize, userBase, 0}), f.file)
}

// start starts and enables ring i.
func (f *frontend) start(i int) {
	f.t.Helper()
	f.describe(i)
	f.must(setVringKick, numbers(uint64(i)), f.kick[i])
	f.must(setVringEnable, state(uint32(i), 1))
}

// describe says where ring i is; its kick starts it.
func (f *frontend) describe(i int) {
	f.t.Helper()
	var err error
	if f.kick[i], err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		f.t.Fatal(err)
	}
	if f.call[i], err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		f.t.Fatal(err)
	}
	at := uint64(userBase + i*ringStride)
	f.must(setVringCall, numbers(uint64(i)), f.call[i])
	f.must(setVringNum, state(uint32(i), ringSize))
	f.must(setVringBase, state(uint32(i), uint32(f.next[i])))
	f.must(setVringAddr, numbers(uint64(i), at, at+usedAt, at+availAt, 0))
}

// up starts a pair of rings without event index.
func (f *frontend) up() {
	f.t.Helper()
	f.negotiate(version1 | netMergeable | hasProtocol)
	f.start(0)
	f.start(1)
	f.sync()
}

// offer makes buffer k of ring i available: length bytes, to write or to read.
func (f *frontend) offer(i, k, length int, write bool) {
	base := i * ringStride
	d := f.bytes[base+16*k:]
	binary.LittleEndian.PutUint64(d, uint64(guestBase+base+buffersAt+k*bufferSize))
	binary.LittleEndian.PutUint32(d[8:], uint32(length))
	binary.LittleEndian.PutUint32(d[12:], 0)
	if write {
		d[12] = 2
	}
	binary.LittleEndian.PutUint16(f.bytes[base+availAt+4+2*(int(f.next[i])%ringSize):], uint16(k))
	f.next[i]++
	binary.LittleEndian.PutUint16(f.bytes[base+availAt+2:], f.next[i])
}

func (f *frontend) buffer(i, k int) []byte {
	return f.bytes[i*ringStride+buffersAt+k*bufferSize:][:bufferSize]
}

// transmit makes a packet available, behind an empty header.
func (f *frontend) transmit(i, k int, p []byte) {
	b := f.buffer(i, k)
	clear(b[:12])
	copy(b[12:], p)
	f.offer(i, k, 12+len(p), false)
}

// collect returns the next used buffer of ring i, and its bytes written.
func (f *frontend) collect(i int) (k, n int, ok bool) {
	used := f.bytes[i*ringStride+usedAt:]
	if binary.LittleEndian.Uint16(used[2:]) == f.seen[i] {
		return 0, 0, false
	}
	e := used[4+8*(int(f.seen[i])%ringSize):]
	f.seen[i]++
	return int(binary.LittleEndian.Uint32(e)), int(binary.LittleEndian.Uint32(e[4:])), true
}

// quiet is whether the device wants no notifications of ring i.
func (f *frontend) quiet(i int) bool { return f.bytes[i*ringStride+usedAt]&1 != 0 }

// get is what a worker does to receive one packet.
func get(v *Vring) (p []byte, ok bool) {
	r := v.Acquire()
	if r == nil {
		return nil, false
	}
	defer v.Release()
	p = make([]byte, bufferSize)
	n, ok := r.Get(p)
	if r.Flush() {
		v.Call()
	}
	return p[:n], ok
}

// put is what a worker does to send one packet.
func put(v *Vring, p []byte) (sent bool) {
	r := v.Acquire()
	if r == nil {
		return false
	}
	defer v.Release()
	done := r.Put([][]byte{p}, len(p)) == virtio.Done
	if r.Flush() {
		v.Call()
	}
	return done
}

// recvFD reads an answer of n bytes that comes with a descriptor.
func (f *frontend) recvFD(n int) (payload []byte, fd int) {
	f.t.Helper()
	b, oob := make([]byte, headerSize+n), make([]byte, unix.CmsgSpace(4))
	got, oobn, _, _, err := f.conn.ReadMsgUnix(b, oob)
	if err != nil || got != len(b) {
		f.t.Fatalf("an answer of %d bytes: %v", got, err)
	}
	controls, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(controls) != 1 {
		f.t.Fatalf("%d control messages: %v", len(controls), err)
	}
	fds, err := unix.ParseUnixRights(&controls[0])
	if err != nil || len(fds) != 1 {
		f.t.Fatalf("%d descriptors: %v", len(fds), err)
	}
	return b[headerSize:], fds[0]
}

// empty reads an answer without a payload.
func (f *frontend) empty(r request) {
	f.t.Helper()
	var b [headerSize]byte
	if _, err := io.ReadFull(f.conn, b[:]); err != nil {
		f.t.Fatal(err)
	}
	if got, n := request(binary.LittleEndian.Uint32(b[:])), binary.LittleEndian.Uint32(b[8:]); got != r || n != 0 {
		f.t.Fatalf("an answer of %d bytes to request %d, want none to %d", n, got, r)
	}
}
