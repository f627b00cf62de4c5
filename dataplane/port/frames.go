package port

import "fmt"

// CheckFrames refuses a configured number of frames that cannot fill the fill
// rings of that many queues: those that come last would receive nothing.
func (c *DataplaneConfig) CheckFrames(queues int) error {
	least := queues * c.FillRing
	if c.Frames == 0 || c.Frames >= least {
		return nil
	}
	return fmt.Errorf("frames: %d cannot fill the fill rings of %d queues: choose %d or more, 0 for as many as the rings hold, or a smaller fill_ring",
		c.Frames, queues, least)
}
