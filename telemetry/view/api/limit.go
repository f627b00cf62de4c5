package api

import (
	"runtime"
	"time"
)

// Limits bound what clients may cost. Zero fields mean those of DefaultLimits.
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
