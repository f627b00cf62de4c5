package vhost

import (
	"encoding/binary"
	"fmt"
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
	have    int // bytes of buf that have come
	buf     [headerSize + maxPayload]byte
}

// read reads one message, or the rest of one. The front-end sends a message's descriptors with its first byte. The caller has the turn.
func (m *message) read(c *net.UnixConn, t *shmem.Turn) error {
	if err := m.fill(c, t, headerSize); err != nil {
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
	if err := m.fill(c, t, headerSize+int(size)); err != nil {
		return err
	}
	m.payload = m.buf[headerSize:m.have]
	return nil
}

// fill reads up to n bytes of the message in all.
func (m *message) fill(c *net.UnixConn, t *shmem.Turn, n int) error {
	for m.have < n {
		most := 0
		if m.have == 0 {
			most = maxRegions
		}
		k, files, err := shmem.ReceiveFiles(c, t, m.buf[m.have:n], m.files, most)
		m.files = files
		m.have += k
		if err != nil {
			return err
		}
	}
	return nil
}

// close closes the descriptors that were not taken. The next message can be read.
func (m *message) close() { m.files, m.have = shmem.CloseFiles(m.files), 0 }

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
