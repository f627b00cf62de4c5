package worker

import "github.com/weirswitch/weir/pipeline/packet"

// portCounters are what one worker knows of one port. They are plain memory
// of the worker.
//
// The fate counters belong to the port where a packet arrived, and each packet
// has one fate: received = forwarded + consumed + the sum of dropped. Copies
// have fates too: copied = the same sum over copies.
type portCounters struct {
	received, receivedBytes       uint64
	transmitted, transmittedBytes uint64
	copied                        uint64
	fate                          [2]fate // 0: originals, 1: copies
}

type fate struct {
	forwarded uint64
	reasons   [packet.MaxReasons]uint64 // packet.Consumed among them
}

// fateOf returns the row of fate counters for a packet.
func fateOf(p *packet.Packet) int {
	if p.Flags&packet.FlagCopy != 0 {
		return 1
	}
	return 0
}

// addCopies counts the copies that stages made of a batch, and those that they
// could not make, which end here.
func (c *portCounters) addCopies(b *packet.Batch) {
	c.copied += uint64(b.Copied + b.NoFrame + b.NoRoom)
	c.fate[1].reasons[packet.ReasonNoFrame] += uint64(b.NoFrame)
	c.fate[1].reasons[packet.ReasonNoRoom] += uint64(b.NoRoom)
}

func (c *portCounters) add(o *portCounters) {
	c.received += o.received
	c.receivedBytes += o.receivedBytes
	c.transmitted += o.transmitted
	c.transmittedBytes += o.transmittedBytes
	c.copied += o.copied
	for k := range c.fate {
		c.fate[k].forwarded += o.fate[k].forwarded
		for r, n := range o.fate[k].reasons {
			c.fate[k].reasons[r] += n
		}
	}
}

// LoopCounters are what a worker knows of itself.
type LoopCounters struct {
	Batches    uint64 `json:"batches"`     // batches run through the graph
	Packets    uint64 `json:"packets"`     // packets in them
	HandedOver uint64 `json:"handed_over"` // packets given to other workers
	TakenOver  uint64 `json:"taken_over"`  // packets taken from other workers
	Steered    uint64 `json:"steered"`     // of those handed over, packets whose connection the other worker has
	Rounds     uint64 `json:"rounds"`      // rounds over all queues
	Sleeps     uint64 `json:"sleeps"`      // times the worker slept in poll
}
