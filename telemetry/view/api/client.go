package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/query"
)

// DefaultURL is where a collector serves that is configured no other way.
const DefaultURL = "http://127.0.0.1:9470"

// ClientTLS is how a client proves who it is, to a collector whose URL is https.
type ClientTLS struct {
	Certificate, Key string // its own, files in PEM
	CA               string // signs the collector's certificate
	Name             string // that the collector's certificate has; empty: the URL's host
}

// maxAnswer bounds what a client takes in of an answer.
const maxAnswer = 256 << 20

// Client asks a collector.
type Client struct {
	QueryServiceClient
	url  string
	http *http.Client
	base string // of URLs, as http needs them
}

// NewClient returns a client of the collector at a URL: http://HOST:PORT, https://HOST:PORT
// with certificates, or unix:///PATH. Nothing is connected before a call; calls fail with a
// *DialError if no collector listens there.
func NewClient(where string, t ClientTLS) (*Client, error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, fmt.Errorf("collector %q: write it as %s", where, DefaultURL)
	}
	transport := &http.Transport{DisableKeepAlives: true} // an idle connection would only wait
	base := ""
	switch {
	case u.Scheme == "unix" && filepath.IsAbs(u.Path) && u.Host == "":
		base = "http://localhost"
		transport.DialContext = dial(where, func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", u.Path)
		})
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.User == nil:
		base = u.Scheme + "://" + u.Host
		transport.DialContext = dial(where, new(net.Dialer).DialContext)
	default:
		return nil, fmt.Errorf("collector %q: write it as %s, https://HOST:PORT or unix:///PATH", where, DefaultURL)
	}
	if (t != ClientTLS{}) && u.Scheme != "https" {
		return nil, fmt.Errorf("collector %q: certificates are for https: write https://HOST:PORT", where)
	}
	if u.Scheme == "https" {
		if transport.TLSClientConfig, err = t.config(); err != nil {
			return nil, err
		}
		transport.TLSHandshakeTimeout = 10 * time.Second
	}
	h := &http.Client{Transport: explained{transport, where}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // no collector sends anybody elsewhere
	}}
	return &Client{NewQueryServiceClient(h, base, connect.WithReadMaxBytes(maxAnswer)), where, h, base}, nil
}

// maxPEM bounds a file of certificates, in bytes.
const maxPEM = 16 << 20

// config reads the files, and names all that are missing.
func (t *ClientTLS) config() (*tls.Config, error) {
	var faults []error
	own, err := safefile.KeyPair(t.Certificate, t.Key)
	if err != nil {
		faults = append(faults, fmt.Errorf("%w: name the client's certificate and its key, files in PEM", err))
	}
	roots := x509.NewCertPool()
	text, err := safefile.ReadTrusted(t.CA, maxPEM)
	if err != nil {
		faults = append(faults, fmt.Errorf("%w: name the certificates that sign the collector's, a file in PEM", err))
	} else if !roots.AppendCertsFromPEM(text) {
		faults = append(faults, fmt.Errorf("%s has no certificate: name a file in PEM", t.CA))
	}
	if faults != nil {
		return nil, errors.Join(faults...)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: t.Name}, nil
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// dial makes a dialer's errors name the address without a listener.
func dial(where string, d dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d(ctx, network, address)
		if err != nil && ctx.Err() == nil {
			err = &DialError{where, err}
		}
		return c, err
	}
}

// DialError says why no collector can be talked to.
type DialError struct {
	URL string
	Err error
}

// Error names the remedy where it is known.
func (e *DialError) Error() string {
	if errors.Is(e.Err, syscall.ECONNREFUSED) || errors.Is(e.Err, os.ErrNotExist) {
		return fmt.Sprintf("no collector listens on %s: start one (weir collect), or name another with --collector, or a folder with --records", e.URL)
	}
	return fmt.Sprintf("talk to the collector at %s: %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// Ask asks a question, and returns what query.Engine.Ask would. Its errors are as
// [Reason] has them.
func (c *Client) Ask(ctx context.Context, q *query.Question) (any, error) {
	m, err := NewQuestion(q)
	if err != nil {
		return nil, err
	}
	a, err := c.QueryServiceClient.Ask(ctx, &AskRequest{Question: m})
	if err != nil {
		return nil, Reason(err)
	}
	return a.Value()
}

// Watch asks a question again after each interval, and gives each answer, or the reason why
// there is none this time, to a function, until that fails, the context ends or the collector
// does.
func (c *Client) Watch(ctx context.Context, q *query.Question, interval time.Duration, each func(answer any, err error) error) error {
	m, err := NewQuestion(q)
	if err != nil {
		return err
	}
	stream, err := c.QueryServiceClient.Watch(ctx, &WatchRequest{Question: m, IntervalNs: int64(interval)})
	if err != nil {
		return Reason(err)
	}
	defer stream.Close()
	for stream.Receive() {
		answer, err := stream.Msg().Value()
		if err != nil {
			err = Reason(err)
		}
		if err := each(answer, err); err != nil {
			return err
		}
	}
	return Reason(stream.Err())
}

// Reason reduces the error of a call to what its user should read: a line for each fault.
// Those of package query can be told by errors.Is.
func Reason(err error) error {
	if err == nil {
		return nil
	}
	if dial := (*DialError)(nil); errors.As(err, &dial) {
		return dial
	}
	call := (*connect.Error)(nil)
	if !errors.As(err, &call) || !connect.IsWireError(err) && call.Code() == connect.CodeCanceled {
		return err
	}
	var kind error
	switch call.Code() {
	case connect.CodeInvalidArgument:
		kind = query.ErrInvalid
	case connect.CodeNotFound:
		kind = query.ErrNoRecords
	case connect.CodeResourceExhausted:
		kind = query.ErrTooCostly
	case connect.CodeDeadlineExceeded:
		kind = context.DeadlineExceeded
	case connect.CodeFailedPrecondition, connect.CodePermissionDenied, connect.CodeUnavailable, connect.CodeInternal:
	default:
		return err
	}
	return &reason{call.Message(), kind, call}
}

// reason is an error that a collector told.
type reason struct {
	text string
	kind error
	call *connect.Error
}

func (r *reason) Error() string { return r.text }

// Unwrap returns what package query would say, and the call's error.
func (r *reason) Unwrap() []error {
	if r.kind == nil {
		return []error{r.call}
	}
	return []error{r.kind, r.call}
}

// explained is a transport whose errors say what to do where a client and a collector do not agree on TLS.
type explained struct {
	next http.RoundTripper
	url  string
}

// RoundTrip implements http.RoundTripper.
func (e explained) RoundTrip(r *http.Request) (*http.Response, error) {
	got, err := e.next.RoundTrip(r)
	alert, unverified := (tls.AlertError)(0), (*tls.CertificateVerificationError)(nil)
	switch {
	case errors.As(err, &alert), err != nil && strings.Contains(err.Error(), "remote error: tls:"):
		return nil, fmt.Errorf("the collector at %s refuses the certificate: %w: use one that the authority in its tls.ca has signed", e.url, err)
	case errors.As(err, &unverified):
		return nil, fmt.Errorf("the certificate of the collector at %s is not to be trusted: %w: name the authority that signed it, or the name in it", e.url, err)
	case err == nil && got.StatusCode == http.StatusBadRequest && r.URL.Scheme == "http" && !got.ProtoAtLeast(1, 1):
		// So net/http answers what is no TLS and should be, and nothing else.
		_ = got.Body.Close()
		return nil, fmt.Errorf("the collector at %s speaks TLS: write https://, with certificates", e.url)
	}
	return got, err
}
