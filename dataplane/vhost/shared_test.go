package vhost

import (
	"bytes"
	"encoding/binary"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/virtio"
)

// region is a message that adds or removes a region.
func region(guest, size, user, offset uint64) []byte { return numbers(0, guest, size, user, offset) }

// upTracked starts a pair of rings whose buffers in flight are tracked, in memory that comes in two regions.
func (f *frontend) upTracked(inflight []byte, fd int) {
	f.t.Helper()
	f.must(setOwner, nil)
	if got := f.ask(getProtocolFeatures, nil); got&(protocolSlots|protocolInflight|protocolLog) != protocolSlots|protocolInflight|protocolLog {
		f.t.Fatalf("features of the protocol %#x", got)
	}
	f.must(setProtocolFeatures, numbers(protocolSlots|protocolInflight|protocolLog))
	f.must(setFeatures, numbers(version1|netMergeable|hasProtocol))
	if got := f.ask(getMaxMemSlots, nil); got != maxSlots {
		f.t.Errorf("%d slots, want %d", got, maxSlots)
	}
	const first = ringStride // ring 0 and its buffers
	f.must(addMemReg, region(guestBase, first, userBase, 0), f.file)
	f.must(addMemReg, region(guestBase+first, memorySize-first, userBase+first, first), f.file)
	f.must(setInflightFD, inflight, fd)
	f.start(0)
	f.start(1)
	f.sync()
}

// inflight asks for memory to track two rings.
func (f *frontend) inflight() (message []byte, fd int) {
	f.t.Helper()
	ask := numbers(0, 0, 2|ringSize<<16)
	f.must(getInflightFD, ask)
	message, fd = f.recvFD(24)
	if size := binary.LittleEndian.Uint64(message); size != uint64(2*virtio.InflightSize(ringSize, false)) {
		f.t.Errorf("tracking in %d bytes", size)
	}
	return message, fd
}

// TestMemorySlots: regions come and go while rings run; a ring whose memory goes stops until it is back.
func TestMemorySlots(t *testing.T) {
	d, path := newDevice(t, 1)
	f := dial(t, path)
	message, fd := f.inflight()
	defer func() { _ = unix.Close(fd) }()
	f.upTracked(message, fd)
	exchange(t, d, f)
	more := region(guestBase+memorySize, memorySize, userBase+memorySize, 0)
	f.must(addMemReg, more, f.file)
	f.sync()
	exchange(t, d, f)
	f.must(remMemReg, more)
	f.sync()
	exchange(t, d, f)
	own := region(guestBase, ringStride, userBase, 0)
	f.must(remMemReg, own)
	f.sync()
	if d.Transmit(0).Running() || !d.Receive(0).Running() {
		t.Errorf("the ring without memory runs: %v; the other one: %v", d.Transmit(0).Running(), d.Receive(0).Running())
	}
	f.must(addMemReg, own, f.file)
	f.sync()
	exchange(t, d, f)
}

// TestInflightFD: the tracking outlives a device, and the next one goes on where it says.
func TestInflightFD(t *testing.T) {
	d, path := newDevice(t, 1)
	f := dial(t, path)
	message, fd := f.inflight()
	defer func() { _ = unix.Close(fd) }()
	tracked, err := unix.Mmap(fd, 0, 2*virtio.InflightSize(ringSize, false), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(tracked) }()
	f.upTracked(message, fd)
	for turn := range 3 {
		exchange(t, d, f)
		for i := range 2 {
			at := i * virtio.InflightSize(ringSize, false)
			if got := binary.LittleEndian.Uint16(tracked[at+14:]); int(got) != turn+1 {
				t.Errorf("turn %d: ring %d is tracked at %d, want %d", turn, i, got, turn+1)
			}
		}
		// The connection breaks, and the same guest comes again: its rings stay where they are.
		_ = f.conn.Close()
		awaitGone(d)
		again := dial(t, path)
		f.conn, again.conn = again.conn, f.conn
		for i := range 2 {
			_ = unix.Close(f.kick[i])
			_ = unix.Close(f.call[i])
		}
		f.upTracked(message, fd)
	}
	exchange(t, d, f)
}

