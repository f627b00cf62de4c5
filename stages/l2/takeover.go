package l2

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirswitch/weir/pipeline"
)

var _ pipeline.Stateful = (*Module)(nil)

// stateVersion is that of the bridge's state: the stations that it has learned.
//
//	| version 1 | domains 2 | (length 1, name) ... | (key 8, port 2, stamp 4) ... |
//
// Numbers are little-endian; a key's VLAN is the number of a domain where there are domains. Ports are those of the process that has the state.
const stateVersion = 1

// stationSize in bytes.
const stationSize = 14

// AppendState implements pipeline.Stateful. Static entries are the configuration's.
func (m *Module) AppendState(dst []byte, _ []string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	domains := m.settings.Load().domains
	dst = append(dst, stateVersion)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(domains)))
	for _, name := range domains {
		if len(name) > 255 {
			return nil, fmt.Errorf("the name of a domain has %d bytes", len(name))
		}
		dst = append(append(dst, byte(len(name))), name...)
	}
	t := m.fdb
	t.each(func(b *bucket, i int, at, entry uint64) {
		if entry&t.static == 0 {
			dst = binary.LittleEndian.AppendUint64(dst, t.key(at, entry))
			dst = binary.LittleEndian.AppendUint16(dst, t.port(entry))
			dst = binary.LittleEndian.AppendUint32(dst, t.stamp(b, i))
		}
	})
	return dst, nil
}

var errState = errors.New("the state of a bridge is cut off")

// TakeState implements pipeline.Stateful. Stations of ports and domains that there are no more are left out.
func (m *Module) TakeState(state []byte, names []string, numbers map[string]uint16) error {
	if len(state) < 3 {
		return errState
	}
	if state[0] != stateVersion {
		return fmt.Errorf("the state of a bridge is of version %d, and not %d", state[0], stateVersion)
	}
	count := int(binary.LittleEndian.Uint16(state[1:]))
	state = state[3:]
	m.mu.Lock()
	defer m.mu.Unlock()
	ours := m.settings.Load().domains
	if count != 0 != (ours != nil) {
		return nil // VLANs are no domains
	}
	number := map[string]uint16{}
	for i, name := range ours {
		number[name] = uint16(i)
	}
	domains := make([]int, count) // theirs as ours, -1 for none
	for i := range domains {
		if len(state) == 0 || len(state) <= int(state[0]) {
			return errState
		}
		domains[i] = -1
		end := 1 + int(state[0])
		if n, ok := number[string(state[1:end])]; ok {
			domains[i] = int(n)
		}
		state = state[end:]
	}
	if len(state)%stationSize != 0 {
		return errState
	}
	now := stampOf(clockTAI())
	m.fdb.advance(now)
	ports := m.settings.Load().ports
	for ; len(state) != 0; state = state[stationSize:] {
		key := binary.LittleEndian.Uint64(state)
		from, stamp := int(binary.LittleEndian.Uint16(state[8:])), binary.LittleEndian.Uint32(state[10:])
		vlan := keyVLAN(key)
		if count != 0 {
			if int(vlan) >= count || domains[vlan] < 0 {
				continue
			}
			vlan = uint16(domains[vlan])
		}
		mac := keyMAC(key)
		if from >= len(names) || !mac.learnable() {
			continue
		}
		port, ok := numbers[names[from]]
		ok = ok && int(port) < len(ports) && ports[port].has(vlan) // as a reload has it
		if age := int32(now - stamp); !ok || age < 0 || uint32(age) > m.fdb.lifetime() {
			continue
		}
		m.fdb.learn(makeKey(vlan, mac), port, stamp)
	}
	return nil
}
