package lacp

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Length is that of a LACPDU and of a marker PDU, in bytes from the subtype on.
const Length = 110

// Group is where the slow protocols' frames go to (IEEE 802.3, 57A.3), and EtherType is theirs.
var Group = [6]byte{0x01, 0x80, 0xc2, 0, 0, 2}

// EtherType is that of the slow protocols.
const EtherType = 0x8809

// The subtypes of the slow protocols that are LACP's.
const (
	SubtypeLACP   = 1
	SubtypeMarker = 2
)

// State are the flags of a participant (6.4.2.3, Actor_State).
type State uint8

// The flags.
const (
	Activity        State = 1 << iota // it sends LACPDUs whether or not the partner does
	ShortTimeout                      // it wants a LACPDU each second, else each 30 s
	Aggregation                       // the link can be aggregated; else it is individual
	Synchronization                   // the link is in the right group
	Collecting                        // packets are taken
	Distributing                      // packets are sent
	Defaulted                         // what it says of the partner was not received
	Expired                           // the partner is silent
)

var stateNames = [...]string{"activity", "timeout", "aggregation", "synchronization", "collecting", "distributing", "defaulted", "expired"}

// String names the flags that are set, separated by commas.
func (s State) String() string {
	var names []string
	for i, name := range stateNames {
		if s>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Has reports whether all of some flags are set.
func (s State) Has(all State) bool { return s&all == all }

// System is a system's identity. The lower one, priority first, is the one that decides.
type System struct {
	Priority uint16
	MAC      [6]byte
}

// String writes the priority and the address.
func (s System) String() string {
	m := s.MAC
	return fmt.Sprintf("%d,%02x:%02x:%02x:%02x:%02x:%02x", s.Priority, m[0], m[1], m[2], m[3], m[4], m[5])
}

// Participant is one end of a link, as a LACPDU tells of it.
type Participant struct {
	System       System
	Key          uint16 // links of equal keys can be aggregated
	PortPriority uint16
	Port         uint16
	State        State
}

// String writes the identity and the flags.
func (p Participant) String() string {
	return fmt.Sprintf("system %s key %d port %d,%d state %s", p.System, p.Key, p.PortPriority, p.Port, p.State)
}

// PDU is a LACPDU.
type PDU struct{ Actor, Partner Participant }

// The TLVs of a LACPDU and of a marker PDU, with their lengths.
const (
	tlvActor, tlvPartner, participantLength = 1, 2, 20
	tlvCollector, collectorLength           = 3, 16
	tlvMarker, tlvMarkerResponse, markerLen = 1, 2, 16
	actorAt, partnerAt, collectorAt         = 2, 22, 42
)

// Valid reports whether data, from the subtype on, is a LACPDU. Of later versions than 1 only what version 1 has is looked at (6.4.2.4.2);
// bytes behind Length are padding, or of those.
func Valid(data []byte) bool {
	if len(data) < Length {
		return false
	}
	d := (*[Length]byte)(data)
	return d[0] == SubtypeLACP && d[1] != 0 &&
		d[actorAt] == tlvActor && d[actorAt+1] == participantLength &&
		d[partnerAt] == tlvPartner && d[partnerAt+1] == participantLength &&
		(d[1] > 1 || d[collectorAt] == tlvCollector && d[collectorAt+1] == collectorLength)
}

// Decode reads a LACPDU, from the subtype on, and reports false if it is none. It retains nothing of data.
func Decode(data []byte) (p PDU, ok bool) {
	if !Valid(data) {
		return p, false
	}
	return PDU{participant(data[actorAt+2:]), participant(data[partnerAt+2:])}, true
}

func participant(d []byte) Participant {
	return Participant{
		System:       System{binary.BigEndian.Uint16(d), [6]byte(d[2:8])},
		Key:          binary.BigEndian.Uint16(d[8:]),
		PortPriority: binary.BigEndian.Uint16(d[10:]),
		Port:         binary.BigEndian.Uint16(d[12:]),
		State:        State(d[14]),
	}
}

// Append appends the LACPDU, version 1, to dst.
func (p *PDU) Append(dst []byte) []byte {
	end := len(dst) + Length
	dst = append(dst, SubtypeLACP, 1, tlvActor, participantLength)
	dst = p.Actor.append(dst)
	dst = append(dst, tlvPartner, participantLength)
	dst = p.Partner.append(dst)
	dst = append(dst, tlvCollector, collectorLength) // a delay of 0: what arrives is forwarded at once
	return append(dst, make([]byte, end-len(dst))...)
}

func (p *Participant) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, p.System.Priority)
	dst = append(dst, p.System.MAC[:]...)
	dst = binary.BigEndian.AppendUint16(dst, p.Key)
	dst = binary.BigEndian.AppendUint16(dst, p.PortPriority)
	dst = binary.BigEndian.AppendUint16(dst, p.Port)
	return append(dst, byte(p.State), 0, 0, 0)
}

// MarkerResponse turns a marker PDU into the response to it (6.5.3.3), in place. It reports false for other PDUs, responses among them.
func MarkerResponse(data []byte) bool {
	if len(data) < Length || data[0] != SubtypeMarker || data[1] == 0 || data[2] != tlvMarker || data[3] != markerLen {
		return false
	}
	data[1], data[2] = 1, tlvMarkerResponse
	return true
}
