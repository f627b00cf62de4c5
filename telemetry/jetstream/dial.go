package jetstream

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirswitch/weir/internal/safefile"
)

// The pauses between attempts to connect: the first one, doubled with each round
// over all servers up to the longest. A jitter of as much again keeps switches that
// lost a server together from coming back together.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// connectTimeout bounds one attempt. Pings find a peer that is gone without a word
// within twice the interval, unless there is so much to say that writing blocks, which
// the third one bounds.
const (
	connectTimeout = 3 * time.Second
	writeTimeout   = 5 * time.Second
	pingInterval   = 5 * time.Second
)

// Dial connects, and keeps connecting for ever, whether or not a server answers
// now. An error is a fault of the options: a file that cannot be read, say. more
// is put behind the options, for what a caller watches.
func (o *Options) Dial(more ...nats.Option) (*nats.Conn, error) {
	if err := o.CheckFiles(); err != nil {
		return nil, err
	}
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(Pause),
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(writeTimeout),
		nats.ReconnectOnFlusherError(),
		// The publisher knows what was not acknowledged and sends it again.
		nats.ReconnectBufSize(-1),
	}
	if o.Inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(o.Inbox))
	}
	opts = append(opts, o.tlsOptions()...)
	switch {
	case o.Credentials != "":
		opts = append(opts, nats.UserCredentials(o.Credentials))
	case o.User != "":
		opts = append(opts, nats.UserInfoHandler(func() (string, string) {
			password, _ := firstLine(o.PasswordFile) // the server says that it is wrong
			return o.User, password
		}))
	case o.TokenFile != "":
		opts = append(opts, nats.TokenHandler(func() string {
			token, _ := firstLine(o.TokenFile)
			return token
		}))
	}
	nc, err := nats.Connect(strings.Join(o.Servers, ","), append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}

// Pause is the pause before an attempt, counted from 1.
func Pause(attempt int) time.Duration {
	p := longestPause
	if attempt < 8 {
		p = min(p, firstPause<<max(0, attempt-1))
	}
	return p + rand.N(p)
}

func (o *Options) tlsOptions() (opts []nats.Option) {
	if !o.secure() {
		return nil
	}
	opts = append(opts, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	if o.TLSCA == "" && o.TLSCert == "" {
		return opts
	}
	var own nats.TLSCertHandler
	var roots nats.RootCAsHandler
	if o.TLSCert != "" {
		own = func() (tls.Certificate, error) { return safefile.KeyPair(o.TLSCert, o.TLSKey) }
	}
	if o.TLSCA != "" {
		roots = func() (*x509.CertPool, error) { return readRoots(o.TLSCA) }
	}
	return append(opts, nats.ClientTLSConfig(own, roots))
}

// maxFile bounds a file with secrets or certificates, in bytes.
const maxFile = 16 << 20

func readRoots(path string) (*x509.CertPool, error) {
	pem, err := safefile.ReadTrusted(path, maxFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return pool, nil
}

// CheckFiles reads the files that the options name, and reports all that cannot
// serve, each beginning with its key. It never says what is in them.
func (o *Options) CheckFiles() error {
	var errs []error
	for _, f := range o.files() {
		if f.path == "" {
			continue
		}
		if err := o.checkFile(f); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.key, err))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) checkFile(f file) error {
	read := safefile.ReadPrivate
	if f.key == "tls_ca" || f.key == "tls_cert" {
		read = safefile.ReadTrusted
	}
	content, err := read(f.path, maxFile)
	if err != nil {
		return err
	}
	switch f.key {
	case "tls_ca":
		_, err = readRoots(f.path)
	case "tls_cert":
		if o.TLSKey != "" {
			if _, readErr := os.Stat(o.TLSKey); readErr != nil {
				return nil // said of the key itself
			}
			if _, err = safefile.KeyPair(o.TLSCert, o.TLSKey); err != nil {
				err = fmt.Errorf("%s and %s are no certificate and its key in PEM: name a pair that belongs together", f.path, o.TLSKey)
			}
		}
	case "credentials":
		if !bytes.Contains(content, []byte("BEGIN NATS USER JWT")) || !bytes.Contains(content, []byte("SEED")) {
			err = fmt.Errorf("%s is no NATS credentials file: it has a JWT and a seed, as nsc writes them", f.path)
		}
	case "password_file", "token_file":
		var line string
		if line, err = firstLine(f.path); err == nil && line == "" {
			err = fmt.Errorf("%s has an empty first line: write the secret there", f.path)
		}
	}
	return err
}

func firstLine(path string) (string, error) {
	content, err := safefile.ReadPrivate(path, maxFile)
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(content, []byte("\n"))
	return string(bytes.TrimRight(line, "\r")), nil
}

// Events are what a connection reports: on its own goroutines, which must not wait.
type Events struct {
	Up    func(server string) // connected, to a server
	Down  func(err error)     // the connection broke; it will be made again
	Fault func(err error)     // an attempt to connect failed, or the server refuses something
}

// Options are those of a connection that reports its events.
func (e Events) Options() []nats.Option {
	up := func(nc *nats.Conn) { e.Up(nc.ConnectedUrlRedacted()) }
	return []nats.Option{
		nats.ConnectHandler(up),
		nats.ReconnectHandler(up),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err == nil {
				err = errClosed
			}
			e.Down(err)
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { e.Fault(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { e.Fault(err) }),
	}
}

var errClosed = errors.New("the connection broke")
