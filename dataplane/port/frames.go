package port

import "fmt"

// CheckFrames refuses a configured number of frames that cannot fill the fill
// rings of that many queues while held frames (Config.Held) wait to be sent: those that come last would receive nothing.
func (c *DataplaneConfig) CheckFrames(queues, held int) error {
	least := queues*c.FillRing + held
	switch {
	case c.Frames == 0 || c.Frames >= least:
		return nil
	case held == 0:
		return fmt.Errorf("frames: %d cannot fill the fill rings of %d queues: choose %d or more, 0 for as many as the rings hold, or a smaller fill_ring",
			c.Frames, queues, least)
	}
	return fmt.Errorf("frames: %d cannot fill the fill rings of %d queues while %d frames wait in queue_packets of ports: choose %d or more, 0 for as many as the rings hold, or a smaller fill_ring or queue_packets",
		c.Frames, queues, held, least)
}

// Held is how many frames wait at most in each queue of the port until they may be sent.
func (c *Config) Held() (frames int) {
	for i := range c.Classes {
		frames += c.classPackets(i)
	}
	if len(c.Classes) == 0 && c.RateBits != 0 {
		frames = c.queuePackets()
	}
	return frames
}
