package jetstream

import "strconv"

// The names under which servers answer: NATS' usual ones would let each client read
// what is meant for others. Give them to nats.CustomInboxPrefix.
const (
	acks  = "weir.acks."
	inbox = "weir.inbox."
)

// AllAcks is what all acknowledgements of records are sent to.
const AllAcks = acks + ">"

// Acks begins the names to which a switch has the acknowledgements of its
// records sent.
func Acks(sw uint32) string { return acks + strconv.FormatUint(uint64(sw), 10) }

// Inbox begins the names to which a collector has records and answers sent.
func Inbox(collector string) string { return inbox + collector }

// SubjectsOf is the subject of all records of a switch.
func SubjectsOf(sw uint32) string {
	return prefix + "*.*.*." + strconv.FormatUint(uint64(sw), 10)
}
