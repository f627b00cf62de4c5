package vhost

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem/shmemtest"
	"github.com/weirswitch/weir/dataplane/virtio"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var frame = bytes.Repeat([]byte("a packet of a guest "), 5)

// exchange passes a packet each way.
func exchange(t *testing.T, d *Device, f *frontend) {
	t.Helper()
	f.transmit(1, 0, frame)
	if p, ok := get(d.Receive(0)); !ok || !bytes.Equal(p, frame) {
		t.Fatalf("received %q (%t)", p, ok)
	}
	if k, _, ok := f.collect(1); !ok || k != 0 {
		t.Fatalf("used buffer %d (%t), want 0", k, ok)
	}
	f.offer(0, 3, bufferSize, true)
	if !put(d.Transmit(0), frame) {
		v := d.Transmit(0)
		var faults []string
		v.Faults.Each(func(f virtio.Fault, n uint64) { faults = append(faults, fmt.Sprint(f, " ", n)) })
		t.Fatalf("the packet was not sent: running %t, faults %q, %+v", v.Running(), faults, d.Status())
	}
	k, n, ok := f.collect(0)
	if !ok || k != 3 || !bytes.Equal(f.buffer(0, k)[12:n], frame) {
		t.Fatalf("used buffer %d with %d bytes (%t), want 3 with %d", k, n, ok, 12+len(frame))
	}
}

// TestExchange: packets pass both ways, the rings stop where they are and go on, and the next front-end
// begins anew.
func TestExchange(t *testing.T) {
	d, path := newDevice(t, 1)
	for range 3 {
		f := dial(t, path)
		f.up()
		if s := d.Status(); !s.Connected || s.Rings != 2 || s.Error != "" {
			t.Errorf("status %+v, want 2 rings", s)
		}
		exchange(t, d, f)
		for i := range uint32(2) {
			if got := f.ask(getVringBase, state(i, 0)); got != uint64(i)|1<<32 {
				t.Errorf("ring %d stopped at %#x, want 1", i, got)
			}
		}
		if put(d.Transmit(0), frame) {
			t.Error("a stopped ring takes a packet")
		}
		for i := range 2 {
			_ = unix.Close(f.kick[i])
			_ = unix.Close(f.call[i])
			f.start(i)
		}
		f.sync()
		exchange(t, d, f)
		f.close()
		awaitGone(d)
	}
	if s := d.Status(); s.Connections != 3 {
		t.Errorf("%d connections, want 3", s.Connections)
	}
}

// awaitGone returns when the device has forgotten a front-end that it had.
func awaitGone(d *Device) {
	for gone := false; !gone; runtime.Gosched() {
		d.mu.Lock()
		gone = d.conn == nil
		d.mu.Unlock()
	}
}

// TestClient: the device connects to a front-end that listens, and again to the next one.
func TestClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vm")
	d, err := New(Config{Socket: path, Queues: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		f := newFrontend(t, c)
		f.up()
		exchange(t, d, f)
		f.close()
		_ = l.Close()
	}
}

// TestSleep: a sleeping worker's descriptor becomes readable by a kick, which the driver is asked for only then.
func TestSleep(t *testing.T) {
	d, path := newDevice(t, 1)
	f := dial(t, path)
	f.up()
	v := d.Receive(0)
	readable := func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(v.FD()), Events: unix.POLLIN}}, 0)
		return err == nil && n == 1
	}
	if !readable() {
		t.Error("the start of the ring wakes nobody")
	}
	kick := func() {
		one := [8]byte{1}
		if _, err := unix.Write(f.kick[1], one[:]); err != nil {
			t.Fatal(err)
		}
	}
	for turn := range 3 {
		for readable() { // forgets what was before, as a worker does that finds nothing
			if v.Sleep() {
				t.Fatal("an empty ring is ready")
			}
		}
		if v.Sleep() || f.quiet(1) {
			t.Fatalf("turn %d: no notification is asked for", turn)
		}
		f.transmit(1, 0, frame)
		kick()
		if !readable() {
			t.Fatalf("turn %d: the kick wakes nobody", turn)
		}
		r := v.Acquire()
		if r == nil {
			t.Fatal("the ring does not run")
		}
		waiting := r.Available(1)
		r.Disarm()
		v.Release()
		if waiting != 1 {
			t.Fatal("the packet is not there")
		}
		if !f.quiet(1) {
			t.Fatalf("turn %d: a busy worker asks for notifications", turn)
		}
		f.transmit(1, 1, frame) // by a driver that does not kick
		if !v.Sleep() {
			t.Fatalf("turn %d: the worker would sleep beside a packet", turn)
		}
		for range 2 {
			if _, ok := get(v); !ok {
				t.Fatal("a packet is missing")
			}
		}
	}
}

