package collect

import (
	"sync/atomic"

	"github.com/weirswitch/weir/telemetry/record"
)

// Outcome is what became of a record.
type Outcome uint8

// The outcomes. Received = the sum of all of them.
const (
	Applied    Outcome = iota // it is in the store
	Duplicate                 // it was there already
	Unreadable                // it is no record, or its body is none of its kind
	Conflict                  // it contradicts another one
	Unknown                   // its kind is one that nothing here reads
	Forged                    // its subject names another switch, kind, epoch or partition than it does
	Foreign                   // it is of a partition that another collector has
	Late                      // it is older than what memory holds
	Future                    // it claims to be of a time to come
	Unkeyed                   // it was not made under a network key of the collector's
	outcomes
)

var outcomeNames = [outcomes]string{"applied", "duplicate", "unreadable", "conflict", "unknown", "forged", "foreign", "late", "future", "unkeyed"}

// String is the outcome as metrics name it.
func (o Outcome) String() string {
	if o < outcomes {
		return outcomeNames[o]
	}
	return "other"
}

// Outcomes lists all.
func Outcomes() []Outcome {
	all := make([]Outcome, outcomes)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// Counters count the messages of one kind.
type Counters struct {
	Received uint64 // messages
	Bytes    uint64 // of these
	By       [outcomes]uint64
}

// counters are the same while they grow. by is written
// behind received, so that a reader who reads by first never finds too few
// received.
type counters struct {
	received, bytes atomic.Uint64
	by              [outcomes]atomic.Uint64
}

func (c *counters) count(size int, o Outcome) {
	c.received.Add(1)
	c.bytes.Add(uint64(size))
	c.by[o].Add(1)
}

func (c *counters) read() (r Counters) {
	for i := range c.by {
		r.By[i] = c.by[i].Load()
	}
	r.Received, r.Bytes = c.received.Load(), c.bytes.Load()
	return r
}

// kindOther is for what has no kind: messages under subjects of none, and
// records of later versions.
const kindOther = record.Kind(0)

// Kinds lists the kinds that this version knows.
var Kinds = []record.Kind{record.PINT, record.DiSketch, record.Oblivious, record.LDS, record.Status}

// KindName is a kind's name in metrics.
func KindName(k record.Kind) string {
	if k == kindOther {
		return "other"
	}
	return k.String()
}

// SetCounters count what passes between a collector and those with which it shares PINT's digests.
type SetCounters struct {
	// Answered requests of others; Invalid ones are none, Moved ones of partitions that it has not any more. Failed ones could not be
	// answered, Dropped ones came while too many waited.
	Answered, Invalid, Moved, Failed, Dropped, SentBytes uint64
	// Asked is own requests. Refused answers could not be used, Unreached partitions are missing in answers.
	Asked, Refused, Unreached, ReceivedBytes uint64
	// Strange messages are not of members.
	Strange uint64
	// Held partitions, and Members that share them, where they find one another.
	Held, Members int
}
