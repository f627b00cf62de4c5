package lab

import (
	"encoding/json"
	"time"
)

// SwitchReport is what a switch says of itself when it ends (weir switch --report json),
// as far as the lab reads it. Raw is the whole object.
type SwitchReport struct {
	Name      string            `json:"name"`
	ID        uint64            `json:"id"`
	Pint      *PintReport       `json:"pint"`
	Ports     []PortReport      `json:"ports"`
	Received  uint64            `json:"received"`
	Forwarded uint64            `json:"forwarded"`
	Consumed  uint64            `json:"consumed"`
	Dropped   map[string]uint64 `json:"dropped"` // by reason
	Copies    CopiesReport      `json:"copies"`
	Stages    []StageReport     `json:"stages"`
	Balanced  bool              `json:"balanced"`
	Frames    FrameReport       `json:"frames"`
	Workers   []struct {
		Thread int `json:"thread"`
	} `json:"workers"`
	Raw json.RawMessage `json:"-"`
}

// PintReport is what a switch reports of its stage pint: its plans, and the latencies that it measured of all packets.
type PintReport struct {
	Plans []struct {
		ID     uint16 `json:"id"`
		Digest string `json:"digest"`
	} `json:"plans"`
	Measured []struct {
		Port    string  `json:"port"`
		Value   string  `json:"value"`
		Packets uint64  `json:"packets"`
		Median  float64 `json:"median"`
	} `json:"measured"`
}

// CopiesReport is what became of the copies that a switch made, as of flooded packets.
type CopiesReport struct {
	Received  uint64            `json:"received"` // made, or wanted
	Forwarded uint64            `json:"forwarded"`
	Consumed  uint64            `json:"consumed"`
	Dropped   map[string]uint64 `json:"dropped"` // by reason
}

// PortReport is one port of a [SwitchReport].
type PortReport struct {
	Name        string `json:"name"`
	Driver      string `json:"driver"`
	Mode        string `json:"mode"` // all that was granted
	Queues      int    `json:"queues"`
	Received    uint64 `json:"received"`    // packets that arrived and were taken
	Transmitted uint64 `json:"transmitted"` // packets that left
	Kept        uint64 `json:"kept"`        // left to the kernel
	RxRingFull  uint64 `json:"rx_ring_full"`
	RxNoFrame   uint64 `json:"rx_no_frame"`
	RxDropped   uint64 `json:"rx_dropped"`
	LinkTxDrops uint64 `json:"link_tx_drops"`
	LinkRxError uint64 `json:"link_rx_errors"`
}

// missed counts packets that reached the port's kernel side and no further.
func (p *PortReport) missed() uint64 { return p.RxRingFull + p.RxNoFrame + p.RxDropped }

// StageReport is one stage of a [SwitchReport].
type StageReport struct {
	Name        string  `json:"name"`
	Packets     uint64  `json:"packets"`
	Dropped     uint64  `json:"dropped"`
	NsPerPacket float64 `json:"ns_per_packet"` // sampled
}

// FrameReport counts the switch's frames of memory.
type FrameReport struct {
	Total int `json:"total"`
	Lost  int `json:"lost"`
}

// droppedTotal sums the drops of all reasons, those of copies excluded.
func (r *SwitchReport) droppedTotal() uint64 { return sum(r.Dropped) }

func sum(byReason map[string]uint64) (n uint64) {
	for _, v := range byReason {
		n += v
	}
	return n
}

// SwitchEnd is the end of one switch.
type SwitchEnd struct {
	Name   string        `json:"name"`
	Exit   Exit          `json:"exit"`
	Report *SwitchReport `json:"-"`
	Fault  string        `json:"fault,omitempty"` // why there is no report
	Log    string        `json:"log,omitempty"`   // the log's last lines, after a bad end
	// Late is by how much packets of generated flows were late on average where they arrived, as the switch's workers waited for a
	// processor; 0 also where the kernel does not say.
	Late time.Duration `json:"late_ns,omitempty"`
}

// MarshalJSON adds the report as the switch has written it.
func (e SwitchEnd) MarshalJSON() ([]byte, error) {
	type plain SwitchEnd
	var raw json.RawMessage
	if e.Report != nil {
		raw = e.Report.Raw
	}
	return json.Marshal(struct {
		plain
		Report json.RawMessage `json:"report"`
	}{plain(e), raw})
}
