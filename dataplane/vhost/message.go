package vhost

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// request is the kind of a message.
type request uint32

const (
	getFeatures         request = 1
	setFeatures         request = 2
	setOwner            request = 3
	resetOwner          request = 4
	setMemTable         request = 5
	setVringNum         request = 8
	setVringAddr        request = 9
	setVringBase        request = 10
	getVringBase        request = 11
	setVringKick        request = 12
	setVringCall        request = 13
	setVringErr         request = 14
	setLogBase          request = 6
	setLogFD            request = 7
	getProtocolFeatures request = 15
	setProtocolFeatures request = 16
	getQueueNum         request = 17
	setVringEnable      request = 18
	sendRARP            request = 19
	getInflightFD       request = 31
	setInflightFD       request = 32
	getMaxMemSlots      request = 36
	addMemReg           request = 37
	remMemReg           request = 38
)

// The flags of a message: in bits 0 and 1 the version, 1.
const (
	flagVersion   = 1
	flagReply     = 1 << 2
	flagNeedReply = 1 << 3
)

// The features of the protocol that a back-end can offer.
const (
	protocolMQ       = 1 << 0
	protocolLog      = 1 << 1 // LOG_SHMFD
	protocolReplyAck = 1 << 3
	protocolInflight = 1 << 12 // INFLIGHT_SHMFD
	protocolSlots    = 1 << 15 // CONFIGURE_MEM_SLOTS
)

// The bounds of a message.
const (
	headerSize = 12
	maxPayload = 512 // the longest that we know has 264 bytes
	maxRegions = 8   // of one message
	maxSlots   = 64  // regions that are added one by one
)

// message is what a front-end sent. The descriptors belong to whoever handles it, and those left are closed.
type message struct {
	request request
	flags   uint32
	payload []byte
	files   []int
	buf     [headerSize + maxPayload]byte
}

// read reads one message. The front-end sends a message's descriptors with its first byte.
func (m *message) read(c *net.UnixConn) error {
	n, files, err := shmem.ReceiveFiles(c, m.buf[:headerSize], m.files[:0], maxRegions)
	m.files = files
	switch {
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	}
	if err := m.readFull(c, m.buf[n:headerSize]); err != nil {
		return err
	}
	m.request = request(binary.LittleEndian.Uint32(m.buf[0:]))
	m.flags = binary.LittleEndian.Uint32(m.buf[4:])
	size := binary.LittleEndian.Uint32(m.buf[8:])
	if m.flags&3 != flagVersion {
		return fmt.Errorf("a message of version %d: want %d", m.flags&3, flagVersion)
	}
	if size > maxPayload {
		return fmt.Errorf("request %d of %d bytes: at most %d are known", m.request, size, maxPayload)
	}
	m.payload = m.buf[headerSize : headerSize+size]
	return m.readFull(c, m.payload)
}

// readFull reads the rest of a message, with which no descriptors come.
func (m *message) readFull(c *net.UnixConn, b []byte) error {
	for len(b) != 0 {
		n, files, err := shmem.ReceiveFiles(c, b, m.files, 0)
		m.files = files
		switch {
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		b = b[n:]
	}
	return nil
}

// close closes the descriptors that nobody took.
func (m *message) close() { m.files = shmem.CloseFiles(m.files) }

// takeFile returns the message's one descriptor.
func (m *message) takeFile() (int, error) {
	if len(m.files) != 1 {
		return -1, fmt.Errorf("request %d with %d descriptors: want 1", m.request, len(m.files))
	}
	fd := m.files[0]
	m.files = m.files[:0]
	return fd, nil
}

// number returns a payload of 64 bits.
func (m *message) number() (uint64, error) {
	if len(m.payload) < 8 {
		return 0, fmt.Errorf("request %d of %d bytes: want 8", m.request, len(m.payload))
	}
	return binary.LittleEndian.Uint64(m.payload), nil
}

// state returns a ring's number and a value of 32 bits.
func (m *message) state() (index, value uint32, err error) {
	v, err := m.number()
	return uint32(v), uint32(v >> 32), err
}

// reply answers with a number.
func (m *message) reply(c *net.UnixConn, v uint64) error {
	return m.answer(c, binary.LittleEndian.AppendUint64(nil, v))
}

// answer answers with a payload and descriptors, which stay the caller's.
func (m *message) answer(c *net.UnixConn, payload []byte, files ...int) error {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, headerSize+len(payload)), uint32(m.request))
	b = binary.LittleEndian.AppendUint32(b, flagVersion|flagReply)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	var oob []byte
	if len(files) != 0 {
		oob = unix.UnixRights(files...)
	}
	_, _, err := c.WriteMsgUnix(append(b, payload...), oob, nil)
	return err
}
