package lldp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/weirswitch/weir/internal/printable"
)

// The types of TLVs (802.1AB, table 8-1).
const (
	tlvEnd = iota
	tlvChassis
	tlvPort
	tlvTTL
	tlvPortDescription
	tlvSystemName
	tlvSystemDescription
	tlvCapabilities
	tlvManagement
	tlvOrganisation = 127
)

// The kinds of identifiers that are sent, and of those that are read, the ones that are no text (tables 8-2 and 8-3).
const (
	chassisMAC     = 4
	chassisAddress = 5
	chassisLocal   = 7
	portMAC        = 3
	portAddress    = 4
	portInterface  = 5
)

// The system's capabilities, by bit (table 8-4).
var capabilityNames = [...]string{"other", "repeater", "bridge", "wlan", "router", "telephone", "docsis", "station", "c-vlan", "s-vlan", "relay"}

const (
	capBridge = 1 << 2
	capRouter = 1 << 4
)

// pdu is what an LLDPDU says. Its texts are printable.
type pdu struct {
	key                            string // chassis and port as they were sent, with their kinds
	chassis, port                  string
	ttl                            uint16 // seconds
	portDescription                string
	systemName, systemDescription  string
	capabilities                   []string // in use
	management                     []string
	discardedTLVs, unrecognisedTLV int // of this frame
}

var (
	errOrder   = errors.New("the first TLVs are not chassis, port and time to live")
	errTwice   = errors.New("a mandatory TLV comes twice")
	errCut     = errors.New("a mandatory TLV ends behind the frame")
	errInvalid = errors.New("a mandatory TLV has a wrong length")
)

// parse reads an LLDPDU, the bytes behind the EtherType. What it cannot take of optional TLVs it counts; an error means that the frame
// is discarded. It keeps nothing of data.
func parse(data []byte) (p pdu, err error) {
	seen := map[int]bool{}
	for n := 0; ; n++ {
		if len(data) < 2 { // the End TLV is optional where the frame ends (8.5.1)
			if n < 3 {
				return p, errCut
			}
			if len(data) == 1 {
				p.discardedTLVs++
			}
			return p, nil
		}
		word := binary.BigEndian.Uint16(data)
		typ, length := int(word>>9), int(word&0x1ff)
		if n < 3 && typ != n+1 {
			return p, errOrder
		}
		if len(data)-2 < length {
			if n < 3 {
				return p, errCut
			}
			p.discardedTLVs++
			return p, nil
		}
		value := data[2 : 2+length]
		data = data[2+length:]
		if typ == tlvEnd {
			if length != 0 {
				p.discardedTLVs++
			}
			return p, nil
		}
		if n >= 3 && typ <= tlvTTL {
			return p, errTwice
		}
		// Of others than management addresses and those of organisations there is one (8.5): a second one is discarded.
		if seen[typ] && typ != tlvManagement && typ != tlvOrganisation {
			p.discardedTLVs++
			continue
		}
		seen[typ] = true
		switch err := p.take(typ, value); {
		case err != nil && n < 3:
			return p, err
		case err != nil:
			p.discardedTLVs++
		}
	}
}

// take reads the value of one TLV.
func (p *pdu) take(typ int, v []byte) error {
	text := func(to *string) error {
		if len(v) > maxText {
			return errInvalid
		}
		*to = printable.Text(string(v))
		return nil
	}
	switch typ {
	case tlvChassis, tlvPort:
		if len(v) < 2 || len(v) > 1+maxText {
			return errInvalid
		}
		p.key += fmt.Sprintf("%d:%s/", len(v), v)
		if typ == tlvChassis {
			p.chassis = identifier(v, chassisMAC, chassisAddress)
		} else {
			p.port = identifier(v, portMAC, portAddress)
		}
	case tlvTTL:
		if len(v) < 2 {
			return errInvalid
		}
		p.ttl = binary.BigEndian.Uint16(v)
	case tlvPortDescription:
		return text(&p.portDescription)
	case tlvSystemName:
		return text(&p.systemName)
	case tlvSystemDescription:
		return text(&p.systemDescription)
	case tlvCapabilities:
		if len(v) < 4 {
			return errInvalid
		}
		enabled := binary.BigEndian.Uint16(v[2:])
		for bit, name := range capabilityNames {
			if enabled>>bit&1 != 0 {
				p.capabilities = append(p.capabilities, name)
			}
		}
	case tlvManagement:
		// | length of subtype and address | subtype | address | interface numbering | number 4 | OID length | OID
		n := 0
		if len(v) > 0 {
			n = int(v[0])
		}
		if n < 2 || n > 32 || len(v) < 1+n+6 || len(v) < 1+n+6+int(v[1+n+5]) || v[1+n+5] > 128 {
			return errInvalid
		}
		if len(p.management) < maxAddresses {
			p.management = append(p.management, address(v[1], v[2:1+n]))
		}
	case tlvOrganisation:
		if len(v) < 4 {
			return errInvalid
		}
		p.unrecognisedTLV++
	default:
		p.unrecognisedTLV++
	}
	return nil
}

