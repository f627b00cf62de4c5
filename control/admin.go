package control

import (
	"bytes"
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
	r, err := inTurn(ctx, func() (*api.ChangeResponse, error) { return a.sw.Set(q) })
	a.changed(ctx, "set", askedSet(q), r, err)
	return r, refusal(err)
}

func askedSet(q *api.SetRequest) string {
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
	return fmt.Sprintf("%s %s %s", verb, list, JSON(q))
}

func (a *admin) Reload(ctx context.Context, q *api.ReloadRequest) (*api.ChangeResponse, error) {
	r, err := inTurn(ctx, func() (*api.ChangeResponse, error) { return a.sw.Reload(q) })
	a.changed(ctx, "reload", askedReload(q), r, err)
	return r, refusal(err)
}

func askedReload(q *api.ReloadRequest) string {
	if q.Toml != "" {
		return "the client's file " + q.File
	}
	return "the switch's own file"
}

func (a *admin) Clear(ctx context.Context, q *api.ClearRequest) (*api.ClearResponse, error) {
	r, err := inTurn(ctx, func() (*api.ClearResponse, error) { return a.sw.Clear(q) })
	a.note(ctx, "clear", string(JSON(q)), err)
	return r, refusal(err)
}

func (a *admin) Trace(ctx context.Context, q *api.TraceRequest) (*api.TraceResponse, error) {
	r, err := inTurn(ctx, func() (*api.TraceResponse, error) { return a.sw.Trace(ctx, q) })
	a.note(ctx, "trace", string(JSON(q)), err)
	return r, refusal(err)
}

func (a *admin) Capture(ctx context.Context, q *api.CaptureRequest, stream *connect.ServerStream[api.CaptureResponse]) error {
	begun := false
	_, err := inTurn(ctx, func() (struct{}, error) {
		return struct{}{}, a.sw.Capture(ctx, q, func(r *api.CaptureResponse) error {
			if !begun { // it may go on for days, so it is written down before its end, too
				begun = true
				a.result(ctx, "capture", string(JSON(q)), "begun")
			}
			return stream.Send(r)
		})
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

// admins lets only admins through, before more of the request is kept or parsed than of one that reads. What is refused is
// written to the audit log.
func (s *Server) admins(next http.Handler) http.Handler {
	writer := connect.NewErrorWriter()
	_, refusals := api.NewAdminHandler(&refusing{s.audit, s.log}, connect.WithReadMaxBytes(maxRequest))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := identityOf(r.Context())
		if id.admin {
			next.ServeHTTP(w, r)
			return
		}
		s.denied.Add(1)
		// A client that is cut off while it sends does not read why.
		body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
		call := callOf(r.URL.Path)
		switch {
		case !writer.IsSupported(r):
			s.audit.write(s.log, id, call, zap.String("result", notAdmin))
			http.Error(w, denial(id).Message(), http.StatusForbidden)
		case err != nil || len(body) > maxRequest:
			s.audit.write(s.log, id, call, zap.String("asked", fmt.Sprintf("a request of more than %d bytes, or a part of one", maxRequest)), zap.String("result", notAdmin))
			_ = writer.Write(w, r, denial(id))
		default:
			noted := false
			r = r.WithContext(context.WithValue(r.Context(), notedKey{}, &noted))
			r.Body = io.NopCloser(bytes.NewReader(body))
			if refusals.ServeHTTP(w, r); !noted {
				s.audit.write(s.log, id, call, zap.String("asked", "what is no request"), zap.String("result", notAdmin))
			}
		}
	})
}

const notAdmin = "refused: not an admin"

// callOf is the name of the call of a path.
func callOf(path string) string {
	return bounded(strings.ToLower(path[strings.LastIndexByte(path, '/')+1:]))
}

func denial(id identity) *connect.Error {
	return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s may read, but not change: run as root or as the switch's user, or with a certificate that control.tls.admins names", id))
}

// notedKey finds, in a context, where a refusal is noted.
type notedKey struct{}

// refusing answers the calls of service Admin to those who may not make them, and writes down what they asked for.
type refusing struct {
	audit *Audit
	log   *zap.Logger
}

var _ api.AdminHandler = (*refusing)(nil)

func (f *refusing) refuse(ctx context.Context, call, asked string) error {
	if noted, ok := ctx.Value(notedKey{}).(*bool); ok {
		*noted = true
	}
	id := identityOf(ctx)
	f.audit.write(f.log, id, call, zap.String("asked", bounded(asked)), zap.String("result", notAdmin))
	return denial(id)
}

func (f *refusing) Set(ctx context.Context, q *api.SetRequest) (*api.ChangeResponse, error) {
	return nil, f.refuse(ctx, "set", askedSet(q))
}

func (f *refusing) Reload(ctx context.Context, q *api.ReloadRequest) (*api.ChangeResponse, error) {
	return nil, f.refuse(ctx, "reload", askedReload(q))
}

func (f *refusing) Clear(ctx context.Context, q *api.ClearRequest) (*api.ClearResponse, error) {
	return nil, f.refuse(ctx, "clear", string(JSON(q)))
}

func (f *refusing) Trace(ctx context.Context, q *api.TraceRequest) (*api.TraceResponse, error) {
	return nil, f.refuse(ctx, "trace", string(JSON(q)))
}

func (f *refusing) Capture(ctx context.Context, q *api.CaptureRequest, _ *connect.ServerStream[api.CaptureResponse]) error {
	return f.refuse(ctx, "capture", string(JSON(q)))
}