// TestDirtyLog: once a migration begins, pages that the device writes to are marked, those of the used ring at the log's
// address, and none when it ends.
func TestDirtyLog(t *testing.T) {
	d, path := newDevice(t, 1)
	f := dial(t, path)
	f.up()
	exchange(t, d, f)
	const size = (guestBase + memorySize) / 4096 / 8
	fd, err := unix.MemfdCreate("log", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Ftruncate(fd, size+4096); err != nil {
		t.Fatal(err)
	}
	log, err := unix.Mmap(fd, 4096, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(log) }()
	f.must(setLogBase, numbers(size, 4096), fd)
	f.empty(setLogBase)
	exchange(t, d, f)
	if len(bytes.Trim(log, "\x00")) != 0 {
		t.Error("pages are marked before the migration begins")
	}
	f.must(setFeatures, numbers(version1|netMergeable|hasProtocol|logAll))
	const usedPage = guestBase/4096 + 77
	for i := range uint64(2) {
		at := userBase + i*ringStride
		f.must(setVringAddr, numbers(i|1<<32, at, at+usedAt, at+availAt, usedPage*4096))
	}
	f.sync()
	clear(log)
	exchange(t, d, f)
	marked := func(page int) bool { return log[page/8]>>(page%8)&1 != 0 }
	if !marked(usedPage) {
		t.Error("the used ring is not marked at its log address")
	}
	if page := (guestBase + buffersAt + 3*bufferSize) / 4096; !marked(page) {
		t.Error("the buffer is not marked")
	}
	if page := (guestBase + ringStride + buffersAt) / 4096; marked(page) {
		t.Error("a buffer that was only read is marked")
	}
	f.must(setFeatures, numbers(version1|netMergeable|hasProtocol))
	f.sync()
	clear(log)
	exchange(t, d, f)
	if len(bytes.Trim(log, "\x00")) != 0 {
		t.Error("pages are marked when the migration has ended")
	}
	// A log that is taken away costs the connection.
	f.must(setFeatures, numbers(version1|netMergeable|hasProtocol|logAll))
	f.sync()
	if err := unix.Ftruncate(fd, 0); err != nil {
		t.Fatal(err)
	}
	f.offer(0, 3, bufferSize, true)
	put(d.Transmit(0), frame)
	f.dismissed()
}

// TestSharedRefusals: each of these messages ends the connection, with a reason.
func TestSharedRefusals(t *testing.T) {
	d, path := newDevice(t, 1)
	for _, c := range []struct {
		name string
		send func(f *frontend) error
		want string
	}{
		{"a short region", func(f *frontend) error { return f.send(addMemReg, 0, numbers(0, 1), f.file) }, "in 16 bytes"},
		{"a region without a file", func(f *frontend) error { return f.send(addMemReg, 0, region(guestBase, 4096, userBase, 0)) }, "with 0 descriptors"},
		{"a region beyond its file", func(f *frontend) error {
			return f.send(addMemReg, 0, region(guestBase, memorySize, userBase, 4096), f.file)
		}, "of a file of 1048576 bytes"},
		{"the same region twice", func(f *frontend) error {
			f.must(addMemReg, region(guestBase, 4096, userBase, 0), f.file)
			return f.send(addMemReg, 0, region(guestBase, 4096, userBase, 0), f.file)
		}, "region 1 overlaps region 0"},
		{"too many regions", func(f *frontend) error {
			for i := range uint64(maxSlots) {
				f.must(addMemReg, region(guestBase+4096*i, 4096, userBase+4096*i, 0), f.file)
			}
			return f.send(addMemReg, 0, region(0, 4096, 0, 0), f.file)
		}, "at most 64 regions"},
		{"more memory than a front-end may have", func(f *frontend) error {
			if err := unix.Ftruncate(f.file, maxMemory/2); err != nil { // it is sparse
				return err
			}
			for i, size := range []uint64{maxMemory / 4, maxMemory / 2, maxMemory / 4, 4096} {
				if err := f.send(addMemReg, 0, region(uint64(i)<<50, size, uint64(i)<<50, 0), f.file); err != nil {
					return err
				}
			}
			return nil
		}, "4096 bytes: at most 0 more"},
		{"a region that is not there", func(f *frontend) error { return f.send(remMemReg, 0, region(guestBase, 4096, userBase, 0)) }, "which there is not"},
		{"a short log message", func(f *frontend) error { return f.send(setLogBase, 0, numbers(4096), f.file) }, "a log in 8 bytes"},
		{"a log beyond its file", func(f *frontend) error { return f.send(setLogBase, 0, numbers(2*memorySize, 0), f.file) }, "the log of dirty pages"},
		{"an odd log", func(f *frontend) error {
			f.negotiate(version1 | hasProtocol | logAll)
			return f.send(setLogBase, 0, numbers(memorySize/2, 4), f.file)
		}, "multiples of 8"},
		{"a log that is too short", func(f *frontend) error {
			f.negotiate(version1 | hasProtocol | logAll)
			return f.send(setLogBase, 0, numbers(4096, 0), f.file)
		}, "a log of 4096 bytes: memory region 0"},
		{"tracking of no ring", func(f *frontend) error { return f.send(getInflightFD, 0, numbers(0, 0, 16<<16)) }, "tracking of 0 rings"},
		{"tracking of too many rings", func(f *frontend) error { return f.send(getInflightFD, 0, numbers(0, 0, 3|16<<16)) }, "tracking of 3 rings"},
		{"tracking that is too short", func(f *frontend) error { return f.send(setInflightFD, 0, numbers(64, 0, 2|16<<16), f.file) }, "in 64 bytes"},
		{"tracking beyond its file", func(f *frontend) error {
			return f.send(setInflightFD, 0, numbers(2*memorySize, 0, 2|16<<16), f.file)
		}, "the tracking of buffers in flight"},
		{"tracking while rings run", func(f *frontend) error {
			f.up()
			return f.send(setInflightFD, 0, numbers(memorySize, 0, 2|16<<16), f.file)
		}, "while ring 0 runs"},
		{"tracking of another version", func(f *frontend) error {
			f.bytes[memorySize-4096+8] = 9
			f.negotiate(version1 | hasProtocol)
			f.must(setInflightFD, numbers(4096, memorySize-4096, 1|16<<16), f.file)
			f.describe(0)
			return f.send(setVringKick, 0, numbers(0), f.kick[0])
		}, "tracking of version 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := dial(t, path)
			if err := c.send(f); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, f.conn) // an answer may come first
			awaitGone(d)
			if got := d.Status().Error; !strings.Contains(got, c.want) {
				t.Errorf("reason %q, want %q", got, c.want)
			}
		})
	}
	f := dial(t, path)
	f.up()
	exchange(t, d, f)
}

// TestOffloads: a guest may leave checksums and segments to a device with offloads alone, and what it leaves is completed.
func TestOffloads(t *testing.T) {
	for _, on := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "vm")
		d, err := New(Config{Socket: path, Server: true, Queues: 1, Offloads: on})
		if err != nil {
			t.Fatal(err)
		}
		f := dial(t, path)
		if got := f.ask(getFeatures, nil)&offloads == offloads; got != on {
			t.Errorf("offloads are offered: %t, want %t", got, on)
		}
		if on {
			f.negotiate(version1 | netMergeable | hasProtocol | offloads)
			f.start(0)
			f.start(1)
			f.sync()
			p := bytes.Repeat([]byte{1}, 61)
			f.transmit(1, 0, p)
			copy(f.buffer(1, 0), []byte{1, 0, 0, 0, 0, 0, 20, 0, 6, 0}) // the checksum of byte 20 on, at byte 26
			got, ok := get(d.Receive(0))
			binary.BigEndian.PutUint16(p[26:], ^uint16(20*0x101+0x100)) // 41 bytes of 1
			if !ok || !bytes.Equal(got, p) {
				t.Errorf("received %x (%t), want %x", got, ok, p)
			}
		}
		f.close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
