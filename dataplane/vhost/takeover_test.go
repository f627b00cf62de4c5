package vhost

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// takeOver has another device go on with one, as another process would, and closes the one before.
func takeOver(t *testing.T, d *Device) *Device {
	t.Helper()
	next := prepare(t, d)
	next.enter(t, d)
	d.Leave()
	next.Begin()
	check(t, d.Close())
	return next.Device
}

// entering is a device that another one has still.
type entering struct{ *Device }

func prepare(t *testing.T, d *Device) entering {
	t.Helper()
	l, err := d.Listener()
	check(t, err)
	next, err := Adopt(d.config, l)
	check(t, err)
	check(t, d.Freeze(time.Minute))
	return entering{next}
}

func (e entering) enter(t *testing.T, d *Device) {
	t.Helper()
	text, files, err := d.State()
	check(t, err)
	check(t, e.Enter(text, files))
}

// TestTakeover: a front-end and its guest's driver go on with one device after the other over one connection: packets that are in rings arrive once, a
// message that has come in part is handled, a takeover that ends half way leaves the first device as it was, and the next front-end is served
// by the last device. Nothing leaks.
func TestTakeover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vm")
	d, err := New(Config{Socket: path, Server: true, Queues: 1})
	check(t, err)
	d = takeOver(t, d) // no peer is connected
	f := dial(t, path)
	message, fd := f.inflight()
	defer unix.Close(fd)
	f.upTracked(message, fd)
	count := func() (files, maps int) {
		entries, err := os.ReadDir("/proc/self/fd")
		check(t, err)
		text, err := os.ReadFile("/proc/self/maps")
		check(t, err)
		return len(entries), strings.Count(string(text), "memfd:")
	}
	var files, maps int
	for round := range 10 {
		exchange(t, d, f)
		f.transmit(1, 5, frame) // which waits

		half := prepare(t, d)
		half.enter(t, d)
		check(t, half.Close()) // as if it had failed
		d.Thaw()
		if p, ok := get(d.Receive(0)); !ok || !bytes.Equal(p, frame) {
			t.Fatalf("round %d: behind a takeover that failed: %q (%t)", round, p, ok)
		}
		f.transmit(1, 6, frame)
		f.sync()

		next := prepare(t, d)
		// A message while none is read, and the first bytes of the next one.
		check(t, f.send(getFeatures, 0, nil))
		part := []byte{byte(getQueueNum), 0, 0, 0, flagVersion}
		_, err := f.conn.Write(part)
		check(t, err)
		check(t, f.conn.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
		if n, err := f.conn.Read(make([]byte, 1)); err == nil || n != 0 {
			t.Errorf("round %d: a frozen device answers", round)
		}
		check(t, f.conn.SetReadDeadline(time.Time{}))
		if round%2 == 1 { // the part has come to the first device
			d.Thaw()
			_, err := f.answer(getFeatures)
			check(t, err)
			for have := 0; have != len(part); runtime.Gosched() {
				check(t, d.Freeze(time.Minute))
				have = d.message.have
				d.Thaw()
			}
			check(t, d.Freeze(time.Minute))
		}
		next.enter(t, d)
		if next.Receive(0).Running() {
			t.Errorf("round %d: the ring runs in both", round)
		}
		d.Leave()
		next.Begin()
		check(t, d.Close())
		d = next.Device
		if round%2 == 0 {
			_, err := f.answer(getFeatures)
			check(t, err)
		}
		_, err = f.conn.Write(make([]byte, headerSize-len(part)))
		check(t, err)
		if n, err := f.answer(getQueueNum); err != nil || n != 1 {
			t.Errorf("round %d: %d queues, %v", round, n, err)
		}
		if p, ok := get(d.Receive(0)); !ok || !bytes.Equal(p, frame) {
			t.Fatalf("round %d: behind a takeover: %q (%t)", round, p, ok)
		}
		for _, want := range []int{5, 6} {
			if k, _, ok := f.collect(1); !ok || k != want {
				t.Fatalf("round %d: used buffer %d (%t), want %d", round, k, ok, want)
			}
		}
		if _, ok := get(d.Receive(0)); ok {
			t.Errorf("round %d: a packet came twice", round)
		}
		if s := d.Status(); s.Connections != 1 || s.Rings != 2 || s.Error != "" {
			t.Errorf("round %d: %+v", round, s)
		}
		switch n, m := count(); {
		case round == 1:
			files, maps = n, m
		case round > 1 && (n > files || m > maps): // what is closed may be so a little later
			for deadline := time.Now().Add(time.Minute); n > files || m > maps; n, m = count() {
				if runtime.Gosched(); time.Now().After(deadline) {
					t.Fatalf("round %d: %d descriptors and %d mappings, and %d and %d before", round, n, m, files, maps)
				}
			}
		}
	}
	exchange(t, d, f)
	f.close()
	awaitGone(d)
	d = takeOver(t, d) // the front-end has gone
	f = dial(t, path)
	f.up()
	exchange(t, d, f)
	if s := d.Status(); s.Connections != 2 {
		t.Errorf("%+v", s)
	}
	check(t, d.Close())
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left")
	}
}

