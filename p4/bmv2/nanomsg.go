package bmv2

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// BMv2 speaks nanomsg's scalability protocols over Unix sockets: PAIR for packets, PUB for
// what it has learned. On a connection each side sends a header of eight bytes, and then
// messages:
//
//	| 0 'S' 'P' 0 | protocol (16) | reserved (16) |     header
//	| 1 | length (64) | content |                       message
//
// as nanomsg's documents "SP TCP mapping" and "SP IPC mapping" have it, numbers with the most
// significant byte first.
const (
	protocolPair = 0x10
	protocolPub  = 0x20
	protocolSub  = 0x21
)

// maxMessage is far more than a packet, or a buffer of learned samples.
const maxMessage = 1 << 20

// messages is a connection that carries whole messages. One goroutine may send while
// another receives.
type messages struct {
	conn net.Conn
	in   *bufio.Reader
	send sync.Mutex
	out  []byte
}

// dialMessages connects to a socket at path as own, whose other end must be peer. The
// switch may take a moment to make the socket.
func dialMessages(path string, own, peer uint16, wait time.Duration) (*messages, error) {
	var conn net.Conn
	var err error
	for deadline := time.Now().Add(wait); ; time.Sleep(5 * time.Millisecond) {
		if conn, err = net.Dial("unix", path); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("connect to the switch's socket: %w", err)
		}
	}
	m := &messages{conn: conn, in: bufio.NewReaderSize(conn, 1<<16)}
	if err := m.greet(own, peer, wait); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to the switch's socket %s: %w", path, err)
	}
	return m, nil
}

func (m *messages) greet(own, peer uint16, wait time.Duration) error {
	if err := m.conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	hello := [8]byte{0, 'S', 'P', 0, byte(own >> 8), byte(own)}
	if _, err := m.conn.Write(hello[:]); err != nil {
		return err
	}
	var answer [8]byte
	if _, err := io.ReadFull(m.in, answer[:]); err != nil {
		return err
	}
	if want := [8]byte{0, 'S', 'P', 0, byte(peer >> 8), byte(peer)}; answer != want {
		return fmt.Errorf("the switch greets with % x, want % x", answer, want)
	}
	return m.conn.SetDeadline(time.Time{})
}

// Send sends the parts as one message.
func (m *messages) Send(parts ...[]byte) error {
	m.send.Lock()
	defer m.send.Unlock()
	length := 0
	for _, p := range parts {
		length += len(p)
	}
	m.out = append(m.out[:0], 1)
	m.out = binary.BigEndian.AppendUint64(m.out, uint64(length))
	for _, p := range parts {
		m.out = append(m.out, p...)
	}
	_, err := m.conn.Write(m.out)
	return err
}

// Receive waits for a message.
func (m *messages) Receive() ([]byte, error) {
	var head [9]byte
	if _, err := io.ReadFull(m.in, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint64(head[1:])
	if head[0] != 1 || length > maxMessage {
		return nil, errors.New("the switch sends what is no message")
	}
	content := make([]byte, length)
	_, err := io.ReadFull(m.in, content)
	return content, err
}

func (m *messages) Close() error { return m.conn.Close() }
