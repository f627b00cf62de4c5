package memif

import (
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A test's client has two rings of 16 descriptors, from it and to it, and a buffer of 2048 bytes for each descriptor.
const (
	testLog2   = 4
	testSize   = 1 << testLog2
	ringStride = ringHeader + descBytes*testSize
	buffersAt  = 2 * ringStride
	testMemory = 1 << 17
)

// peer is a client in plain code, which does what a test tells it.
type peer struct {
	t      testing.TB
	conn   *net.UnixConn
	file   int
	bytes  []byte
	events [2]int
}

func newDevice(t testing.TB, c Config) *Device {
	t.Helper()
	if c.Socket == "" {
		c.Socket = filepath.Join(t.TempDir(), "memif.sock")
	}
	c.Server, c.Queues, c.Name = true, 1, "test"
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func dial(t testing.TB, path string) *peer {
	t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: c}
	if p.file, err = unix.MemfdCreate("memif-peer", unix.MFD_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(p.file, testMemory); err != nil {
		t.Fatal(err)
	}
	if p.bytes, err = unix.Mmap(p.file, 0, testMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	for i := range p.events {
		if p.events[i], err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint32(p.bytes[i*ringStride:], cookie)
		for k := range testSize {
			p.describe(i, k, 0, 0, 2048, buffersAt+2048*(i*testSize+k))
		}
	}
	t.Cleanup(p.close)
	return p
}

// close is safe to call twice.
func (p *peer) close() {
	if p.bytes == nil {
		return
	}
	_ = p.conn.Close()
	_ = unix.Munmap(p.bytes)
	p.bytes = nil
	for _, fd := range []int{p.file, p.events[0], p.events[1]} {
		_ = unix.Close(fd)
	}
}

// describe writes a descriptor of ring 0 (from the peer) or 1 (to it).
func (p *peer) describe(ring, slot int, flags, region uint16, length uint32, offset int) {
	b := p.bytes[ring*ringStride+ringHeader+descBytes*slot:]
	binary.LittleEndian.PutUint16(b, flags)
	binary.LittleEndian.PutUint16(b[2:], region)
	binary.LittleEndian.PutUint32(b[4:], length)
	binary.LittleEndian.PutUint32(b[8:], uint32(offset))
}

func (p *peer) setHead(ring int, v uint16) {
	binary.LittleEndian.PutUint16(p.bytes[ring*ringStride+6:], v)
}

func (p *peer) tail(ring int) uint16 {
	return binary.LittleEndian.Uint16(p.bytes[ring*ringStride+64:])
}

// read returns the next message.
func (p *peer) read() *message {
	m := new(message)
	if err := m.receive(p.conn, nil); err != nil {
		p.t.Helper()
		p.t.Fatal(err)
	}
	return m
}

func (p *peer) send(m *message, file int) {
	p.t.Helper()
	if err := m.send(p.conn, file); err != nil {
		p.t.Fatal(err)
	}
}

func initMessage(id uint32, secret string) *message {
	m := newMessage(initialize)
	m.put16(2, version)
	m.put32(4, id)
	copy(m.bytes[9:], secret)
	return m
}

func regionMessage(index uint16, size uint64) *message {
	m := newMessage(addRegion)
	m.put16(2, index)
	m.put64(4, size)
	return m
}

func ringMessage(ring int, region uint16, offset uint32, log2 byte) *message {
	m := newMessage(addRing)
	m.put16(2, uint16(1-ring))
	m.put16(6, region)
	m.put32(8, offset)
	m.bytes[12] = log2
	return m
}

// up connects.
func (p *peer) up(id uint32, secret string) {
	p.t.Helper()
	if k := p.read().kind(); k != hello {
		p.t.Fatalf("%s, want hello", k)
	}
	for _, step := range []struct {
		m    *message
		file int
		want kind
	}{
		{initMessage(id, secret), -1, ack},
		{regionMessage(0, testMemory), p.file, ack},
		{ringMessage(0, 0, 0, testLog2), p.events[0], ack},
		{ringMessage(1, 0, ringStride, testLog2), p.events[1], ack},
		{newMessage(connect), -1, connected},
	} {
		p.send(step.m, step.file)
		if k := p.read().kind(); k != step.want {
			p.t.Fatalf("%s, want %s", k, step.want)
		}
	}
}

// dismissed waits for the end of the connection, and returns the reason that the peer was told.
func (p *peer) dismissed() string {
	p.t.Helper()
	for {
		m := new(message)
		if err := m.receive(p.conn, nil); errors.Is(err, errDisconnected) {
			return m.text(6, reasonSize)
		} else if err != nil {
			p.t.Fatalf("no disconnect message: %v", err)
		}
	}
}

// awaitGone returns when the device has forgotten a peer that it had.
func awaitGone(d *Device) {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		d.mu.Lock()
		gone := d.conn == nil
		d.mu.Unlock()
		if gone {
			return
		}
		if runtime.Gosched(); time.Now().After(deadline) {
			panic("the peer is not gone after two minutes")
		}
	}
}

func get(q *Queue) (packet []byte, ok bool) {
	r := q.Acquire()
	if r == nil {
		return nil, false
	}
	defer q.Release()
	b := make([]byte, 4096)
	n, ok := r.Get(b)
	r.Flush()
	return b[:n], ok
}

func put(q *Queue, p []byte) bool {
	r := q.Acquire()
	if r == nil {
		return false
	}
	defer q.Release()
	done := r.Put([][]byte{p}, len(p)) == Done
	if r.Flush() {
		q.Notify()
	}
	return done
}
