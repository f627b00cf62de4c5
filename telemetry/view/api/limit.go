package api

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"connectrpc.com/connect"
)

// Limits bound what clients may cost. Zero fields stand for those of DefaultLimits.
type Limits struct {
	// Body is the most bytes of a request, before and behind decompression.
	Body int
	// Requests is how many calls may be under way at a time, watches aside: those that
	// arrive, wait for their turn, are answered, or have their answer read. What comes
	// beyond is refused at once.
	Requests int
	// Questions is how many of these are answered at a time. The others wait for their
	// turn, in Time.
	Questions int
	// Watches is how many watches may be open.
	Watches int
	// Time is how long a question may take, with the wait for its turn. A client may
	// ask for less (Connect-Timeout-Ms).
	Time time.Duration
	// Answer is the most bytes of an answer.
	Answer int
	// Sending is how long a client may take to send a request, Reading to read an answer, or
	// one of a watch.
	Sending, Reading time.Duration
}

// DefaultLimits hold a client's cost to some hundred megabytes and all cores.
func DefaultLimits() Limits {
	return Limits{
		Body: 1 << 20, Requests: 128, Questions: max(2, runtime.GOMAXPROCS(0)),
		Watches: 64, Time: 10 * time.Second, Answer: 64 << 20,
		Sending: 5 * time.Second, Reading: 30 * time.Second,
	}
}

// orDefault fills in what is not set.
func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	fill(&l.Body, d.Body)
	fill(&l.Requests, d.Requests)
	fill(&l.Questions, d.Questions)
	fill(&l.Watches, d.Watches)
	fill(&l.Time, d.Time)
	fill(&l.Answer, d.Answer)
	fill(&l.Sending, d.Sending)
	fill(&l.Reading, d.Reading)
	return l
}

func fill[N int | time.Duration](to *N, value N) {
	if *to <= 0 {
		*to = value
	}
}

// places are what so many may have at a time.
type places struct {
	free chan struct{}
	what string
}

func newPlaces(n int, what string) places { return places{make(chan struct{}, n), what} }

// take takes a place if one is free; free it with leave.
func (p places) take() error {
	select {
	case p.free <- struct{}{}:
		return nil
	default:
		return connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("%d %s are under way, and more are not taken: ask again later", cap(p.free), p.what))
	}
}

// wait waits for a place.
func (p places) wait(ctx context.Context) error {
	select {
	case p.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p places) leave() { <-p.free }
