package paper

import (
	"math"

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

func (q *twoQueues) of(seed uint64, flow uint32, id uint64) int64 {
	queue := 0
	if q.lowPriority(seed, flow) {
		queue = 1
	}
	return q.waits[queue][hash.Reduce(hash.Uint64x2(seed, delaySampleSeed, id), queueSteps)]
}

func (q *twoQueues) String() string {
	return "delays: 200 us + exponential wait, mean 50 us for half of the flows (high priority), 300 us for the others, independent per packet"
}
