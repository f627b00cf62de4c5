package packet

import "fmt"

// Reason says why a packet was dropped or where it ended. The zero Reason is
// no reason: the packet lives. Reasons are registered once, at package
// initialisation, by the stage or driver that gives them.
type Reason uint8

// MaxReasons bounds the number of reasons in one binary.
const MaxReasons = 128

// Consumed marks a packet that the switch took for itself (an answered ARP
// request, say). It is not a loss: received = forwarded + dropped + consumed.
const Consumed Reason = 1

// The reasons that the packet path itself gives. Stages register their own.
var (
	ReasonNoPort      = Register("no_port", "no stage chose an output port")
	ReasonTxFull      = Register("tx_full", "the output port's TX ring stayed full")
	ReasonHandoffFull = Register("handoff_full", "the ring to the worker that owns the output queue, or has the connection, was full")
	ReasonNoFrame     = Register("no_frame", "no free frame was left for a copy of the packet")
	ReasonNoRoom      = Register("no_room", "the batch was full, so a copy of the packet was not made")
	ReasonTooLong     = Register("too_long", "the packet exceeds what the output port can send")
	ReasonPortDown    = Register("port_down", "the output port is down")
	ReasonShutdown    = Register("shutdown", "the switch was closing")
	ReasonNoHeadroom  = Register("no_headroom", "no room in front of the packet for the VLAN tag of the output port")
)

type reasonText struct{ name, help string }

// Index 0 is the absence of a reason, index 1 is Consumed.
var reasons = []reasonText{{"", ""}, {"consumed", "taken by the switch itself"}}

// Register adds a drop reason; name is its spelling in metrics and reports
// (lower case, underscores), help one clause. It panics on a repeated name or
// too many reasons, and must only be called during package initialisation.
func Register(name, help string) Reason {
	for _, r := range reasons {
		if r.name == name {
			panic(fmt.Sprintf("packet: drop reason %q registered twice", name))
		}
	}
	if len(reasons) == MaxReasons {
		panic("packet: too many drop reasons")
	}
	reasons = append(reasons, reasonText{name, help})
	return Reason(len(reasons) - 1)
}

// String returns the reason's name in metrics and reports.
func (r Reason) String() string {
	if int(r) >= len(reasons) {
		return fmt.Sprintf("reason_%d", uint8(r))
	}
	return reasons[r].name
}

// Help returns one clause that explains the reason.
func (r Reason) Help() string {
	if int(r) >= len(reasons) {
		return ""
	}
	return reasons[r].help
}

// Reasons returns all registered drop reasons, Consumed excluded.
func Reasons() []Reason {
	rs := make([]Reason, 0, len(reasons)-2)
	for i := 2; i < len(reasons); i++ {
		rs = append(rs, Reason(i))
	}
	return rs
}
