package port

import "github.com/weirswitch/weir/pipeline/packet"

// Down returns the queue of a port whose interface is gone: nothing
// arrives, and what is to be sent is refused with packet.ReasonPortDown. It
// holds no frame and any number of workers may have it.
func Down() Queue { return down{unshared{}} }

type down struct{ unshared }

func (down) Receive(*packet.Batch) int            { return 0 }
func (down) Transmit(*packet.Batch, []uint16) int { return 0 }
func (down) Refusal() packet.Reason               { return packet.ReasonPortDown }
func (down) Service() bool                        { return false }
func (down) Depth() int                           { return 0 }
func (down) FD() int                              { return -1 }
func (down) Ended() bool                          { return false }
func (down) Close() (Rest, error)                 { return Rest{}, nil }