// identifier is the text of a chassis or a port. mac and addr are the kinds that are a MAC address, or one of a network.
func identifier(v []byte, mac, addr byte) string {
	switch kind, id := v[0], v[1:]; {
	case kind == mac && len(id) == 6:
		return net.HardwareAddr(id).String()
	case kind == mac || kind == addr && len(id) < 2:
		return fmt.Sprintf("%x", id)
	case kind == addr:
		return address(id[0], id[1:])
	default:
		return printable.Text(string(id))
	}
}

// address is the text of an address of a family of IANA's.
func address(family byte, a []byte) string {
	ip, ok := netip.AddrFromSlice(a)
	if ok && (family == 1 && ip.Is4() || family == 2 && ip.Is6()) {
		return ip.String()
	}
	if family == 6 && len(a) == 6 {
		return net.HardwareAddr(a).String()
	}
	return fmt.Sprintf("%d/%x", family, a)
}

// announcement is what a frame says of the switch and one of its ports.
type announcement struct {
	source            [6]byte
	chassis           string
	port, description string
	ttl               int
	system            string
	systemDescription string
	capabilities      uint16
	management        []netip.Addr
	maxFrame          int // 0: not known
}

// group is the address of the nearest bridge, which no bridge forwards (table 7-1).
var group = [6]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}

// etherType is that of LLDP.
const etherType = 0x88cc

// minFrame is the least length of an Ethernet frame without FCS.
const minFrame = 60

// frame makes the Ethernet frame.
func (a *announcement) frame() []byte {
	f := append(group[:len(group):len(group)], a.source[:]...)
	f = binary.BigEndian.AppendUint16(f, etherType)
	add := func(typ int, v ...byte) {
		f = binary.BigEndian.AppendUint16(f, uint16(typ<<9|len(v)))
		f = append(f, v...)
	}
	add(tlvChassis, append([]byte{chassisLocal}, a.chassis...)...)
	add(tlvPort, append([]byte{portInterface}, a.port...)...)
	add(tlvTTL, byte(a.ttl>>8), byte(a.ttl))
	for _, t := range []struct {
		typ  int
		text string
	}{{tlvPortDescription, a.description}, {tlvSystemName, a.system}, {tlvSystemDescription, a.systemDescription}} {
		if t.text != "" {
			add(t.typ, []byte(t.text)...)
		}
	}
	c := a.capabilities
	add(tlvCapabilities, byte(c>>8), byte(c), byte(c>>8), byte(c))
	for _, ip := range a.management {
		v := []byte{byte(1 + ip.BitLen()/8), 1}
		if ip.Is6() {
			v[1] = 2
		}
		v = append(v, ip.AsSlice()...)
		add(tlvManagement, append(v, 1, 0, 0, 0, 0, 0)...) // of no interface that has a number; no OID
	}
	if a.maxFrame != 0 { // 802.3, 79.3.4: with header and FCS
		add(tlvOrganisation, 0x00, 0x12, 0x0f, 4, byte(a.maxFrame>>8), byte(a.maxFrame))
	}
	add(tlvEnd)
	for len(f) < minFrame {
		f = append(f, 0)
	}
	return f
}

// clip is the first bytes of an identifier.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "") }
