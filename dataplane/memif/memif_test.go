package memif

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem/shmemtest"
)

var frame = bytes.Repeat([]byte("a packet of a container "), 5)

// exchange passes the n-th packet each way.
func exchange(t *testing.T, d *Device, p *peer, n uint16) {
	t.Helper()
	slot := int(n % testSize)
	at := buffersAt + 2048*slot
	copy(p.bytes[at:], frame)
	p.describe(0, slot, 0, 0, uint32(len(frame)), at)
	p.setHead(0, n+1)
	if b, ok := get(d.Receive(0)); !ok || !bytes.Equal(b, frame) {
		t.Fatalf("received %q (%t)", b, ok)
	}
	if got := p.tail(0); got != n+1 {
		t.Fatalf("%d descriptors were taken, want %d", got, n+1)
	}
	p.describe(1, slot, 0, 0, 2048, at+2048*testSize)
	p.setHead(1, n+1)
	if !put(d.Transmit(0), frame) || p.tail(1) != n+1 {
		t.Fatalf("the packet was not sent: tail %d", p.tail(1))
	}
	if got := p.bytes[at+2048*testSize:][:len(frame)]; !bytes.Equal(got, frame) {
		t.Fatalf("sent %q", got)
	}
}

// TestInterfaces: two interfaces of a socket have their own peers, in turns, and nothing leaks: no descriptor, no mapping.
func TestInterfaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memif.sock")
	devices := []*Device{newDevice(t, Config{Socket: path, ID: 3, Secret: "three"}), newDevice(t, Config{Socket: path, ID: 9})}
	if _, err := New(Config{Socket: path, ID: 9, Server: true}); err == nil {
		t.Error("two interfaces have the same number")
	}
	count := func() (files, maps int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), strings.Count(string(text), "memfd:memif-peer")
	}
	var files, maps int
	for round := range 100 {
		three, nine := dial(t, path), dial(t, path)
		nine.up(9, "")
		three.up(3, "three")
		for n := range uint16(2 * testSize) {
			exchange(t, devices[0], three, n)
			exchange(t, devices[1], nine, n)
		}
		nine.close()
		awaitGone(devices[1])
		exchange(t, devices[0], three, 2*testSize)
		three.close()
		awaitGone(devices[0])
		if round == 0 {
			files, maps = count()
		}
	}
	if f, m := count(); f != files || m != maps {
		t.Errorf("%d descriptors and %d mappings, and after the first round %d and %d", f, m, files, maps)
	}
	if s := devices[0].Status(); s.Connections != 100 || s.Error != "the peer went away" {
		t.Errorf("%+v", s)
	}
}

