package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/control/api"
)

// admin answers the calls of admins, and writes each to the audit log. Who
// calls was checked before the request was read.
type admin struct {
	sw    Switch
	audit *Audit
	log   *zap.Logger
}

var _ api.AdminHandler = (*admin)(nil)

func now() time.Time { return time.Now() }

func (a *admin) Set(ctx context.Context, q *api.SetRequest) (*api.ChangeResponse, error) {
	verb, list := "add", "stages."+q.Stage+"."+q.List
	switch {
	case q.Remove:
		verb = "remove"
	case len(q.Match) != 0:
		verb = "change"
	}
	if q.Stage == "" {
		list = q.List
	}
	r, err := a.sw.Set(q)
	a.changed(ctx, "set", fmt.Sprintf("%s %s %s", verb, list, JSON(q)), r, err)
	return r, refusal(err)
}

func (a *admin) Reload(ctx context.Context, q *api.ReloadRequest) (*api.ChangeResponse, error) {
	what := "the switch's own file"
	if q.Toml != "" {
		what = "the client's file " + q.File
	}
	r, err := a.sw.Reload(q)
	a.changed(ctx, "reload", what, r, err)
	return r, refusal(err)
}

func (a *admin) Clear(ctx context.Context, q *api.ClearRequest) (*api.ClearResponse, error) {
	r, err := a.sw.Clear(q)
	a.note(ctx, "clear", string(JSON(q)), err)
	return r, refusal(err)
}

func (a *admin) Trace(ctx context.Context, q *api.TraceRequest) (*api.TraceResponse, error) {
	r, err := a.sw.Trace(ctx, q)
	a.note(ctx, "trace", string(JSON(q)), err)
	return r, refusal(err)
}

func (a *admin) Capture(ctx context.Context, q *api.CaptureRequest, stream *connect.ServerStream[api.CaptureResponse]) error {
	begun := false
	err := a.sw.Capture(ctx, q, func(r *api.CaptureResponse) error {
		if !begun { // it may go on for days, so it is written down before its end, too
			begun = true
			a.result(ctx, "capture", string(JSON(q)), "begun")
		}
		return stream.Send(r)
	})
	a.note(ctx, "capture", string(JSON(q)), err)
	return refusal(err)
}

// Changed writes down a change that no call asked for, such as one by a signal.
func (s *Server) Changed(call string, r *api.ChangeResponse, err error) {
	a := &admin{audit: s.audit, log: s.log}
	ctx := context.WithValue(context.Background(), identityKey{}, identity{uid: -1})
	a.changed(ctx, call, "the switch's own file", r, err)
}

// maxAudited bounds the changes that one line of the audit log names.
const maxAudited = 100

func (a *admin) changed(ctx context.Context, call, what string, r *api.ChangeResponse, err error) {
	var changes []string
	for i, c := range r.GetChanges() {
		if i == maxAudited {
			changes = append(changes, fmt.Sprintf("and %d more", len(r.Changes)-i))
			break
		}
		changes = append(changes, ChangeText(c))
	}
	a.note(ctx, call, what, err, zap.Strings("changed", changes))
}

func (a *admin) note(ctx context.Context, call, what string, err error, more ...zap.Field) {
	result := "done"
	if err != nil {
		result = err.Error()
	}
	a.result(ctx, call, what, result, more...)
}

func (a *admin) result(ctx context.Context, call, what, result string, more ...zap.Field) {
	fields := append([]zap.Field{zap.String("asked", bounded(what)), zap.String("result", bounded(result))}, more...)
	a.audit.write(a.log, identityOf(ctx), call, fields...)
}

// bounded keeps a client from filling the log with one line.
func bounded(text string) string {
	const most = 4096
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

// ChangeText is a change on one line.
func ChangeText(c *api.Change) string {
	switch {
	case c.Old == "":
		return fmt.Sprintf("+ %s = %s", c.Key, c.New)
	case c.New == "":
		return fmt.Sprintf("- %s = %s", c.Key, c.Old)
	}
	return fmt.Sprintf("~ %s = %s, was %s", c.Key, c.New, c.Old)
}

// refusal is the error of a call whose reason is the client's to read.
func refusal(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return connect.NewError(connect.CodeFailedPrecondition, err)
}

// admins lets only admins through, before the request's body is kept or parsed.
// What is refused is written to the audit log.
func (s *Server) admins(next http.Handler) http.Handler {
	writer := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := identityOf(r.Context())
		if id.admin {
			next.ServeHTTP(w, r)
			return
		}
		s.denied.Add(1)
		// A client that is cut off while it sends does not read why.
		_, _ = io.CopyN(io.Discard, r.Body, maxRequest)
		call := strings.ToLower(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
		s.audit.write(s.log, id, bounded(call), zap.String("result", "refused: not an admin"))
		err := connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s may read, but not change: run as root or as the switch's user, or with a certificate that control.tls.admins names", id))
		if writer.IsSupported(r) {
			_ = writer.Write(w, r, err)
			return
		}
		http.Error(w, err.Message(), http.StatusForbidden)
	})
}
