package collect

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/jetstream"
)

// connectWait is how long a connection may take.
const connectWait = 10 * time.Second

// Connector returns what connects to Servers, for the collector of a name. The files are
// checked at once, and read again for each connection.
func (c *NATS) Connector(name string) (func(context.Context) (*nats.Conn, error), error) {
	o := jetstream.Options{
		Name: "weir collect " + name, Servers: c.Servers, TLSCA: c.TLS.CA, TLSCert: c.TLS.Certificate, TLSKey: c.TLS.Key,
		Credentials: c.Credentials, User: c.User, PasswordFile: c.PasswordFile, TokenFile: c.TokenFile,
	}
	if err := o.CheckFiles(); err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	var err error
	if o.Inbox, err = c.inbox(name); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*nats.Conn, error) {
		nc, err := o.Dial()
		if err != nil {
			return nil, err
		}
		deadline := time.Now().Add(connectWait)
		for !nc.IsConnected() {
			if ctx.Err() != nil || time.Now().After(deadline) {
				err := errors.Join(ctx.Err(), nc.LastError())
				nc.Close()
				return nil, fmt.Errorf("no NATS server of %v answers: %w", c.Servers, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nc, nil
	}, nil
}

// inbox is where answers are sent: under the name by which the servers know the collector,
// since they let each client listen to its own alone.
func (c *NATS) inbox(name string) (string, error) {
	switch {
	case c.User != "":
		name = c.User
	case c.TLS.Certificate != "":
		own, err := safefile.KeyPair(c.TLS.Certificate, c.TLS.Key)
		if err != nil {
			return "", fmt.Errorf("nats.tls.certificate: %w", err)
		}
		leaf, err := x509.ParseCertificate(own.Certificate[0])
		if err != nil {
			return "", fmt.Errorf("nats.tls.certificate: %w", err)
		}
		if leaf.Subject.CommonName != "" {
			name = leaf.Subject.CommonName
		}
	}
	return jetstream.Inbox(name), nil
}
