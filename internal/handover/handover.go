// Package handover is how a switch passes itself on to another process: messages with descriptors over a Unix socket
// (unix(7), SCM_RIGHTS). A message is a kind, values as JSON, bytes, and descriptors:
//
//	0      4      5         8               12            20       24
//	| WEIR | kind | version | bytes of JSON | of the rest | files  | JSON | rest |
//
// in network byte order. The version is that of everything that passes; another one is refused by the first message. All sizes are bounded, and
// whatever does not fit ends the connection.
package handover

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Version is that of the messages, and of the states of ports and stages within them. It grows with each change of any of them.
const Version = 4

// The bounds of a message.
const (
	maxJSON  = 16 << 20
	maxRest  = 1 << 30
	maxFiles = 4096
	// perCall is how many descriptors pass in one system call (SCM_MAX_FD of include/net/scm.h is 253).
	perCall = 128
)

const headLength = 24

var magic = [4]byte{'W', 'E', 'I', 'R'}

// Kind is what a message says.
type Kind uint8

// Refused carries the reason, a Refusal, and ends the connection; both sides may send it. All other kinds are the callers'.
const Refused Kind = 0

// Refusal is why one side does not go on.
type Refusal struct {
	Why string `json:"why"`
}

// ErrVersion is a message of another version.
var ErrVersion = errors.New("another version of the takeover's messages")

// RefusedError is what the other side has refused, in its words.
type RefusedError string

func (e RefusedError) Error() string { return string(e) }

// Conn is one end. Its methods are for one goroutine.
type Conn struct {
	*net.UnixConn
	version uint16 // as sent, and expected
}

// NewConn speaks over a connection, which is the Conn's.
func NewConn(c *net.UnixConn) *Conn { return &Conn{c, Version} }

// Speak has the Conn use another version, for tests of the refusal.
func (c *Conn) Speak(version uint16) { c.version = version }

// Send sends a message; v may be nil. The files stay the caller's.
func (c *Conn) Send(kind Kind, v any, rest []byte, files ...*os.File) error {
	text := []byte{}
	if v != nil {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return err
		}
	}
	if len(text) > maxJSON || len(rest) > maxRest || len(files) > maxFiles {
		return fmt.Errorf("a message of %d and %d bytes with %d descriptors is too large", len(text), len(rest), len(files))
	}
	head := make([]byte, headLength, headLength+len(text))
	copy(head, magic[:])
	head[4] = byte(kind)
	binary.BigEndian.PutUint16(head[6:], c.version)
	binary.BigEndian.PutUint32(head[8:], uint32(len(text)))
	binary.BigEndian.PutUint64(head[12:], uint64(len(rest)))
	binary.BigEndian.PutUint32(head[20:], uint32(len(files)))
	if _, err := c.Write(append(head, text...)); err != nil {
		return err
	}
	if len(rest) != 0 {
		if _, err := c.Write(rest); err != nil {
			return err
		}
	}
	for len(files) != 0 {
		n := min(len(files), perCall)
		fds := make([]int, n)
		for i, f := range files[:n] {
			fds[i] = int(f.Fd())
		}
		if _, _, err := c.WriteMsgUnix([]byte{byte(n)}, unix.UnixRights(fds...), nil); err != nil {
			return err
		}
		files = files[n:]
	}
	return nil
}

// Refuse sends why this side does not go on. An error is not worth a word: the other side sees the connection end.
func (c *Conn) Refuse(why error) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_ = c.Send(Refused, Refusal{why.Error()}, nil)
}

// Message is what was received. Its files are the receiver's.
type Message struct {
	Kind  Kind
	JSON  []byte
	Rest  []byte
	Files []*os.File
}

// Close closes the files that were not taken out of Files.
func (m *Message) Close() {
	for _, f := range m.Files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Decode decodes the message's values.
func (m *Message) Decode(v any) error {
	if err := json.Unmarshal(m.JSON, v); err != nil {
		return fmt.Errorf("message %d: %w", m.Kind, err)
	}
	return nil
}

// Receive receives the next message, which must be of a kind; a Refused one is returned as a RefusedError.
func (c *Conn) Receive(want Kind) (*Message, error) {
	m, err := c.Next()
	if err != nil {
		return nil, err
	}
	if m.Kind != want {
		m.Close()
		return nil, fmt.Errorf("message %d came, and not %d", m.Kind, want)
	}
	return m, nil
}

// Next receives the next message of any kind.
func (c *Conn) Next() (*Message, error) {
	head := make([]byte, headLength)
	if _, err := io.ReadFull(c, head); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if [4]byte(head) != magic {
		return nil, errors.New("what came is no message of a takeover")
	}
	if v := binary.BigEndian.Uint16(head[6:]); v != c.version {
		return nil, fmt.Errorf("%w: %d there, %d here: stop the old switch and start the new one", ErrVersion, v, c.version)
	}
	m := &Message{Kind: Kind(head[4])}
	text, rest, files := binary.BigEndian.Uint32(head[8:]), binary.BigEndian.Uint64(head[12:]), binary.BigEndian.Uint32(head[20:])
	if text > maxJSON || rest > maxRest || files > maxFiles {
		return nil, fmt.Errorf("a message of %d and %d bytes with %d descriptors is too large", text, rest, files)
	}
	var err error
	if m.JSON, err = c.read(uint64(text)); err != nil {
		return nil, err
	}
	if m.Rest, err = c.read(rest); err != nil {
		return nil, err
	}
	for len(m.Files) < int(files) {
		if err := c.readFiles(m, int(files)-len(m.Files)); err != nil {
			m.Close()
			return nil, err
		}
	}
	if m.Kind == Refused {
		m.Close()
		var r Refusal
		if err := m.Decode(&r); err != nil {
			return nil, err
		}
		return nil, RefusedError(r.Why)
	}
	return m, nil
}

// read reads n bytes; memory grows with what comes, not with what is announced.
func (c *Conn) read(n uint64) ([]byte, error) {
	const step = 1 << 20
	var all []byte
	for n != 0 {
		k := min(n, step)
		at := len(all)
		all = append(all, make([]byte, k)...)
		if _, err := io.ReadFull(c, all[at:]); err != nil {
			return nil, err
		}
		n -= k
	}
	return all, nil
}

func (c *Conn) readFiles(m *Message, left int) error {
	var one [1]byte
	rights := make([]byte, unix.CmsgSpace(4*perCall))
	n, rightsLength, flags, _, err := c.ReadMsgUnix(one[:], rights)
	if err != nil {
		return err
	}
	received, err := files(rights[:rightsLength])
	m.Files = append(m.Files, received...)
	switch {
	case err != nil:
		return err
	case n != 1 || int(one[0]) != len(received) || len(received) == 0 || len(received) > left || flags&unix.MSG_CTRUNC != 0:
		return fmt.Errorf("%d descriptors came, and not %d: is the limit of open files reached (ulimit -n)?", len(received), one[0])
	}
	return nil
}

func files(rights []byte) (all []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // not rights
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd) // ReadMsgUnix asks for MSG_CMSG_CLOEXEC; this is for kernels of other systems
			all = append(all, os.NewFile(uintptr(fd), "handover"))
		}
	}
	return all, nil
}
