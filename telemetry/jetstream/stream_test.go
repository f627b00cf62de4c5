package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/telemetry/record"
)

// serve starts a NATS server with a stream's disk on loopback.
func serve(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.JetStream, o.NoSigs, o.NoLog = "127.0.0.1", true, true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if o.StoreDir == "" {
		o.StoreDir = t.TempDir()
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(2 * time.Minute) {
		t.Fatal("the server does not come up")
	}
	return s
}

func encode(t *testing.T, h *record.Header, body []byte) []byte {
	t.Helper()
	b, err := record.Append(nil, h, func(dst []byte) ([]byte, error) { return append(dst, body...), nil })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dial(t *testing.T, o Options, more ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := o.Dial(more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func ensure(t *testing.T, nc *nats.Conn, c StreamConfig) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := EnsureStream(ctx, js, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// await takes one ack.
func await(t *testing.T, acks <-chan Ack) Ack {
	t.Helper()
	select {
	case a := <-acks:
		return a
	case <-time.After(2 * time.Minute):
		t.Fatal("no ack comes")
		return Ack{}
	}
}

// TestPublish takes a record through each answer that a server has.
func TestPublish(t *testing.T) {
	s := serve(t, &server.Options{MaxPayload: 4096})
	nc := dial(t, Options{Servers: []string{s.ClientURL()}})
	acks := make(chan Ack, 16)
	p, err := NewPublisher(nc, Secret{}, func(a Ack) { acks <- a })
	if err != nil {
		t.Fatal(err)
	}
	h := &record.Header{Kind: record.DiSketch, Switch: 9, Start: 4 << 20, Span: 1 << 20}
	small, large := encode(t, h, make([]byte, 100)), encode(t, h, make([]byte, 5000))
	if err := p.Publish(1, h, small); err != nil {
		t.Fatal(err)
	}
	if a := await(t, acks); a.Number != 1 || a.Err != ErrNoStream {
		t.Errorf("without a stream: %+v", a)
	}
	stream := ensure(t, nc, StreamConfig{Age: time.Hour, Bytes: 1 << 20})
	for number := uint64(2); number < 4; number++ {
		if err := p.Publish(number, h, small); err != nil {
			t.Fatal(err)
		}
		if a := await(t, acks); a != (Ack{Number: number, Sequence: 1, Duplicate: number == 3}) {
			t.Errorf("ack %+v", a)
		}
	}
	if err := p.Publish(4, h, large); err == nil || !strings.Contains(err.Error(), "raise max_payload") {
		t.Errorf("a record of %d bytes: %v", len(large), err)
	}
	m, err := stream.GetMsg(t.Context(), 1)
	if err != nil || m.Subject != "weir.records.disketch.0.4.9" || string(m.Data) != string(small) {
		t.Errorf("%+v, %v", m, err)
	}
	// What is there is made as it should be, and what cannot be says why.
	ensure(t, nc, StreamConfig{Age: time.Minute, Duplicates: time.Hour})
	if info, err := stream.Info(t.Context()); err != nil || info.Config.MaxAge != time.Minute || info.Config.MaxBytes != -1 || info.State.Msgs != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	js, _ := jetstream.New(nc)
	if _, err := EnsureStream(t.Context(), js, StreamConfig{Replicas: 3}); err == nil || !strings.Contains(err.Error(), "lower the replicas") {
		t.Errorf("three replicas on one server: %v", err)
	}
	p.Close()
}

// TestRefusal: each error of the library is one on which the publisher can branch.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{&jetstream.APIError{Code: 400, ErrorCode: 10054}, ErrTooLarge, "a record is larger than"},
		{&jetstream.APIError{Code: 400, ErrorCode: 10060, Description: "wrong"}, ErrRefused, "the server refused a record: wrong (10060)"},
		{&jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "not now"}, nil, "the server could not keep a record: not now (10008)"},
		{jetstream.ErrInvalidJSAck, jetstream.ErrInvalidJSAck, "nats: invalid jetstream publish response"},
		{jetstream.ErrNoStreamResponse, ErrNoStream, "no server keeps"},
		{nats.ErrDisconnected, ErrDisconnected, "there is no connection"},
	} {
		got := refusal(c.err)
		if !strings.HasPrefix(got.Error(), c.text) || c.is != nil && !errors.Is(got, c.is) || c.is == nil && errors.Is(got, ErrRefused) {
			t.Errorf("%v becomes %v, want %s", c.err, got, c.text)
		}
	}
}

// TestSecrets: wrong ones are refused by the server, right ones in the same files
// then let the connection in, and no text shows one.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	password, token := write("password", "wr0ng\n"), write("token", "wr0ng\n")
	for name, c := range map[string]struct {
		server server.Options
		client Options
		file   string
	}{
		"password": {server.Options{Username: "weir", Password: "r1ght"}, Options{User: "weir", PasswordFile: password}, password},
		"token":    {server.Options{Authorization: "r1ght"}, Options{TokenFile: token}, token},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &c.server)
			_, port, _ := net.SplitHostPort(s.Addr().String())
			c.client.Servers = []string{"nats://127.0.0.1:" + port}
			refused, in := make(chan error, 100), make(chan struct{}, 1)
			nc := dial(t, c.client,
				nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { refused <- err }),
				nats.ConnectHandler(func(*nats.Conn) { in <- struct{}{} }))
			late := time.After(2 * time.Minute)
			for told := false; !told; { // a busy machine may cost an attempt its time
				select {
				case err := <-refused:
					text := fmt.Sprint(err, nc.LastError(), c.client)
					if strings.Contains(text, "wr0ng") {
						t.Fatalf("refused with %s", text)
					}
					told = strings.Contains(strings.ToLower(text), "authorization")
				case <-in:
					t.Fatal("a wrong secret opens the door")
				case <-late:
					t.Fatal("no word of a refusal:", nc.LastError())
				}
			}
			if err := os.WriteFile(c.file, []byte("r1ght\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			select {
			case <-in:
			case <-time.After(2 * time.Minute):
				t.Fatal("the right secret is refused:", nc.LastError())
			}
		})
	}
}