// TestRefusals: each of these messages ends the connection with a reason, and the next peer is served.
func TestRefusals(t *testing.T) {
	d := newDevice(t, Config{ID: 5, Secret: "secret"})
	begin := func(p *peer) {
		p.read()
		p.send(initMessage(5, "secret"), -1)
		p.read()
	}
	withRegion := func(p *peer) {
		begin(p)
		p.send(regionMessage(0, testMemory), p.file)
		p.read()
	}
	for _, c := range []struct {
		name string
		do   func(p *peer)
		want string
	}{
		{"another version", func(p *peer) {
			m := initMessage(5, "secret")
			m.put16(2, 0x300)
			p.send(m, -1)
		}, "version 0x300: want 0x200"},
		{"no interface", func(p *peer) { p.send(initMessage(6, "secret"), -1) }, "no interface 6 at this socket"},
		{"no secret", func(p *peer) { p.send(initMessage(5, ""), -1) }, "the secret is missing"},
		{"a longer secret", func(p *peer) { p.send(initMessage(5, "secrets"), -1) }, "another one"},
		{"another mode", func(p *peer) {
			m := initMessage(5, "secret")
			m.bytes[8] = 1
			p.send(m, -1)
		}, "mode 1: want 0"},
		{"a region first", func(p *peer) { p.send(regionMessage(0, testMemory), p.file) }, "add region: want init"},
		{"a short message", func(p *peer) { _, _ = p.conn.Write(make([]byte, 127)) }, "a message of 127 bytes: want 128"},
		{"an unknown message", func(p *peer) { begin(p); p.send(newMessage(77), -1) }, "message 77 before the connection"},
		{"a region without file", func(p *peer) { begin(p); p.send(regionMessage(0, testMemory), -1) }, "add region with 0 descriptors"},
		{"a region beyond its file", func(p *peer) { begin(p); p.send(regionMessage(0, testMemory+1), p.file) }, "of a file of 131072 bytes"},
		{"the second region first", func(p *peer) { begin(p); p.send(regionMessage(1, testMemory), p.file) }, "region 1 behind 0 regions"},
		{"a ring that notifies by a file", func(p *peer) { withRegion(p); p.send(ringMessage(0, 0, 0, testLog2), p.file) }, "want an eventfd"},
		{"a ring in no region", func(p *peer) { withRegion(p); p.send(ringMessage(0, 1, 0, testLog2), p.events[0]) }, "a ring in region 1 of 1"},
		{"a ring beyond its region", func(p *peer) {
			withRegion(p)
			p.send(ringMessage(0, 0, testMemory-ringStride+16, testLog2), p.events[0])
		}, "of a region of 131072 bytes"},
		{"a ring off its place", func(p *peer) { withRegion(p); p.send(ringMessage(0, 0, 8, testLog2), p.events[0]) }, "descriptors at 8 of"},
		{"a ring of too many", func(p *peer) { withRegion(p); p.send(ringMessage(0, 0, 0, 15), p.events[0]) }, "at most 2^14"},
		{"a ring without cookie", func(p *peer) {
			withRegion(p)
			p.bytes[0] ^= 1
			p.send(ringMessage(0, 0, 0, testLog2), p.events[0])
		}, "want 0x3e31f20"},
		{"the same ring twice", func(p *peer) {
			withRegion(p)
			p.send(ringMessage(0, 0, 0, testLog2), p.events[0])
			p.read()
			p.send(ringMessage(0, 0, 0, testLog2), p.events[0])
		}, "ring 0 is there already"},
		{"a ring once connected", func(p *peer) {
			p.up(5, "secret")
			p.send(ringMessage(0, 0, 0, testLog2), p.events[0])
		}, "add ring while connected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := dial(t, d.config.Socket)
			c.do(p)
			if got := p.dismissed(); !strings.Contains(got, c.want) {
				t.Errorf("reason %q, want %q", got, c.want)
			}
			awaitGone(d)
		})
	}
	p := dial(t, d.config.Socket)
	p.up(5, "secret")
	late := dial(t, d.config.Socket)
	late.send(initMessage(5, "secret"), -1)
	if got := late.dismissed(); got != "interface 5 has a peer already" {
		t.Errorf("a second peer: %q", got)
	}
	exchange(t, d, p, 0)
}

// TestFaults: each of these rings is a fault by its name. Those of one packet cost that packet, the others the connection.
func TestFaults(t *testing.T) {
	d := newDevice(t, Config{})
	for _, c := range []struct {
		name   string
		do     func(p *peer)
		sends  bool // by the switch
		fault  Fault
		breaks bool
	}{
		{"a head beyond the ring", func(p *peer) { p.setHead(0, testSize+1) }, false, FaultIndex, true},
		{"a head that ran backwards", func(p *peer) { p.setHead(0, 0xffff) }, false, FaultIndex, true},
		{"a head to send beyond the ring", func(p *peer) { p.setHead(1, 0x8000) }, true, FaultIndex, true},
		{"a chain without end", func(p *peer) { p.describe(0, 0, 1, 0, 100, buffersAt); p.setHead(0, 1) }, false, FaultChain, false},
		{"a packet in no region", func(p *peer) { p.describe(0, 0, 0, 1, 100, buffersAt); p.setHead(0, 1) }, false, FaultRegion, false},
		{"a packet beyond its region", func(p *peer) { p.describe(0, 0, 0, 0, 100, testMemory-99); p.setHead(0, 1) }, false, FaultAddress, false},
		{"a length that overflows", func(p *peer) { p.describe(0, 0, 0, 0, 0xffffffff, 0xffffffff); p.setHead(0, 1) }, false, FaultAddress, false},
		{"a short packet", func(p *peer) { p.describe(0, 0, 0, 0, 13, buffersAt); p.setHead(0, 1) }, false, FaultShort, false},
		{"a long packet", func(p *peer) { p.describe(0, 0, 0, 0, 4097, buffersAt); p.setHead(0, 1) }, false, FaultLong, false},
		{"a buffer in no region", func(p *peer) { p.describe(1, 0, 0, 9, 2048, buffersAt); p.setHead(1, 1) }, true, FaultRegion, true},
		{"a buffer beyond its region", func(p *peer) { p.describe(1, 0, 0, 0, 2048, testMemory-1); p.setHead(1, 1) }, true, FaultAddress, true},
		{"an empty buffer", func(p *peer) { p.describe(1, 0, 0, 0, 0, buffersAt); p.setHead(1, 1) }, true, FaultRoom, true},
		{"memory that shrinks", func(p *peer) {
			p.setHead(0, 1)
			if err := unix.Ftruncate(p.file, 0); err != nil {
				t.Fatal(err)
			}
		}, false, FaultMemory, true},
		{"buffers that shrink", func(p *peer) {
			p.describe(1, 0, 0, 0, 2048, 1<<16)
			p.setHead(1, 1)
			if err := unix.Ftruncate(p.file, 1<<15); err != nil {
				t.Fatal(err)
			}
		}, true, FaultMemory, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := dial(t, d.config.Socket)
			p.up(0, "")
			q := d.Receive(0)
			if c.sends {
				q = d.Transmit(0)
			}
			before, all := q.Faults.Count(c.fault), sumOf(&q.Faults)
			c.do(p)
			if c.sends {
				if put(q, frame) {
					t.Error("a packet was sent")
				}
			} else if b, _ := get(q); len(b) != 0 {
				t.Errorf("received %q", b)
			}
			if n := q.Faults.Count(c.fault) - before; n != 1 || sumOf(&q.Faults) != all+1 {
				t.Errorf("%d faults of %s, %d in all; want 1", n, c.fault, sumOf(&q.Faults)-all)
			}
			if c.breaks {
				if got := p.dismissed(); !strings.Contains(got, "cannot be followed any more") {
					t.Errorf("reason %q", got)
				}
			} else {
				p.setHead(1, 1)
				put(d.Transmit(0), frame)
				exchange(t, d, p, 1)
			}
			p.close()
			awaitGone(d)
		})
	}
}

