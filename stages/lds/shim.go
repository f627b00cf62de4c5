package lds

// The shim stands behind the addresses and VLAN tags:
// EtherType 0x88b5, then version(4) interval(1) reserved(3).
const (
	macs         = 12
	typeShimHigh = 0x88
	typeShimLow  = 0xb5
	shimVersion  = 1
	shimInterval = 0x08
	maxTags      = 4
)

// intervalBit reads the interval bit of a packet's shim, which it finds by
// itself, so that it holds whatever the parser knows of shims. It reports false
// for a packet without a shim of a version that it knows.
func intervalBit(data []byte) (odd, marked bool) {
	at := macs
	for range maxTags {
		if len(data) < at+3 {
			return false, false
		}
		switch [2]byte{data[at], data[at+1]} {
		case [2]byte{typeShimHigh, typeShimLow}:
			s := data[at+2]
			return s&shimInterval != 0, s>>4 == shimVersion
		case [2]byte{0x81, 0x00}, [2]byte{0x88, 0xa8}:
			at += 4
		default:
			return false, false
		}
	}
	return false, false
}