// TestRefusals: each of these messages ends the connection, with a reason, and the next front-end is served.
func TestRefusals(t *testing.T) {
	d, path := newDevice(t, 1)
	whole := [4]uint64{guestBase, memorySize, userBase, 0}
	for _, c := range []struct {
		name string
		send func(f *frontend) error
		want string
	}{
		{"an unknown request", func(f *frontend) error { return f.send(77, 0, nil) }, "request 77, which was not negotiated"},
		{"a long payload", func(f *frontend) error { return f.send(setFeatures, 0, make([]byte, 513)) }, "513 bytes: at most 512"},
		{"a short payload", func(f *frontend) error { return f.send(setFeatures, 0, make([]byte, 7)) }, "of 7 bytes: want 8"},
		{"another version", func(f *frontend) error { return f.send(setFeatures, 2, numbers(0)) }, "version 3: want 1"},
		{"a feature not offered", func(f *frontend) error { return f.send(setFeatures, 0, numbers(1)) }, "features 0x1, of which"},
		{"a protocol feature not offered", func(f *frontend) error { return f.send(setProtocolFeatures, 0, numbers(1<<2)) }, "features 0x4 of the protocol"},
		{"a ring that is not there", func(f *frontend) error { return f.send(setVringNum, 0, state(2, 16)) }, "ring 2 of 2: set queues"},
		{"a ring without descriptors", func(f *frontend) error { return f.send(setVringNum, 0, state(0, 0)) }, "ring 0 of 0 descriptors"},
		{"a ring of too many", func(f *frontend) error { return f.send(setVringNum, 0, state(0, 1<<16)) }, "of 65536 descriptors"},
		{"regions without files", func(f *frontend) error { return f.send(setMemTable, 0, memoryTable(whole)) }, "with 0 descriptors"},
		{"more regions than bytes", func(f *frontend) error { return f.send(setMemTable, 0, numbers(3), f.file, f.file, f.file) }, "3 regions in 8 bytes"},
		{"no region", func(f *frontend) error { return f.send(setMemTable, 0, numbers(0)) }, "0 regions"},
		{"a region beyond its file", func(f *frontend) error {
			return f.send(setMemTable, 0, memoryTable([4]uint64{guestBase, memorySize, userBase, 4096}), f.file)
		}, "of a file of 1048576 bytes"},
		{"an offset that overflows", func(f *frontend) error {
			return f.send(setMemTable, 0, memoryTable([4]uint64{guestBase, memorySize, userBase, ^uint64(0) - 4095}), f.file)
		}, "of a file of 1048576 bytes"},
		{"a region beyond the address space", func(f *frontend) error {
			return f.send(setMemTable, 0, memoryTable([4]uint64{^uint64(0) - 10, memorySize, userBase, 0}), f.file)
		}, "exceed the address space"},
		{"regions that overlap", func(f *frontend) error {
			return f.send(setMemTable, 0, memoryTable(whole, [4]uint64{guestBase + memorySize - 1, 4096, userBase << 1, 0}), f.file, f.file)
		}, "region 1 overlaps region 0"},
		{"a file that is no memory", func(f *frontend) error {
			file, err := os.Open("/sys/devices/system/cpu/online")
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			return f.send(setMemTable, 0, memoryTable([4]uint64{guestBase, 1, userBase, 0}), int(file.Fd()))
		}, "/sys/devices/system/cpu/online is no memory"},
		{"a kick that is no eventfd", func(f *frontend) error { return f.send(setVringKick, 0, numbers(0), f.file) }, "want an eventfd"},
		{"a kick without a descriptor", func(f *frontend) error { return f.send(setVringKick, 0, numbers(0)) }, "with 0 descriptors: want 1"},
		{"no call, with descriptors", func(f *frontend) error { return f.send(setVringCall, 0, numbers(1<<8), f.file, f.file) }, "without a descriptor has 2"},
		{"a ring outside the memory", func(f *frontend) error {
			f.negotiate(version1 | hasProtocol)
			f.must(setVringNum, state(0, ringSize))
			f.must(setVringAddr, numbers(0, userBase-4096, userBase, userBase, 0))
			event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(event) }()
			return f.send(setVringKick, 0, numbers(0), event)
		}, "is not in the guest's memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := dial(t, path)
			if err := c.send(f); err != nil {
				t.Fatal(err)
			}
			f.dismissed()
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

// TestShrunkMemory: a guest whose memory is truncated loses its connection, and no more; its successor is served.
func TestShrunkMemory(t *testing.T) {
	d, path := newDevice(t, 1)
	for _, c := range []struct {
		name string
		size int64
	}{
		{"rings and all", 0},
		{"the second ring's buffers", ringStride + buffersAt},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := dial(t, path)
			f.up()
			before := d.Receive(0).Faults.Count(virtio.FaultMemory)
			f.transmit(1, 0, frame)
			if err := unix.Ftruncate(f.file, c.size); err != nil {
				t.Fatal(err)
			}
			if p, ok := get(d.Receive(0)); ok {
				t.Errorf("received %q from memory that is gone", p)
			}
			if got := d.Receive(0).Faults.Count(virtio.FaultMemory) - before; got != 1 {
				t.Errorf("%d faults of memory, want 1", got)
			}
			f.dismissed()
			f.close()
			awaitGone(d)
			if got := d.Status().Error; !strings.Contains(got, "ring 1 cannot be followed") {
				t.Errorf("reason %q", got)
			}
			next := dial(t, path)
			next.up()
			exchange(t, d, next)
			next.close()
			awaitGone(d)
		})
	}
}

