package l2

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
)

// Announce implements pipeline.Announcer: a RARP request with the station's address as its source, as VMMs send it for a machine that has moved. No host
// answers it, and switches learn by it as by any packet.
func (m *Module) Announce(port uint16, send func(frame []byte)) {
	const typeRARP, requestReverse, ethernet, length = 0x8035, 3, 1, 60
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.settings.Load()
	if int(port) >= len(s.ports) || s.ports[port].outside || s.ports[port].blocked != 0 {
		return
	}
	out, t := &s.ports[port], m.fdb
	frame := make([]byte, 0, length+tagLength)
	t.each(func(_ *bucket, _ int, at, entry uint64) {
		key := t.key(at, entry)
		vlan, mac := keyVLAN(key), keyMAC(key)
		if t.port(entry) == port || !out.has(vlan) || !mac.learnable() {
			return
		}
		frame = append(frame[:0], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		frame = append(frame, mac[:]...)
		if vlan != out.pvid && !out.opaque {
			frame = binary.BigEndian.AppendUint16(frame, header.TypeVLAN)
			frame = binary.BigEndian.AppendUint16(frame, vlan)
		}
		frame = binary.BigEndian.AppendUint16(frame, typeRARP)
		frame = binary.BigEndian.AppendUint16(frame, ethernet)
		frame = binary.BigEndian.AppendUint16(frame, header.TypeIPv4)
		frame = append(frame, 6, 4, 0, requestReverse)
		frame = append(frame, mac[:]...)
		frame = append(frame, 0, 0, 0, 0)
		frame = append(frame, mac[:]...)
		for len(frame) < length {
			frame = append(frame, 0)
		}
		send(frame)
	})
}

const tagLength = 4
