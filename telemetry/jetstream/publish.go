package jetstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/telemetry/record"
)

// Errors of an Ack that a publisher branches on.
var (
	// ErrNoStream: the servers answer, but none of them keeps the stream, or it
	// has no leader just now.
	ErrNoStream = errors.New("no server keeps the stream " + Stream + ": start weir collect, or look at the cluster's health")
	// ErrTooLarge: the servers, or the stream, take no message of this size.
	ErrTooLarge = errors.New("larger than the servers take: raise max_payload in their configuration, or make the records smaller")
)

// ErrDisconnected: there is no connection now, but there will be.
var ErrDisconnected = errors.New("there is no connection")

// Refusal is a server's answer that it did not keep a message.
type Refusal struct {
	Code   int    // as of HTTP: 400 a fault of the message, 503 of the server
	Number uint16 // of the error in NATS' list
	Text   string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the server refused a record: %s (%d)", r.Text, r.Number)
}

// Temporary reports whether the same message may be kept later.
func (r *Refusal) Temporary() bool { return r.Code != 400 }

// Ack is what a server said of one message.
type Ack struct {
	Number    uint64 // the publisher's own
	Sequence  uint64 // in the stream
	Duplicate bool   // the stream had it already
	Err       error  // ErrNoStream, ErrTooLarge or a *Refusal: it was not kept
}

// Publisher publishes records, and does not wait for what becomes of them.
type Publisher struct {
	nc    *nats.Conn
	acks  *nats.Subscription
	inbox string // ends with a dot
}

// NewPublisher returns a publisher over a connection, which may be made later or break in between.
// acked is called by one goroutine of the connection's, and must not wait.
func NewPublisher(nc *nats.Conn, acked func(Ack)) (*Publisher, error) {
	p := &Publisher{nc: nc, inbox: nc.NewInbox() + "."}
	var err error
	p.acks, err = nc.Subscribe(p.inbox+"*", func(m *nats.Msg) {
		if a, ok := p.parse(m); ok {
			acked(a)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for acknowledgements: %w", err)
	}
	return p, nil
}

// Close ends the acks; the connection stays.
func (p *Publisher) Close() error { return p.acks.Unsubscribe() }

// Publish sends a record under a number, which its Ack will have. No
// acknowledgement may ever come: whoever published decides when to do it again. On
// error nothing was sent; ErrTooLarge lasts, others pass.
func (p *Publisher) Publish(number uint64, h *record.Header, encoded []byte) error {
	m := &nats.Msg{
		Subject: Subject(h),
		Reply:   p.inbox + strconv.FormatUint(number, 10),
		Header:  nats.Header{jetstream.MsgIDHeader: []string{ID(encoded, h.Switch)}},
		Data:    encoded,
	}
	err := p.nc.PublishMsg(m)
	var broken net.Error
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("a %s record of %d bytes is %w (%d bytes at most)", h.Kind, len(encoded), ErrTooLarge, p.nc.MaxPayload())
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return ErrDisconnected
	case errors.As(err, &broken):
		// The library would find out by its pings.
		return errors.Join(err, p.nc.ForceReconnect())
	}
	return err
}

// statusHeader has the answer 503 where nobody listens to a subject.
const (
	statusHeader = "Status"
	noResponders = "503"
)

func (p *Publisher) parse(m *nats.Msg) (a Ack, ok bool) {
	number, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.inbox), 10, 64)
	if err != nil {
		return a, false
	}
	a.Number = number
	if len(m.Data) == 0 && m.Header.Get(statusHeader) == noResponders {
		a.Err = ErrNoStream
		return a, true
	}
	a.fill(m.Data)
	return a, true
}

// maxSizeNumber is NATS' error of a message that exceeds the stream's own bound.
const maxSizeNumber = 10054

// fill takes the JSON of an acknowledgement.
func (a *Ack) fill(data []byte) {
	var answer struct {
		Stream    string
		Seq       uint64
		Duplicate bool
		Error     *struct {
			Code        int
			ErrCode     uint16 `json:"err_code"`
			Description string
		}
	}
	err := json.Unmarshal(data, &answer)
	switch {
	case err != nil || answer.Error == nil && answer.Stream == "":
		a.Err = &Refusal{Code: 503, Text: "its answer is no acknowledgement"}
	case answer.Error != nil && answer.Error.ErrCode == maxSizeNumber:
		a.Err = fmt.Errorf("a record is %w", ErrTooLarge)
	case answer.Error != nil:
		a.Err = &Refusal{answer.Error.Code, answer.Error.ErrCode, answer.Error.Description}
	default:
		a.Sequence, a.Duplicate = answer.Seq, answer.Duplicate
	}
}
