package lds

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
)

// maxTags bounds the VLAN tags that are looked behind, as the parser does.
const maxTags = 8

// outermostShim is a packet's, nil: it has none of a version that is known.
func outermostShim(data []byte) header.Shim {
	end := header.EthernetLen
	for range maxTags {
		if len(data) < end || !header.IsVLAN(binary.BigEndian.Uint16(data[end-2:])) {
			break
		}
		end += header.VLANLen
	}
	if len(data) < end || binary.BigEndian.Uint16(data[end-2:]) != header.TypeShim {
		return nil
	}
	if s := header.ShimAt(data, end); s != nil && s.Version() == header.ShimVersion {
		return s
	}
	return nil
}

// intervalBit reads the interval bit of a packet's shim. It reports false for a packet without.
func intervalBit(data []byte) (odd, marked bool) {
	if s := outermostShim(data); s != nil {
		return s.Interval(), true
	}
	return false, false
}

// shimEdge is the edge in the last n bytes of the digest of a packet's shim, 0: it has none.
func shimEdge(data []byte, n int) uint32 {
	if s := outermostShim(data); s != nil && s.DigestLen() > n {
		return s.Edge(n)
	}
	return 0
}
