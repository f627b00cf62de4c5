package memif

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// kind is what a message says.
type kind uint16

const (
	ack kind = iota + 1
	hello
	initialize
	addRegion
	addRing
	connect
	connected
	disconnect
)

var kindNames = [...]string{"nothing", "ack", "hello", "init", "add region", "add ring", "connect", "connected", "disconnect"}

func (k kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("message %d", uint16(k))
}

// version is that of the protocol, 2.0: major in the upper byte, minor in the lower.
const version = 0x0200

// messageSize is that of each message: its kind, its fields without padding, zeros.
const messageSize = 128

// The lengths of texts, in bytes.
const (
	nameSize   = 32
	SecretSize = 24 // of a secret
	reasonSize = 96
)

// message is one message, with its descriptor where it has one.
type message struct {
	bytes [messageSize]byte
	files []int // of a message that was received; those left are closed by close
}

func newMessage(k kind) *message {
	m := new(message)
	m.put16(0, uint16(k))
	return m
}

func (m *message) kind() kind             { return kind(m.get16(0)) }
func (m *message) get16(at int) uint16    { return binary.LittleEndian.Uint16(m.bytes[at:]) }
func (m *message) get32(at int) uint32    { return binary.LittleEndian.Uint32(m.bytes[at:]) }
func (m *message) get64(at int) uint64    { return binary.LittleEndian.Uint64(m.bytes[at:]) }
func (m *message) put16(at int, v uint16) { binary.LittleEndian.PutUint16(m.bytes[at:], v) }
func (m *message) put32(at int, v uint32) { binary.LittleEndian.PutUint32(m.bytes[at:], v) }
func (m *message) put64(at int, v uint64) { binary.LittleEndian.PutUint64(m.bytes[at:], v) }

// text returns a text that ends at a zero or with its field.
func (m *message) text(at, size int) string {
	b := m.bytes[at : at+size]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// putText sets a text, which ends with a zero where there is room.
func (m *message) putText(at, size int, s string) { copy(m.bytes[at:at+size-1], s) }

// The time that a peer has for each step before it is connected, and to take a message from its socket.
const patience = 10 * time.Second

// send sends a message, with a descriptor if file is not negative.
func (m *message) send(c *net.UnixConn, file int) error {
	var oob []byte
	if file >= 0 {
		oob = unix.UnixRights(file)
	}
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	n, _, err := c.WriteMsgUnix(m.bytes[:], oob, nil)
	if err == nil && n != messageSize {
		err = io.ErrShortWrite
	}
	return err
}

// errDisconnected is a peer's disconnect message.
var errDisconnected = errors.New("the peer disconnected")

// receive reads the next message. One that ends the connection is an error. The caller has the turn.
func (m *message) receive(c *net.UnixConn, t *shmem.Turn) error {
	m.close() // what came with the message before and was not taken
	m.bytes = [messageSize]byte{}
	n, files, err := shmem.ReceiveFiles(c, t, m.bytes[:], m.files[:0], 1)
	if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
		// A reader that finds no message just before the peer sends its last one and closes is told of the end first
		// (unix_dgram_recvmsg in net/unix/af_unix.c).
		n, files, err = shmem.ReceiveFiles(c, t, m.bytes[:], files, 1)
	}
	m.files = files
	switch {
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	case n != messageSize:
		return fmt.Errorf("a message of %d bytes: want %d", n, messageSize)
	case m.kind() == disconnect:
		return fmt.Errorf("%w: %q", errDisconnected, m.text(6, reasonSize))
	}
	return nil
}

// file returns the message's one descriptor, which stays the message's until take.
func (m *message) file() (int, error) {
	if len(m.files) != 1 {
		return -1, fmt.Errorf("%s with %d descriptors: want 1", m.kind(), len(m.files))
	}
	return m.files[0], nil
}

// take leaves the descriptors to the caller.
func (m *message) take() { m.files = m.files[:0] }

// close closes the descriptors that were not taken.
func (m *message) close() { m.files = shmem.CloseFiles(m.files) }
