package paper

import (
	"math"
	"math/rand/v2"

	"github.com/weirswitch/weir/telemetry/hash"
)

// twoQueues is a link with two queues of different priority: half of the flows
// wait in one, half in the other. Behind a fixed propagation delay the waiting
// time is exponential, as the sojourn time of M/M/1 is, and independent from
// packet to packet.
type twoQueues struct {
	waits [2][queueSteps]int64
}

const (
	propagationNs  = 200_000
	highPriorityNs = 50_000 // mean waiting time
	lowPriorityNs  = 300_000
	queueSteps     = 1 << 12
)

// newTwoQueues tabulates the quantiles of the waiting times, at the middle of
// equally likely steps.
func newTwoQueues() *twoQueues {
	q := &twoQueues{}
	for i, mean := range []float64{highPriorityNs, lowPriorityNs} {
		for s := range queueSteps {
			u := (float64(s) + 0.5) / queueSteps
			q.waits[i][s] = propagationNs + int64(-mean*math.Log(1-u))
		}
	}
	return q
}

// lowPriority says which queue a flow waits in.
func (q *twoQueues) lowPriority(seed uint64, flow uint32) bool {
	return hash.Uint64x2(seed, delayQueueSeed, uint64(flow))>>63 != 0
}

func (q *twoQueues) of(seed uint64, flow uint32, id uint64, _ int64) int64 {
	queue := 0
	if q.lowPriority(seed, flow) {
		queue = 1
	}
	return q.waits[queue][hash.Reduce(hash.Uint64x2(seed, delaySampleSeed, id), queueSteps)]
}

func (q *twoQueues) String() string {
	return "delays: 200 us + exponential wait, mean 50 us for half of the flows (high priority), 300 us for the others, independent per packet"
}

// queueing is what packets meet between two leaves: one of four ways, by flow, each with a propagation delay and a queue of its
// own, whose waiting time goes up and down over time. Packets that are close in time and go the same way have nearly the same delay.
type queueing struct {
	waits [queueWays][]int64 // by step of time
}

const (
	queueWays   = 4
	queueStepNs = 10_000_000
	queueMeanNs = 100_000
)

// newQueueing draws the waits: a random walk that is held between empty and full, with the load that makes its mean
// queueMeanNs, correlated over about a second.
func newQueueing(seed uint64, durationNs int64) *queueing {
	q := &queueing{}
	for way := range q.waits {
		r := rand.New(rand.NewPCG(seed, uint64(way)))
		x := 0.0
		for range durationNs/queueStepNs + 2 {
			x = math.Max(0, 0.99*x+queueMeanNs*(0.14*r.NormFloat64()+0.004))
			q.waits[way] = append(q.waits[way], int64(x))
		}
	}
	return q
}

func (q *queueing) of(seed uint64, flow uint32, id uint64, timeNs int64) int64 {
	way := hash.Reduce(hash.Uint64x2(seed, delayQueueSeed, uint64(flow)), queueWays)
	at := min(max(timeNs/queueStepNs, 0), int64(len(q.waits[way])-1))
	jitter := int64(hash.Reduce(hash.Uint64x2(seed, delaySampleSeed, id), 10_000))
	return 100_000<<way + q.waits[way][at] + jitter
}

func (q *queueing) String() string {
	return "delays: one of 4 ways, by flow, of 0.1, 0.2, 0.4 and 0.8 ms, each with a queue that is correlated over time, and up to 10 us of jitter"
}
