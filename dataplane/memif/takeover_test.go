package memif

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// apart hides this process's listeners from a device that is made as if by another process.
func apart(make func()) {
	listenersMu.Lock()
	mine := listeners
	listeners = map[string]*listener{}
	listenersMu.Unlock()
	make()
	listenersMu.Lock()
	listeners = mine
	listenersMu.Unlock()
}

// prepare makes the devices that are to go on with those of one socket, as another process would, and freezes these.
func prepare(t *testing.T, devices ...*Device) (next []*Device) {
	t.Helper()
	apart(func() {
		for _, d := range devices {
			socket, err := d.Listener()
			check(t, err)
			n, err := Adopt(d.config, socket)
			check(t, err)
			next = append(next, n)
		}
	})
	for _, d := range devices {
		check(t, d.Freeze(time.Minute))
	}
	return next
}

func enter(t *testing.T, next, d *Device) {
	t.Helper()
	text, files, err := d.State()
	check(t, err)
	check(t, next.Enter(text, files))
}

// finish ends a takeover.
func finish(t *testing.T, next, devices []*Device) {
	t.Helper()
	for i, n := range next {
		enter(t, n, devices[i])
	}
	for _, d := range devices {
		d.Leave()
	}
	for _, n := range next {
		n.Begin()
	}
	for _, d := range devices {
		check(t, d.Close())
	}
	listenersMu.Lock()
	defer listenersMu.Unlock()
	if l := next[0].listener; l != nil {
		listeners[l.path] = l // as it is in the other process
	}
}

func files(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(entries)
}

// TestTakeover: the peers of two interfaces of a socket go on with one pair of devices after the other, each over one connection: a packet that waits arrives
// once, a takeover that ends half way leaves all as it was, and the next peers are served by the last devices. Nothing leaks.
func TestTakeover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memif.sock")
	var devices []*Device
	for id := range uint32(2) {
		d, err := New(Config{Socket: path, Server: true, ID: id, Queues: 1, Name: "test"})
		check(t, err)
		devices = append(devices, d)
	}
	move := func() {
		next := prepare(t, devices...)
		finish(t, next, devices)
		devices = next
	}
	move() // no peer is connected
	peers := []*peer{dial(t, path), dial(t, path)}
	peers[0].up(0, "")
	move() // one is, and the other one begins to
	peers[1].close()
	peers[1] = dial(t, path)
	peers[1].up(1, "")
	first, n := 0, [2]uint16{}
	pass := func(i int) {
		exchange(t, devices[i], peers[i], n[i])
		n[i]++
	}
	for round := range 20 {
		pass(0)
		pass(1)
		half := prepare(t, devices...)
		enter(t, half[0], devices[0])
		for _, d := range half { // as if the second interface had failed
			check(t, d.Close())
		}
		for _, d := range devices {
			d.Thaw()
		}
		pass(0)
		pass(1)

		// One packet waits, from the peer.
		slot := int(n[0] % testSize)
		at := buffersAt + 2048*slot
		copy(peers[0].bytes[at:], frame)
		peers[0].describe(0, slot, 0, 0, uint32(len(frame)), at)
		peers[0].setHead(0, n[0]+1)
		move()
		if b, ok := get(devices[0].Receive(0)); !ok || !bytes.Equal(b, frame) {
			t.Fatalf("round %d: %q (%t)", round, b, ok)
		}
		if b, ok := get(devices[0].Receive(0)); ok {
			t.Fatalf("round %d: %q came twice", round, b)
		}
		peers[0].describe(1, slot, 0, 0, 2048, at+2048*testSize)
		peers[0].setHead(1, n[0]+1)
		if !put(devices[0].Transmit(0), frame) || peers[0].tail(1) != n[0]+1 {
			t.Fatalf("round %d: the packet was not sent", round)
		}
		n[0]++
		if s := devices[0].Status(); s.Connections != 1 || s.Rings != 2 || s.RingSize != testSize || s.Error != "" {
			t.Errorf("round %d: %+v", round, s)
		}
		if round == 1 {
			first = files(t)
		}
	}
	for deadline := time.Now().Add(time.Minute); files(t) > first; runtime.Gosched() { // what is closed may be so a little later
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors, and %d before", files(t), first)
		}
	}
	for i, p := range peers {
		p.close()
		awaitGone(devices[i])
		p = dial(t, path)
		p.up(uint32(i), "")
		exchange(t, devices[i], p, 0)
		p.close()
	}
	for _, d := range devices {
		check(t, d.Close())
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left")
	}
}