// TestNothingLeaks: front-ends that come and go leave no descriptor and no mapping.
func TestNothingLeaks(t *testing.T) {
	d, path := newDevice(t, 1)
	count := func() (files, maps int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), strings.Count(string(text), "memfd:")
	}
	visit := func() {
		f := dial(t, path)
		f.up()
		exchange(t, d, f)
		f.must(setMemTable, memoryTable([4]uint64{guestBase, memorySize, userBase, 0}), f.file)
		f.sync()
		exchange(t, d, f)
		more := region(guestBase+memorySize, memorySize, userBase+memorySize, 0)
		f.must(addMemReg, more, f.file)
		f.must(setLogBase, numbers(memorySize/2, memorySize/2), f.file)
		f.empty(setLogBase)
		f.must(remMemReg, more)
		f.sync()
		f.close()
		awaitGone(d)
		tracked := dial(t, path)
		message, fd := tracked.inflight()
		tracked.upTracked(message, fd)
		exchange(t, d, tracked)
		tracked.close()
		_ = unix.Close(fd)
		awaitGone(d)
	}
	visit()
	files, maps := count()
	for range 100 {
		visit()
	}
	if f, m := count(); f != files || m != maps {
		t.Errorf("%d descriptors and %d mappings, and before 100 front-ends %d and %d", f, m, files, maps)
	}
}

// TestLingeringFiles: what a front-end passes may take as long to close as it likes, wherever it is when the connection ends. It is refused, and
// the device ends at once.
func TestLingeringFiles(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(f *frontend, file int)
		want string
	}{
		{"as memory", func(f *frontend, file int) {
			f.must(setMemTable, memoryTable([4]uint64{guestBase, memorySize, userBase, 0}), file)
		}, "is no memory"},
		{"as a kick", func(f *frontend, file int) { f.must(setVringKick, numbers(0), file) }, "is no memory"},
		{"beside a good one", func(f *frontend, file int) { f.must(setVringKick, numbers(0), f.file, file) }, "is no memory"},
		{"behind the header", func(f *frontend, file int) {
			_, _, err := f.conn.WriteMsgUnix(binary.LittleEndian.AppendUint32(numbers(uint64(setFeatures)|flagVersion<<32), 8), nil, nil)
			check(f.t, err)
			_, _, err = f.conn.WriteMsgUnix(numbers(version1), unix.UnixRights(file), nil)
			check(f.t, err)
		}, "1 descriptors: at most 0"},
		{"unread", func(f *frontend, file int) {
			f.must(77, nil)
			f.must(setVringKick, numbers(0), file)
		}, "request 77, which was not negotiated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vm")
			d, err := New(Config{Socket: path, Server: true, Queues: 1})
			check(t, err)
			d.mu.Lock() // nothing is read before the device has the last descriptor of the socket
			f := dial(t, path)
			file := shmemtest.Linger(t)
			c.send(f, file)
			check(t, unix.Close(file))
			d.mu.Unlock()
			for !strings.Contains(d.Status().Error, c.want) {
				runtime.Gosched()
			}
			check(t, d.Close())
		})
	}
	t.Run("in a connection that was not accepted", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "vm")
		d, err := New(Config{Socket: path, Server: true, Queues: 1})
		check(t, err)
		first, second := dial(t, path), dial(t, path)
		first.up()
		file := shmemtest.Linger(t)
		second.must(setVringKick, numbers(0), file)
		check(t, unix.Close(file))
		check(t, d.Close())
	})
}
