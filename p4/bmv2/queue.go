package bmv2

import "fmt"

// MaxQueueRate is the highest rate of [Switch.SetQueueRate]: BMv2 spaces packets by whole nanoseconds.
const MaxQueueRate = 1_000_000_000

// SetQueueRate makes the queue of an output port let out so many packets per second at most: BMv2 sends a
// packet when it comes, or 1/rate behind the one before if that is later. What waits is in the packets'
// timestamps, and the queue still drops what it has no room for. 0 lifts the limit.
func (s *Switch) SetQueueRate(port int, packetsPerSecond int64) error {
	if port < 0 || port > maxPort {
		return fmt.Errorf("limit a queue: port %d is not 0 to %d", port, maxPort)
	}
	if packetsPerSecond < 0 || packetsPerSecond > MaxQueueRate {
		return fmt.Errorf("limit the queue of port %d: %d packets per second are not 0 to %d", port, packetsPerSecond, MaxQueueRate)
	}
	if _, err := s.runtime.call(serviceSwitch, "set_egress_queue_rate", fields{{1, int32(port)}, {2, packetsPerSecond}}); err != nil {
		return fmt.Errorf("limit the queue of port %d: %w", port, err)
	}
	return nil
}
