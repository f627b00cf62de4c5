package api

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/weirswitch/weir/telemetry/query"
)

// invalid is a question's faults, one in a line.
func invalid(err error) error {
	text := strings.TrimPrefix(err.Error(), query.ErrInvalid.Error()+": ")
	return connect.NewError(connect.CodeInvalidArgument, errors.New(text))
}

// refusal is the error of a call. The reasons of package query are the client's to read;
// so is an unforeseen one, which is logged.
func (s *service) refusal(err error) error {
	switch {
	case errors.Is(err, query.ErrInvalid):
		return invalid(err)
	case errors.Is(err, query.ErrNoRecords), errors.Is(err, query.ErrUnknownFlow):
		return connect.NewError(connect.CodeNotFound, err)
	case errors.Is(err, query.ErrUnreached):
		return connect.NewError(connect.CodeUnavailable, err)
	case errors.Is(err, query.ErrTooCostly):
		return connect.NewError(connect.CodeResourceExhausted, err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("no answer within the time: the collector gives a question at most %v, with the wait for its turn ([limits] query_time of its configuration): ask about less, or again later", s.Limits.Time))
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, err)
	}
	return connect.NewError(connect.CodeFailedPrecondition, err)
}

// message is what an error says without its code, nil for nil.
func message(err error) error {
	if call := (*connect.Error)(nil); errors.As(err, &call) {
		return errors.New(call.Message())
	}
	return err
}

// passing is an answer in the place of an error that may be gone at the next try, else nil.
func passing(err error) *Answer {
	switch code := connect.CodeOf(err); code {
	case connect.CodeNotFound, connect.CodeResourceExhausted, connect.CodeDeadlineExceeded, connect.CodeUnavailable:
		return &Answer{Answer: &Answer_None{&None{Code: code.String(), Message: message(err).Error()}}}
	}
	return nil
}

// err is the error of Ask that a None carries.
func (n *None) err() error {
	var code connect.Code
	if code.UnmarshalText([]byte(n.Code)) != nil {
		code = connect.CodeUnknown
	}
	return connect.NewError(code, errors.New(n.Message))
}
