package xdp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Keep is traffic that the program leaves to the kernel. The zero value keeps nothing, and
// costs nothing.
type Keep struct {
	EtherTypes []uint16    // behind VLAN tags, or of a tag; at most MaxEtherTypes
	Protocols  []uint8     // IPv4 protocol, or any next header of IPv6
	Ports      []Transport // source or destination; at most MaxPorts
}

// Transport is a port of a transport protocol that begins with its ports, such as TCP and UDP.
type Transport struct {
	Protocol uint8
	Port     uint16
}

// The sizes of the program's lists (redirect.c).
const (
	maxEtherTypes = 8
	maxPorts      = 16
)

const (
	protocolTCP = 6
	protocolUDP = 17
)

// wellKnown are the words of a keep list.
var wellKnown = map[string]Keep{
	"arp":    {EtherTypes: []uint16{0x0806}},
	"lldp":   {EtherTypes: []uint16{0x88cc}},
	"icmp":   {Protocols: []uint8{1}},
	"icmpv6": {Protocols: []uint8{58}},
	"ospf":   {Protocols: []uint8{89}},
	"ssh":    {Ports: []Transport{{protocolTCP, 22}}},
}

// ParseKeep reads a keep list. Each entry is one of
//
//	arp, lldp, icmp, icmpv6, ospf, ssh   well-known words; ssh is tcp/22
//	ethertype/N                          an EtherType, 0x0600 to 0xffff
//	proto/N                              an IP protocol, 0 to 255
//	tcp/N, udp/N                         a source or destination port, 1 to 65535
//
// with N in decimal, or in hexadecimal behind 0x. VLAN tags (up to two) and IPv6 extension
// headers (up to eight) are looked through. Ports are seen in unfragmented packets and first
// fragments; protocols in all fragments. All faults are returned at once.
func ParseKeep(entries []string) (Keep, error) {
	var keep Keep
	var faults []error
	for _, entry := range entries {
		part, err := parseEntry(entry)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		keep.EtherTypes = append(keep.EtherTypes, part.EtherTypes...)
		keep.Protocols = append(keep.Protocols, part.Protocols...)
		keep.Ports = append(keep.Ports, part.Ports...)
	}
	faults = append(faults, keep.Validate())
	if err := errors.Join(faults...); err != nil {
		return Keep{}, err
	}
	return keep, nil
}

func parseEntry(entry string) (Keep, error) {
	if known, ok := wellKnown[entry]; ok {
		return known, nil
	}
	kind, number, _ := strings.Cut(entry, "/")
	least, most := uint64(0), uint64(0)
	switch kind {
	case "ethertype":
		least, most = 0x0600, 0xffff
	case "proto":
		most = 255
	case "tcp", "udp":
		least, most = 1, 65535
	default:
		return Keep{}, fmt.Errorf("keep entry %q: want arp, lldp, icmp, icmpv6, ospf, ssh, ethertype/N, proto/N, tcp/N or udp/N", entry)
	}
	n, err := parseNumber(number)
	if err != nil || n < least || n > most {
		return Keep{}, fmt.Errorf("keep entry %q: want a number from %d to %d (0x%x to 0x%x) behind %s/", entry, least, most, least, most, kind)
	}
	switch kind {
	case "ethertype":
		return Keep{EtherTypes: []uint16{uint16(n)}}, nil
	case "proto":
		return Keep{Protocols: []uint8{uint8(n)}}, nil
	case "tcp":
		return Keep{Ports: []Transport{{protocolTCP, uint16(n)}}}, nil
	default:
		return Keep{Ports: []Transport{{protocolUDP, uint16(n)}}}, nil
	}
}

func parseNumber(text string) (uint64, error) {
	if digits, ok := strings.CutPrefix(text, "0x"); ok {
		return strconv.ParseUint(digits, 16, 16)
	}
	return strconv.ParseUint(text, 10, 16)
}

// Empty reports whether nothing is kept.
func (k Keep) Empty() bool {
	return len(k.EtherTypes) == 0 && len(k.Protocols) == 0 && len(k.Ports) == 0
}

// Validate checks that the lists fit into the program.
func (k Keep) Validate() error {
	var faults []error
	if n := len(k.EtherTypes); n > maxEtherTypes {
		faults = append(faults, fmt.Errorf("keep list of %d EtherTypes: at most %d", n, maxEtherTypes))
	}
	if n := len(k.Ports); n > maxPorts {
		faults = append(faults, fmt.Errorf("keep list of %d ports: at most %d", n, maxPorts))
	}
	return errors.Join(faults...)
}