// TestGarbage: whatever peers write into the rings, as clients and as servers, the switch neither crashes nor loops, and the next
// peer is served.
func TestGarbage(t *testing.T) {
	rounds := garbageRounds(t)
	random := rand.New(rand.NewPCG(18, 1))
	d := newDevice(t, Config{})
	var p *peer
	connections := 0
	for range rounds {
		if p == nil {
			p = dial(t, d.config.Socket)
			p.up(0, "")
			connections++
		}
		garble(random, p.bytes[:buffersAt])
		for range 3 {
			get(d.Receive(0))
			put(d.Transmit(0), frame)
		}
		if r := d.Receive(0).Acquire(); r != nil { // what a worker does that falls asleep
			r.Arm()
			d.Receive(0).Release()
		}
		if broken(d) {
			p.dismissed()
			p.close()
			awaitGone(d)
			p = nil
		}
	}
	if p != nil {
		p.close()
		awaitGone(d)
	}
	t.Logf("%d rounds, %d connections, faults %v %v", rounds, connections, names(&d.Receive(0).Faults), names(&d.Transmit(0).Faults))
	if connections < 2 || sumOf(&d.Receive(0).Faults) == 0 || sumOf(&d.Transmit(0).Faults) == 0 {
		t.Error("the garbage has no effect")
	}
	p = dial(t, d.config.Socket)
	p.up(0, "")
	exchange(t, d, p, 0)
}

// TestGarbageClient is the same for our memory as a client, which the server writes to.
func TestGarbageClient(t *testing.T) {
	rounds := garbageRounds(t)
	random := rand.New(rand.NewPCG(18, 2))
	server := newDevice(t, Config{})
	connections, faults := 0, [2]map[string]uint64{{}, {}}
	for done := 0; done < rounds; connections++ {
		client, err := New(Config{Socket: server.config.Socket, Queues: 1, RingSize: testSize})
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(2 * time.Minute); !client.Status().Connected; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("no connection %d: %+v", connections, client.Status())
			}
		}
		for ; done < rounds && !broken(client); done++ {
			if r := client.Receive(0).Acquire(); r != nil {
				garble(random, r.memory.regions[0])
				client.Receive(0).Release()
			}
			for range 3 {
				get(client.Receive(0))
				put(client.Transmit(0), frame)
			}
		}
		for i, q := range []*Queue{client.Receive(0), client.Transmit(0)} {
			for name, n := range names(&q.Faults) {
				faults[i][name] += n
			}
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		awaitGone(server)
	}
	t.Logf("%d rounds, %d connections, faults %v %v", rounds, connections, faults[0], faults[1])
	if len(faults[0]) == 0 || len(faults[1]) == 0 || connections < 2 {
		t.Error("the garbage has no effect")
	}
}