// TestTakeoverClient: a device that has connected to its front-end passes, too, and no device connects once another has it.
func TestTakeoverClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vm")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	check(t, err)
	defer l.Close()
	d, err := New(Config{Socket: path, Queues: 1})
	check(t, err)
	c, err := l.AcceptUnix()
	check(t, err)
	f := newFrontend(t, c)
	f.up()
	for range 3 {
		exchange(t, d, f)
		d = takeOver(t, d)
		exchange(t, d, f)
	}
	check(t, l.SetDeadline(time.Now()))
	if c, err := l.AcceptUnix(); err == nil {
		_ = c.Close()
		t.Error("a device that was left has connected again")
	}
	check(t, l.SetDeadline(time.Time{}))
	f.close() // and the last one connects again
	c, err = l.AcceptUnix()
	check(t, err)
	f = newFrontend(t, c)
	f.up()
	exchange(t, d, f)
	check(t, d.Close())
}

// TestTakeoverWakes: a worker that waits finds a packet that came while no device was at work, and the next kicks.
func TestTakeoverWakes(t *testing.T) {
	d, path := newDevice(t, 1)
	f := dial(t, path)
	f.up()
	kick := func() {
		one := [8]byte{1}
		_, err := unix.Write(f.kick[1], one[:])
		check(t, err)
	}
	readable := func(d *Device) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(d.Receive(0).FD()), Events: unix.POLLIN}}, 0)
		return err == nil && n == 1
	}
	next := prepare(t, d)
	f.transmit(1, 0, frame)
	kick()
	next.enter(t, d)
	d.Leave()
	next.Begin()
	for turn := range 3 {
		if !readable(next.Device) {
			t.Fatalf("turn %d: nothing wakes the worker", turn)
		}
		if _, ok := get(next.Receive(0)); !ok {
			t.Fatalf("turn %d: the packet is missing", turn)
		}
		for readable(next.Device) {
			_ = next.Receive(0).Sleep()
		}
		if next.Receive(0).Sleep() || f.quiet(1) {
			t.Fatalf("turn %d: no notification is asked for", turn)
		}
		f.transmit(1, 1+turn, frame)
		kick()
	}
	check(t, next.Close())
}

// FuzzEnter: whatever another process says of a device is taken or refused, as what a guest says, and the device ends.
func FuzzEnter(f *testing.F) {
	path := filepath.Join(f.TempDir(), "vm")
	d, err := New(Config{Socket: path, Server: true, Queues: 1})
	check(f, err)
	defer d.Close()
	fe := dial(f, path)
	fe.up()
	check(f, d.Freeze(time.Minute))
	text, files, err := d.State()
	check(f, err)
	d.Thaw()
	for _, file := range files {
		defer file.Close()
	}
	f.Add(text)
	whole := func() (c deviceState) {
		check(f, json.Unmarshal(text, &c))
		return c
	}
	for _, change := range hostileStates {
		c := whole()
		change(&c)
		b, err := json.Marshal(&c)
		check(f, err)
		f.Add(b)
	}
	config := Config{Queues: 1}
	f.Fuzz(func(t *testing.T, text []byte) {
		next, err := Adopt(config, nil)
		check(t, err)
		var copies []*os.File
		for i, file := range files {
			if i == 0 { // the connection: one whose other end has gone
				pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				check(t, err)
				copies = append(copies, os.NewFile(uintptr(pair[0]), "connection"))
				_ = unix.Close(pair[1])
				continue
			}
			c, err := shmem.ShareFD(int(file.Fd()))
			check(t, err)
			copies = append(copies, c)
		}
		if next.Enter(text, copies) == nil {
			next.Begin()
			for range 3 {
				get(next.Receive(0))
				put(next.Transmit(0), frame)
			}
		}
		check(t, next.Close())
	})
}

