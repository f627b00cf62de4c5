package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/control/api"
	queries "github.com/weirswitch/weir/telemetry/view/api"
)

// Client talks to one running switch. It may be used by many goroutines.
type Client struct {
	api.SwitchClient
	api.AdminClient
	queries.QueryServiceClient
}

// NewClient returns a client of the switch that listens on a socket. Calls
// fail with a *DialError if none does.
func NewClient(socket string) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if info, missing := os.Stat(socket); err != nil && missing == nil && info.Mode()&os.ModeSocket == 0 {
				err = ErrNotSocket
			}
			if err != nil {
				return nil, &DialError{socket, err}
			}
			return c, nil
		},
		DisableKeepAlives: true, // a client asks once; an idle connection would only wait
	}
	// The host appears only in the request's header.
	return newClient(transport, "http://weir")
}

func newClient(transport http.RoundTripper, url string) *Client {
	c := &http.Client{Transport: transport}
	return &Client{api.NewSwitchClient(c, url), api.NewAdminClient(c, url), queries.NewQueryServiceClient(c, url)}
}

// newTLSClient returns a client over TCP.
func newTLSClient(address string, config *tls.Config) *Client {
	return newClient(&http.Transport{
		DialContext:       new(net.Dialer).DialContext,
		TLSClientConfig:   config,
		DisableKeepAlives: true,
	}, "https://"+address)
}

// FdbEntries fetches the whole forwarding database.
func (c *Client) FdbEntries(ctx context.Context) ([]*api.FdbEntry, error) {
	stream, err := c.Fdb(ctx, &api.FdbRequest{})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var entries []*api.FdbEntry
	for stream.Receive() {
		entries = append(entries, stream.Msg().Entries...)
	}
	return entries, stream.Err()
}

// ErrNotSocket is the cause of a DialError where something else has the socket's path.
var ErrNotSocket = errors.New("no socket")

// DialError says why no switch can be talked to at a socket.
type DialError struct {
	Socket string
	Err    error
}

// Error names the remedy where it is known.
func (e *DialError) Error() string {
	switch {
	case errors.Is(e.Err, ErrNotSocket):
		return fmt.Sprintf("%s is no socket: name a switch's with --socket, or the switch with --name", e.Socket)
	case errors.Is(e.Err, os.ErrNotExist):
		return fmt.Sprintf("no switch listens on %s: start it, or name another with --name or --socket", e.Socket)
	case errors.Is(e.Err, unix.ECONNREFUSED):
		return fmt.Sprintf("no switch listens on %s any more: start it again", e.Socket)
	case errors.Is(e.Err, os.ErrPermission):
		return fmt.Sprintf("no permission to talk to %s: run as root, or as a member of the socket's group", e.Socket)
	}
	return fmt.Sprintf("talk to %s: %v", e.Socket, e.Err)
}

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// Refused reports whether a switch did not do what was asked since it cannot be, or the caller may not
// ask it: what to change is the request.
func Refused(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeFailedPrecondition, connect.CodePermissionDenied, connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeOutOfRange:
		return err != nil
	}
	return false
}

// ErrBroken is the Reason of a call whose connection ended before the answer was complete, as where the switch ended.
var ErrBroken = errors.New("the connection ended before the answer was complete")

// broken reports whether the connection of a call ended early. Errors that the switch itself sent are none of those.
func broken(call *connect.Error) bool {
	if connect.IsWireError(call) {
		return false
	}
	// Of a connection that ends before the request is written, net/http has an error without a name.
	return errors.Is(call, io.EOF) || errors.Is(call, io.ErrUnexpectedEOF) || errors.Is(call, unix.ECONNRESET) || errors.Is(call, unix.EPIPE) || errors.Is(call, net.ErrClosed) ||
		strings.HasSuffix(call.Message(), "http: server closed idle connection")
}

// Reason reduces the error of a call to what its user should read.
func Reason(err error) error {
	if err == nil {
		return nil
	}
	var dial *DialError
	if errors.As(err, &dial) {
		return dial
	}
	var call *connect.Error
	if errors.As(err, &call) && broken(call) {
		return ErrBroken
	}
	if errors.As(err, &call) && (call.Code() == connect.CodeFailedPrecondition || call.Code() == connect.CodePermissionDenied) {
		var faults []error // one on each line
		for line := range strings.SplitSeq(call.Message(), "\n") {
			faults = append(faults, errors.New(line))
		}
		return errors.Join(faults...)
	}
	return err
}
