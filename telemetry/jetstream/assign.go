package jetstream

import (
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
)

const assignments = "weir.assignments."

// AllAssignments is the subject of what a collector sends to all switches: how they divide their epochs.
const AllAssignments = assignments + ">"

// Assignments is the subject of what a collector sends to a switch.
func Assignments(sw uint32) string { return assignments + strconv.FormatUint(uint64(sw), 10) }

// MaxAssignments bounds such a message, in bytes.
const MaxAssignments = 16 << 10

// Listen has f called with each message of a subject that is not larger than most, by one goroutine, over a
// connection that may be made later. What arrives while f runs is kept up to a bound; the servers keep nothing of it.
func Listen(nc *nats.Conn, subject string, most int, f func([]byte)) error {
	s, err := nc.Subscribe(subject, func(m *nats.Msg) {
		if len(m.Data) <= most {
			f(m.Data)
		}
	})
	if err == nil {
		err = s.SetPendingLimits(16, 16*most)
	}
	if err != nil {
		return fmt.Errorf("listen to %s: %w", subject, err)
	}
	return nil
}

const digests = "weir.digests."

// AllDigests are the subjects at which collectors that share PINT's digests ask one another for those of a partition.
const AllDigests = digests + "*"

// Digests is that subject of a partition.
func Digests(partition int) string { return digests + strconv.Itoa(partition) }

// Members is the subject at which collectors that share PINT's digests say that they are there.
const Members = "weir.members"
