package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/query"
)

// The bounds of a watch's interval.
const (
	leastInterval   = 100 * time.Millisecond
	usualInterval   = time.Second
	longestInterval = time.Hour
)

// service answers the calls.
type service struct {
	Config
	questions                 *turns
	open                      atomic.Int64 // watches
	answered, failed, refused atomic.Uint64
}

var _ QueryServiceHandler = (*service)(nil)

// Ask implements QueryServiceHandler.
func (s *service) Ask(ctx context.Context, r *AskRequest) (*Answer, error) {
	q, err := valid(r.GetQuestion())
	if err != nil {
		return nil, err
	}
	return s.answer(ctx, q)
}

// Series implements QueryServiceHandler.
func (s *service) Series(ctx context.Context, r *AskRequest) (*Series, error) {
	q, err := valid(r.GetQuestion())
	if err != nil {
		return nil, err
	}
	if q.Step == 0 {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("step_ns: a series needs it: choose the length of a step, or call Ask"))
	}
	a, err := s.answer(ctx, q)
	return a.GetSeries(), err
}

// Watch implements QueryServiceHandler.
func (s *service) Watch(ctx context.Context, r *WatchRequest, stream *connect.ServerStream[Answer]) error {
	s.open.Add(1)
	defer s.open.Add(-1)
	q, err := valid(r.GetQuestion())
	interval := time.Duration(r.GetIntervalNs())
	if interval == 0 {
		interval = usualInterval
	}
	if interval < leastInterval || interval > longestInterval {
		return connect.NewError(connect.CodeInvalidArgument, errors.Join(
			fmt.Errorf("interval_ns %d: choose 0 for a second, or %d to %d", r.GetIntervalNs(), leastInterval, longestInterval), message(err)))
	}
	if err != nil {
		return err
	}
	next := time.NewTicker(interval)
	defer next.Stop()
	for {
		a, err := s.answer(ctx, q)
		if err != nil {
			if a = passing(err); a == nil {
				return err
			}
		}
		if err := stream.Send(a); err != nil {
			return err
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Closing:
			return connect.NewError(connect.CodeUnavailable, errors.New("the collector ends"))
		}
	}
}

// Collector implements QueryServiceHandler.
func (s *service) Collector(ctx context.Context, _ *CollectorRequest) (*CollectorStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Limits.Time)
	defer cancel()
	status, err := s.Config.Collector(ctx)
	if err != nil {
		return nil, s.refusal(err)
	}
	status.Api = &ApiStatus{Answered: s.answered.Load(), Failed: s.failed.Load(), Refused: s.refused.Load(), Watches: s.open.Load()}
	return status, nil
}

// valid makes a question of a message, whatever the records are.
func valid(m *Question) (*query.Question, error) {
	q, err := m.Value()
	if err == nil {
		err = q.Validate()
	}
	if err != nil {
		return nil, invalid(err)
	}
	return q, nil
}

// answer waits for its turn and asks.
func (s *service) answer(ctx context.Context, q *query.Question) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Limits.Time)
	defer cancel()
	if err := s.questions.wait(ctx, clientOf(ctx)); err != nil {
		return nil, s.refusal(err)
	}
	defer s.questions.done(clientOf(ctx))
	value, err := s.Config.Ask(ctx, q)
	if err != nil {
		s.failed.Add(1)
		return nil, s.refusal(err)
	}
	a, err := NewAnswer(value)
	if err != nil {
		s.failed.Add(1)
		s.Log.Error("an answer cannot be sent: this is a fault of the collector", zap.Error(err))
		return nil, connect.NewError(connect.CodeInternal, err)
	}
	s.answered.Add(1)
	return a, nil
}

// recovered keeps a fault of ours from taking the connection with it.
func (s *service) recovered(_ context.Context, spec connect.Spec, _ http.Header, fault any) error {
	s.failed.Add(1)
	s.Log.Error("a question made the collector fail: this is a fault of it", zap.String("call", spec.Procedure), zap.Any("fault", fault), zap.Stack("stack"))
	return connect.NewError(connect.CodeInternal, errors.New("the collector failed at this question: its log says where"))
}
