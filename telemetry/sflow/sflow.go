// Package sflow encodes datagrams of sFlow version 5 (sflow.org, "sFlow Version 5", July 2004): flow samples with the beginning of sampled
// packets, and counter samples of interfaces. It does no I/O. All numbers are big-endian words (XDR).
//
//	| version 5 | agent address | sub-agent | sequence | uptime ms | n | n samples |
//	flow sample:    | 1 | length | sequence | source | rate | pool | drops | input | output | 1 record: raw header |
//	counter sample: | 2 | length | sequence | source | 2 records: generic interface counters, name of the port |
//
// Expanded samples (interface numbers beyond 2^24), counters of ethernet and processors, and other records of flows are not made.
package sflow

import (
	"encoding/binary"
	"net/netip"
)

// Special values of Flow.Input and Flow.Output, which are interface numbers else.
const (
	Unknown  = 0
	Internal = 0x3fffffff // the switch itself
	Dropped  = 1 << 30    // with a reason in the lower bits; 256 is "unknown"
	Several  = 1 << 31    // several interfaces, with their number in the lower bits; 0 if that is not known
)

// DropUnknown is Flow.Output of a packet that was dropped for a reason that sFlow does not name.
const DropUnknown = Dropped | 256

// The bounds of a datagram and of what is sampled of a packet, in bytes. A datagram fits an Ethernet frame over IPv6.
const (
	MaxDatagram = 1400
	MaxHeader   = 256
)

// Flow is a sampled packet.
type Flow struct {
	Source   uint32 // the interface that samples, less than 2^24
	Sequence uint32 // of this source's flow samples
	Rate     uint32 // one packet in so many is sampled
	Pool     uint32 // packets that could have been, since the beginning; it wraps
	Drops    uint32 // samples that were lost; it wraps
	Input    uint32
	Output   uint32
	Length   uint32 // of the packet, without FCS
	Header   []byte // its beginning, from the Ethernet header on, MaxHeader at most
}

// NotCounted is the value of a counter that is not kept.
const NotCounted = 1<<64 - 1

// Counters are those of an interface.
type Counters struct {
	Source      uint32
	Sequence    uint32 // of this source's counter samples
	Name        string // of the port, 64 bytes at most
	Speed       uint64 // bits per second, 0: not known
	Up          bool
	InOctets    uint64
	InPackets   uint64
	InDiscards  uint64
	InErrors    uint64
	OutOctets   uint64
	OutPackets  uint64
	OutDiscards uint64
	OutErrors   uint64
	Promiscuous bool
}

const fcs = 4

// Datagram is a datagram in the making. Its memory is used again for the next one. The zero value is ready for Begin.
type Datagram struct {
	b       []byte
	samples uint32
	countAt int
}

// Begin empties the datagram, and writes what is in front of samples. uptime is in milliseconds.
func (d *Datagram) Begin(agent netip.Addr, subAgent, sequence, uptime uint32) {
	d.b = binary.BigEndian.AppendUint32(d.b[:0], 5)
	kind := uint32(1)
	if agent.Is6() {
		kind = 2
	}
	d.b = append(binary.BigEndian.AppendUint32(d.b, kind), agent.AsSlice()...)
	d.words(subAgent, sequence, uptime)
	d.countAt = len(d.b)
	d.words(0)
	d.samples = 0
}

func (d *Datagram) words(all ...uint32) {
	for _, w := range all {
		d.b = binary.BigEndian.AppendUint32(d.b, w)
	}
}

func (d *Datagram) long(v uint64) { d.b = binary.BigEndian.AppendUint64(d.b, v) }

// opaque appends bytes with their length, padded to words.
func (d *Datagram) opaque(data []byte) {
	d.words(uint32(len(data)))
	d.b = append(d.b, data...)
	for len(d.b)%4 != d.countAt%4 {
		d.b = append(d.b, 0)
	}
}

// Samples is how many there are.
func (d *Datagram) Samples() int { return int(d.samples) }

// Bytes are the datagram's. They are valid until the next Begin.
func (d *Datagram) Bytes() []byte {
	binary.BigEndian.PutUint32(d.b[d.countAt:], d.samples)
	return d.b
}

// open begins something with a type and a length, and returns where it begins.
func (d *Datagram) open(kind uint32) int {
	d.words(kind, 0)
	return len(d.b)
}

func (d *Datagram) close(at int) { binary.BigEndian.PutUint32(d.b[at-4:], uint32(len(d.b)-at)) }

// fits ends a sample that began at a length, or takes it away if it is beyond the bound.
func (d *Datagram) fits(began int) bool {
	if len(d.b) > MaxDatagram {
		d.b = d.b[:began]
		return false
	}
	d.samples++
	return true
}

// AddFlow appends a flow sample. It reports false, and the datagram is as it was, if it does not fit.
func (d *Datagram) AddFlow(f *Flow) bool {
	began := len(d.b)
	sample := d.open(1)
	d.words(f.Sequence, f.Source&(1<<24-1), f.Rate, f.Pool, f.Drops, f.Input, f.Output, 1)
	record := d.open(1)
	header := f.Header[:min(len(f.Header), MaxHeader)]
	// Ethernet; lengths have the FCS, which is not in the header.
	d.words(1, f.Length+fcs, fcs)
	d.opaque(header)
	d.close(record)
	d.close(sample)
	return d.fits(began)
}

const maxName = 64

// AddCounters appends a counter sample. It reports false, and the datagram is as it was, if it does not fit.
func (d *Datagram) AddCounters(c *Counters) bool {
	began := len(d.b)
	sample := d.open(2)
	d.words(c.Sequence, c.Source&(1<<24-1), 2)
	record := d.open(1)
	const ethernetCSMACD, fullDuplex, notCounted = 6, 1, 1<<32 - 1
	d.words(c.Source, ethernetCSMACD)
	d.long(c.Speed)
	status := uint32(1) // the administrative state
	if c.Up {
		status |= 2
	}
	d.words(fullDuplex, status)
	d.long(c.InOctets)
	// Packets are counted together, not by unicast, multicast and broadcast.
	d.words(uint32(c.InPackets), notCounted, notCounted, uint32(c.InDiscards), uint32(c.InErrors), notCounted)
	d.long(c.OutOctets)
	promiscuous := uint32(2)
	if c.Promiscuous {
		promiscuous = 1
	}
	d.words(uint32(c.OutPackets), notCounted, notCounted, uint32(c.OutDiscards), uint32(c.OutErrors), promiscuous)
	d.close(record)
	record = d.open(1005)
	d.opaque([]byte(c.Name[:min(len(c.Name), maxName)]))
	d.close(record)
	d.close(sample)
	return d.fits(began)
}
