package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/control/api"
)

// Client talks to one running switch. It may be used by many goroutines.
type Client struct{ api.SwitchClient }

// NewClient returns a client of the switch that listens on a socket. Calls
// fail with a *DialError if none does.
func NewClient(socket string) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if err != nil {
				return nil, &DialError{socket, err}
			}
			return c, nil
		},
		DisableKeepAlives: true, // a client asks once; an idle connection would only wait
	}
	// The host stands in the request's head and nowhere else.
	return &Client{api.NewSwitchClient(&http.Client{Transport: transport}, "http://weir")}
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

// DialError says why no switch can be talked to at a socket.
type DialError struct {
	Socket string
	Err    error
}

// Error names the remedy where it is known.
func (e *DialError) Error() string {
	switch {
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

// Reason reduces the error of a call to what its user should read.
func Reason(err error) error {
	var dial *DialError
	if errors.As(err, &dial) {
		return dial
	}
	var call *connect.Error
	if errors.As(err, &call) && call.Code() == connect.CodeFailedPrecondition {
		return errors.New(call.Message())
	}
	return err
}