// TestTakeoverClient: a client passes, too: its memory, rings and connection. No device connects once another has it.
func TestTakeoverClient(t *testing.T) {
	server := newDevice(t, Config{})
	path := server.config.Socket
	client, err := New(Config{Socket: path, Queues: 1, RingSize: testSize})
	check(t, err)
	connected := func(times uint64) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); server.Status().Connections != times || !client.Status().Connected; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("no connection: %+v", client.Status())
			}
		}
	}
	connected(1)
	pass := func() {
		t.Helper()
		for _, direction := range [][2]*Device{{client, server}, {server, client}} {
			for i := range 3 * testSize { // all buffers, more than once
				p := append(bytes.Clone(frame), byte(i))
				if !put(direction[0].Transmit(0), p) {
					t.Fatalf("packet %d was not sent", i)
				}
				if b, ok := get(direction[1].Receive(0)); !ok || !bytes.Equal(b, p) {
					t.Fatalf("packet %d: %q (%t)", i, b, ok)
				}
			}
		}
	}
	// Who connects now is seen at the path, where there is another socket.
	check(t, os.Rename(path, path+".moved"))
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	check(t, err)
	for round := range 5 {
		pass()
		waits := append(bytes.Clone(frame), 100)
		for i := range testSize / 2 {
			if !put(client.Transmit(0), append(waits, byte(i))) || !put(server.Transmit(0), append(waits, byte(i))) {
				t.Fatalf("round %d: packet %d was not sent", round, i)
			}
		}
		next := prepare(t, client)
		finish(t, next, []*Device{client})
		client = next[0]
		for i := range testSize / 2 {
			for _, d := range []*Device{client, server} {
				if b, ok := get(d.Receive(0)); !ok || !bytes.Equal(b, append(waits, byte(i))) {
					t.Fatalf("round %d: packet %d: %q (%t)", round, i, b, ok)
				}
			}
		}
		pass()
	}
	check(t, l.SetDeadline(time.Now()))
	if c, err := l.AcceptUnix(); err == nil {
		_ = c.Close()
		t.Error("a device that was left has connected again")
	}
	_ = l.Close()
	_ = os.Remove(path)
	check(t, os.Rename(path+".moved", path))
	if s := server.Status(); s.Connections != 1 {
		t.Errorf("%+v", s)
	}
	check(t, client.Close())
	awaitGone(server)
	client, err = New(Config{Socket: path, Queues: 1, RingSize: testSize})
	check(t, err)
	connected(2)
	next := prepare(t, client)
	finish(t, next, []*Device{client})
	client = next[0]
	pass()
	check(t, client.Close())
}

// hostileStates are changes of a state none of which may be taken.
var hostileStates = map[string]func(s *deviceState){
	"more rings than queues":            func(s *deviceState) { s.Rings = append(s.Rings, s.Rings...) },
	"a ring twice":                      func(s *deviceState) { s.Rings[1].Sends = s.Rings[0].Sends },
	"a ring that there is not":          func(s *deviceState) { s.Rings[0].Index = 1 },
	"a ring with a number below 0":      func(s *deviceState) { s.Rings[0].Index = -1 },
	"a ring in a region that is none":   func(s *deviceState) { s.Rings[0].Region = 1 },
	"a ring beyond its region":          func(s *deviceState) { s.Rings[0].Offset = testMemory - 64 },
	"a ring at an odd place":            func(s *deviceState) { s.Rings[0].Offset = 1 },
	"a ring of too many descriptors":    func(s *deviceState) { s.Rings[0].Log2 = 200 },
	"a region beyond its file":          func(s *deviceState) { s.Regions[0] = testMemory + 1 },
	"a region of the whole space":       func(s *deviceState) { s.Regions[0] = 1<<64 - 1 },
	"a region that there is not":        func(s *deviceState) { s.Regions = append(s.Regions, 4096) },
	"a notification by something else":  func(s *deviceState) { s.Regions = nil },
	"no peer, with descriptors":         func(s *deviceState) { s.Connected = false },
	"a connection with too few of them": func(s *deviceState) { s.Rings = s.Rings[:1] },
}

