package memif

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weirswitch/weir/dataplane/shmem"
	"github.com/weirswitch/weir/internal/socket"
)

// listener is the socket of one or several servers. Clients say which interface they want.
type listener struct {
	path   string
	socket *shmem.Listener
	turn   *shmem.Turn // of all interfaces, too
	begin  sync.Once
	theirs bool // another process has the socket still; guarded by listenersMu
	done   sync.WaitGroup
	slots  chan struct{} // taken by connections that have no interface yet
	stop   chan struct{} // closed when no interface is left

	mu      sync.Mutex
	devices map[uint32]*Device
	waiting []*net.UnixConn // connections that have no interface yet, the oldest first
	closed  bool            // no interface is left
}

// maxWaiting bounds the connections of a socket that have said nothing yet. The next one takes the place of the oldest, so a client that says nothing keeps no other one out.
const maxWaiting = 16

// listeners are those of this process, by path: the interfaces of a socket are opened one by one.
var (
	listeners   = map[string]*listener{}
	listenersMu sync.Mutex
)

// listen adds a server to its socket.
func listen(d *Device) error {
	listenersMu.Lock()
	defer listenersMu.Unlock()
	path := d.config.Socket
	l := listeners[path]
	if l == nil {
		if err := socket.RemoveStale(path); err != nil {
			return err
		}
		s, err := shmem.Listen("unixpacket", path)
		if err != nil {
			return fmt.Errorf("listen for clients on %s: %w", path, err)
		}
		l = newListener(path, s)
	}
	return l.enter(d)
}

// newListener lists a listener. The caller has listenersMu.
func newListener(path string, s *shmem.Listener) *listener {
	l := &listener{path: path, socket: s, turn: shmem.NewTurn(), slots: make(chan struct{}, maxWaiting), stop: make(chan struct{}), devices: map[uint32]*Device{}}
	listeners[path] = l
	return l
}

// enter adds an interface.
func (l *listener) enter(d *Device) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.devices[d.config.ID] != nil {
		return fmt.Errorf("socket %s has an interface %d already: give the other one another id", l.path, d.config.ID)
	}
	l.devices[d.config.ID] = d
	d.listener, d.turn = l, l.turn
	return nil
}

// run begins to accept connections, once.
func (l *listener) run() {
	l.begin.Do(func() {
		listenersMu.Lock()
		l.theirs = false
		listenersMu.Unlock()
		l.done.Go(l.accept)
	})
}

// leave removes a server, and closes the socket behind the last one.
func (l *listener) leave(d *Device) error {
	listenersMu.Lock()
	defer listenersMu.Unlock()
	l.mu.Lock()
	delete(l.devices, d.config.ID)
	last := len(l.devices) == 0
	l.mu.Unlock()
	if !last {
		return nil
	}
	delete(listeners, l.path)
	if !l.theirs && !l.turn.Left() {
		_ = os.Remove(l.path)
	}
	err := l.socket.SetDeadline(time.Now())
	close(l.stop)
	l.mu.Lock()
	l.closed = true
	for _, c := range l.waiting {
		shmem.HangUp(c)
	}
	l.mu.Unlock()
	l.done.Wait()
	shmem.Part(l.socket, nil)
	return err
}

func (l *listener) accept() {
	defer l.turn.Give()
	for l.turn.Take(); !l.turn.Left(); {
		c, err := l.socket.Accept(l.turn)
		select {
		case <-l.stop:
			if err == nil {
				shmem.Part(c, nil)
			}
			return
		default:
		}
		if err != nil {
			l.turn.Give()
			time.Sleep(firstWait) // too many open files, say: they pass
			l.turn.Take()
			continue
		}
		select {
		case l.slots <- struct{}{}:
		default:
			l.evict()
			l.turn.Give()
			select {
			case l.slots <- struct{}{}:
				l.turn.Take()
			case <-l.stop:
				l.turn.Take()
				shmem.Part(c, nil)
				return
			}
		}
		l.done.Go(func() { l.greet(c) })
	}
}

// evict ends the connection that has said nothing for longest.
func (l *listener) evict() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) != 0 {
		shmem.HangUp(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
}

// greet finds the interface that a client wants.
func (l *listener) greet(c *net.UnixConn) {
	defer l.turn.Give()
	l.turn.Take()
	l.mu.Lock()
	l.waiting = append(l.waiting, c)
	if l.closed {
		shmem.HangUp(c)
	}
	queues := 1
	for _, d := range l.devices {
		queues = max(queues, d.config.Queues)
	}
	l.mu.Unlock()
	m, d, err := l.meet(c, queues)
	if err == nil {
		m.close()
		<-l.slots
		// On a goroutine of the device's, which waits for it at its end.
		go func() {
			defer d.turn.Give()
			d.turn.Take()
			d.serve(&session{device: d, conn: c}, func(s *session) error { return s.accept(m) })
		}()
		return
	}
	l.listed(c)
	farewell(c, err)
	shmem.HangUp(c)
	gone := shmem.Part(c, m.files)
	go func() { // nothing waits for this but the slot's next user
		<-gone
		<-l.slots
	}()
}

// listed takes a connection off the list, and reports whether it was there.
func (l *listener) listed(c *net.UnixConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, c)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// meet says hello and attaches the connection to the interface of the answer.
func (l *listener) meet(c *net.UnixConn, queues int) (m *message, d *Device, err error) {
	m = new(message)
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return m, nil, err
	}
	h := newMessage(hello)
	h.putText(2, nameSize, "weir")
	h.put16(34, version)
	h.put16(36, version)
	h.put16(38, maxRegions-1)
	h.put16(40, uint16(queues-1)) // the highest index of rings to the client
	h.put16(42, uint16(queues-1)) // and from it
	h.bytes[44] = maxLog2
	if err := h.send(c, -1); err != nil {
		return m, nil, err
	}
	err = m.receive(c, l.turn)
	if !l.listed(c) {
		return m, nil, errors.New("others connected to this socket, and the client had said nothing for longest")
	}
	if err != nil {
		return m, nil, err
	}
	if m.kind() != initialize {
		return m, nil, fmt.Errorf("%s: want %s", m.kind(), initialize)
	}
	if v := m.get16(2); v != version {
		return m, nil, fmt.Errorf("version %#x: want %#x", v, version)
	}
	l.mu.Lock()
	d = l.devices[m.get32(4)]
	l.mu.Unlock()
	if d == nil {
		return m, nil, fmt.Errorf("there is no interface %d at this socket", m.get32(4))
	}
	if err := d.admit(m); err != nil {
		d.note(fmt.Errorf("a client was refused: %w", err))
		return m, nil, err
	}
	return m, d, d.attach(c)
}