// hostileStates are changes of a state none of which may be taken.
var hostileStates = map[string]func(s *deviceState){
	"more rings than there are":       func(s *deviceState) { s.Rings = append(s.Rings, s.Rings...) },
	"no rings":                        func(s *deviceState) { s.Rings = nil },
	"features that are not offered":   func(s *deviceState) { s.Features |= 1 << 3 },
	"features of the protocol":        func(s *deviceState) { s.Protocol |= 1 << 5 },
	"a region beyond its file":        func(s *deviceState) { s.Regions[0].Size = memorySize + 1 },
	"a region of the whole space":     func(s *deviceState) { s.Regions[0].Size = 1<<64 - 1 },
	"a region at the end of space":    func(s *deviceState) { s.Regions[0].Offset = 1<<64 - 1 },
	"a region that wraps":             func(s *deviceState) { s.Regions[0].Guest = 1<<64 - 4096 },
	"regions one over the other":      func(s *deviceState) { s.Regions = append(s.Regions, s.Regions[0]) },
	"a ring of more than a ring has":  func(s *deviceState) { s.Rings[0].Size = 1<<15 + 1 },
	"a ring of fewer than none":       func(s *deviceState) { s.Rings[0].Size = -1 },
	"fewer segments than none":        func(s *deviceState) { s.Rings[0].Cut = -1 },
	"no descriptor for a kick":        func(s *deviceState) { s.Rings[0].Kick = false },
	"a log that there is not":         func(s *deviceState) { s.Log = &regionState{Size: 4096} },
	"tracking that there is not":      func(s *deviceState) { s.Inflight = &regionState{Size: 4096} },
	"more of a message than it has":   func(s *deviceState) { s.Message = make([]byte, headerSize+maxPayload+1) },
	"fewer descriptors than none":     func(s *deviceState) { s.Passed = -1 },
	"a descriptor that there is not":  func(s *deviceState) { s.Passed = 1 },
	"no peer, with descriptors":       func(s *deviceState) { s.Connected = false },
	"a connection without its region": func(s *deviceState) { s.Regions = nil },
}

// TestEnterRefuses: each of these is refused, and none of what it comes with is left open. What cannot be known before the ring is read breaks the ring alone.
func TestEnterRefuses(t *testing.T) {
	d, path := newDevice(t, 1)
	f := dial(t, path)
	f.up()
	for name, change := range hostileStates {
		t.Run(name, func(t *testing.T) {
			next := prepare(t, d)
			defer d.Thaw()
			text, files, err := d.State()
			check(t, err)
			var s deviceState
			check(t, json.Unmarshal(text, &s))
			change(&s)
			text, err = json.Marshal(&s)
			check(t, err)
			if err := next.Enter(text, files); err == nil {
				t.Error("taken")
			} else {
				t.Log(err)
			}
			check(t, next.Close())
			for i, file := range files {
				if err := file.Close(); err == nil {
					t.Errorf("descriptor %d is left", i)
				}
			}
		})
	}
	exchange(t, d, f) // and costs the one that has the device nothing
	for name, change := range map[string]func(r *ringState, guest []byte){
		"a ring outside of the memory": func(r *ringState, _ []byte) { r.Desc = userBase + memorySize },
		"an index of the guest's":      func(_ *ringState, guest []byte) { guest[ringStride+usedAt+3] = 0x81 },
		"a broken ring":                func(r *ringState, _ []byte) { r.Broken = true },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vm")
			d, err := New(Config{Socket: path, Server: true, Queues: 1})
			check(t, err)
			f := dial(t, path)
			f.up()
			next := prepare(t, d)
			text, files, err := d.State()
			check(t, err)
			var s deviceState
			check(t, json.Unmarshal(text, &s))
			change(&s.Rings[1], f.bytes)
			text, err = json.Marshal(&s)
			check(t, err)
			check(t, next.Enter(text, files))
			d.Leave()
			next.Begin()
			check(t, d.Close())
			get(next.Receive(0)) // an index is read, and refused, when the ring is used
			_, _ = io.Copy(io.Discard, f.conn)
			awaitGone(next.Device)
			if s := next.Status(); s.Error == "" {
				t.Errorf("%+v", s)
			}
			f = dial(t, path)
			f.up()
			exchange(t, next.Device, f)
			check(t, next.Close())
		})
	}
}

// TestEnterOpen: a device that was opened here, and not for a takeover, takes no state.
func TestEnterOpen(t *testing.T) {
	d, path := newDevice(t, 1)
	f := dial(t, path)
	f.up()
	check(t, d.Freeze(time.Minute))
	text, files, err := d.State()
	check(t, err)
	d.Thaw()
	if err := d.Enter(text, files); err == nil {
		t.Error("taken")
	}
	exchange(t, d, f)
}