// TestSilentClients: clients that say nothing keep no other one out.
func TestSilentClients(t *testing.T) {
	d := newDevice(t, Config{ID: 5})
	for range 3 * maxWaiting {
		dial(t, d.config.Socket)
	}
	p := dial(t, d.config.Socket)
	p.up(5, "")
	exchange(t, d, p, 0)
}

// TestMappedAtMost: regions are refused beyond the bound of what is mapped, also if whole pages have exceeded it.
func TestMappedAtMost(t *testing.T) {
	file := func(size int64, flags int) int {
		fd, err := unix.MemfdCreate("memif-peer", unix.MFD_CLOEXEC|flags)
		if err != nil {
			t.Skipf("make a file in huge pages: %v", err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	var m memory
	defer func() {
		if err := m.unmap(); err != nil {
			t.Error(err)
		}
	}()
	if err := m.add(file(maxMemory, 0), maxMemory-4096); err != nil {
		t.Fatal(err)
	}
	if err := m.add(file(2<<20, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB), 4096); err != nil {
		t.Fatal(err)
	}
	if err := m.add(file(1<<40, 0), 1<<40); err == nil || !strings.Contains(err.Error(), "are mapped") {
		t.Errorf("a terabyte beyond the bound: %v", err)
	}
}

// TestLingeringFiles: what a client passes may take as long to close as it likes, wherever it is when the connection ends. It is refused, and
// the device ends at once.
func TestLingeringFiles(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(p *peer, file int)
		want string // of the disconnect message; empty: any, or none
	}{
		{"with the first message", func(p *peer, file int) { p.send(initMessage(0, ""), file) }, "is no memory"},
		{"as a region", func(p *peer, file int) {
			p.send(initMessage(0, ""), -1)
			p.send(regionMessage(0, testMemory), file)
		}, "is no memory"},
		{"as a notification", func(p *peer, file int) {
			p.send(initMessage(0, ""), -1)
			p.send(regionMessage(0, testMemory), p.file)
			p.send(ringMessage(0, 0, 0, testLog2), file)
		}, "is no memory"},
		{"unread", func(p *peer, file int) {
			p.send(newMessage(77), -1)
			p.send(regionMessage(0, testMemory), file)
		}, ""}, // a socket that is closed with messages unread may lose the last one
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "memif.sock")
			d, err := New(Config{Socket: path, Server: true, Queues: 1})
			if err != nil {
				t.Fatal(err)
			}
			d.listener.mu.Lock() // nothing is read before the device has the last descriptor of the socket
			p := dial(t, path)
			file := shmemtest.Linger(t)
			c.send(p, file)
			_ = unix.Close(file)
			d.listener.mu.Unlock()
			if c.want != "" {
				if got := p.dismissed(); !strings.Contains(got, c.want) {
					t.Errorf("reason %q, want %q", got, c.want)
				}
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// garbageRounds is how often the tests of garbage write some: WEIR_GARBAGE, if it is set (make garbage).
func garbageRounds(t *testing.T) int {
	if text := os.Getenv("WEIR_GARBAGE"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("WEIR_GARBAGE: %v", err)
		}
		return n
	}
	if testing.Short() {
		return 5_000
	}
	return 50_000
}

// broken reports whether one of the rings has ended.
func broken(d *Device) bool {
	for _, q := range []*Queue{d.Receive(0), d.Transmit(0)} {
		if q.Acquire() == nil {
			return true
		}
		q.Release()
	}
	return false
}

func names(f *Faults) map[string]uint64 {
	m := map[string]uint64{}
	f.Each(func(f Fault, n uint64) { m[f.String()] = n })
	return m
}

// garble changes some fields: heads mostly by a little, so that rings stay alive for a while.
func garble(random *rand.Rand, b []byte) {
	for ring := range 2 {
		r := b[ring*ringStride:]
		r[6] += byte(random.UintN(4))  // a client's
		r[64] += byte(random.UintN(3)) // a server's
		if random.UintN(50) == 0 {
			r[6+random.UintN(2)] = byte(random.Uint32())
		}
		if random.UintN(50) == 0 {
			r[64+random.UintN(2)] = byte(random.Uint32())
		}
		for range 4 {
			at := ringHeader + random.UintN(descBytes*testSize)
			if random.UintN(2) == 0 {
				at = at &^ 15 // flags
			}
			r[at] = byte(random.Uint32())
			if random.UintN(3) != 0 {
				r[at] &= 1
			}
		}
	}
}

func sumOf(c *Faults) (sum uint64) {
	c.Each(func(_ Fault, n uint64) { sum += n })
	return sum
}
