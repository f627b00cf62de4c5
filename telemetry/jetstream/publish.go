package jetstream

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/telemetry/record"
)

// Errors on which a publisher branches.
var (
	// ErrNoStream: the servers answer, but none of them keeps the stream, or it
	// has no leader just now.
	ErrNoStream = errors.New("no server keeps the stream " + Stream + ": start weir collect, or look at the cluster's health")
	// ErrTooLarge: the servers, or the stream, take no message of this size.
	ErrTooLarge = errors.New("larger than the servers take: raise max_payload in their configuration, or make the records smaller")
	// ErrDisconnected: there is no connection now, but there will be.
	ErrDisconnected = errors.New("there is no connection")
	// ErrRefused: the server did not keep a message for what it is; the same one will be refused again.
	ErrRefused = errors.New("the server refused a record")
)

// ackTimeout is when an acknowledgement is forgotten. Publish again much earlier.
const ackTimeout = time.Minute

// maxPending is more than callers have in flight, also if they publish all of it again several times before ackTimeout:
// they bound that themselves, and must not be made to wait.
const maxPending = 1 << 20

// Ack is what a server said of one message.
type Ack struct {
	Number    uint64 // the publisher's own
	Sequence  uint64 // in the stream
	Duplicate bool   // the stream had it already
	Err       error  // ErrNoStream, ErrTooLarge, ErrRefused, ErrDisconnected or another: it was not kept
}

// Publisher publishes records without waiting for the acknowledgements.
type Publisher struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	secret  Secret
	numbers sync.Map // from *nats.Msg, until it is acknowledged
}

// NewPublisher returns a publisher over a connection, which may be made later or break in between. What is published again, also by
// another publisher of the same secret, is recognised for some time (StreamConfig.Duplicates).
// acked is called by goroutines of the connection's, and must neither wait nor publish.
func NewPublisher(nc *nats.Conn, secret Secret, acked func(Ack)) (*Publisher, error) {
	p := &Publisher{nc: nc, secret: secret}
	take := func(m *nats.Msg, a Ack) {
		if number, ok := p.numbers.LoadAndDelete(m); ok && !errors.Is(a.Err, jetstream.ErrAsyncPublishTimeout) {
			a.Number = number.(uint64)
			acked(a)
		}
	}
	var err error
	p.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(ackTimeout), jetstream.WithPublishAsyncMaxPending(maxPending),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, ack *jetstream.PubAck) {
			take(m, Ack{Sequence: ack.Sequence, Duplicate: ack.Duplicate})
		}),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { take(m, Ack{Err: refusal(err)}) }))
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return p, nil
}

// Close ends the acks; the connection stays.
func (p *Publisher) Close() { p.js.CleanupPublisher() }

// Publish sends a record under a number, which its Ack will have. An acknowledgement may get lost: the caller
// decides when to publish again. On error nothing was sent; ErrTooLarge is permanent, others pass.
func (p *Publisher) Publish(number uint64, h *record.Header, encoded []byte) error {
	m := &nats.Msg{Subject: Subject(h), Data: encoded}
	p.numbers.Store(m, number)
	_, err := p.js.PublishMsgAsync(m, jetstream.WithMsgID(ID(p.secret, encoded, h.Switch)), jetstream.WithRetryAttempts(0))
	if err == nil {
		return nil
	}
	p.numbers.Delete(m)
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

// maxSizeNumber is NATS' error of a message that exceeds the stream's own bound.
const maxSizeNumber = 10054

// refusal is the library's error of a message that was not kept, as an Ack has it.
func refusal(err error) error {
	var answer *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return ErrNoStream
	case errors.Is(err, nats.ErrDisconnected):
		return ErrDisconnected
	case !errors.As(err, &answer):
		return err
	case answer.ErrorCode == maxSizeNumber:
		return fmt.Errorf("a record is %w", ErrTooLarge)
	case answer.Code == 400: // as of HTTP, the request is at fault
		return fmt.Errorf("%w: %s (%d)", ErrRefused, answer.Description, answer.ErrorCode)
	}
	return fmt.Errorf("the server could not keep a record: %s (%d)", answer.Description, answer.ErrorCode)
}