// TestEnterRefuses: each of these is refused, none of what it comes with is left open, and the device that has the peer goes on. An index that is none breaks the ring.
func TestEnterRefuses(t *testing.T) {
	d := newDevice(t, Config{})
	p := dial(t, d.config.Socket)
	p.up(0, "")
	n := uint16(0)
	changed := func(change func(s *deviceState)) (next *Device, err error) {
		next = prepare(t, d)[0]
		text, files, err := d.State()
		check(t, err)
		var s deviceState
		check(t, json.Unmarshal(text, &s))
		change(&s)
		text, err = json.Marshal(&s)
		check(t, err)
		err = next.Enter(text, files)
		for i, file := range files {
			if file.Close() == nil {
				t.Errorf("descriptor %d is left", i)
			}
		}
		return next, err
	}
	for name, change := range hostileStates {
		t.Run(name, func(t *testing.T) {
			next, err := changed(change)
			if err == nil {
				t.Error("taken")
			} else {
				t.Log(err)
			}
			check(t, next.Close())
			d.Thaw()
			exchange(t, d, p, n)
			n++
		})
	}
	next, err := changed(func(s *deviceState) { s.Rings[0].Next, s.Rings[1].Next = n+0x4000, n+0x4000 })
	check(t, err)
	d.Leave()
	next.Begin()
	if b, ok := get(next.Receive(0)); ok {
		t.Errorf("%q was received at an index that is none", b)
	}
	if why := p.dismissed(); why == "" {
		t.Error("the peer was dismissed without a reason")
	}
	awaitGone(next)
	again := dial(t, d.config.Socket)
	again.up(0, "")
	exchange(t, next, again, 0)
	check(t, next.Close())
}

// FuzzEnter: whatever another process says of a device is taken or refused, and the device ends.
func FuzzEnter(f *testing.F) {
	for _, server := range []bool{true, false} {
		for _, change := range hostileStates {
			s := deviceState{Connected: true, Regions: []uint64{testMemory}, Rings: []ringState{
				{Log2: testLog2}, {Sends: true, Offset: ringStride, Log2: testLog2}}}
			b, err := json.Marshal(&s)
			check(f, err)
			f.Add(server, b)
			change(&s)
			b, err = json.Marshal(&s)
			check(f, err)
			f.Add(server, b)
		}
	}
	memory, err := unix.MemfdCreate("memif-peer", unix.MFD_CLOEXEC)
	check(f, err)
	defer unix.Close(memory)
	check(f, unix.Ftruncate(memory, testMemory))
	var mark [4]byte
	binary.LittleEndian.PutUint32(mark[:], cookie)
	for i := range int64(2) {
		_, err := unix.Pwrite(memory, mark[:], i*ringStride)
		check(f, err)
	}
	path := filepath.Join(f.TempDir(), "memif.sock")
	f.Fuzz(func(t *testing.T, server bool, text []byte) {
		var socket *os.File
		if server {
			l, err := shmem.Listen("unixpacket", path)
			check(t, err)
			socket, err = l.Share()
			check(t, err)
			check(t, l.Close())
			check(t, os.Remove(path))
		}
		// A client that goes on finds nothing to connect to.
		d, err := Adopt(Config{Socket: path, Server: server, Queues: 1, RingSize: testSize}, socket)
		check(t, err)
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		check(t, err)
		check(t, unix.Close(pair[1]))
		copies := []*os.File{os.NewFile(uintptr(pair[0]), "connection")}
		c, err := shmem.ShareFD(memory)
		check(t, err)
		copies = append(copies, c)
		for range 2 {
			event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
			check(t, err)
			copies = append(copies, os.NewFile(uintptr(event), "event"))
		}
		if d.Enter(text, copies) == nil {
			d.Begin()
			for range 3 {
				get(d.Receive(0))
				put(d.Transmit(0), frame)
			}
		}
		check(t, d.Close())
	})
}
