package vhost

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/dataplane/shmem"
)

// The features of virtio that are offered (virtio 1.3, sections 5.1.3 and 6; the front-end's
// protocol adds one). With Config.Offloads packets from the guest are completed on arrival, but for large ones (decision 22).
const (
	netChecksum   = 1 << 0  // VIRTIO_NET_F_CSUM
	netTCP4       = 1 << 11 // VIRTIO_NET_F_HOST_TSO4
	netTCP6       = 1 << 12 // VIRTIO_NET_F_HOST_TSO6
	netECN        = 1 << 13 // VIRTIO_NET_F_HOST_ECN
	guestChecksum = 1 << 1  // VIRTIO_NET_F_GUEST_CSUM
	guestTCP4     = 1 << 7  // VIRTIO_NET_F_GUEST_TSO4
	guestTCP6     = 1 << 8  // VIRTIO_NET_F_GUEST_TSO6
	guestECN      = 1 << 9  // VIRTIO_NET_F_GUEST_ECN
	guestUDP4     = 1 << 54 // VIRTIO_NET_F_GUEST_USO4
	guestUDP6     = 1 << 55 // VIRTIO_NET_F_GUEST_USO6
	netMergeable  = 1 << 15 // VIRTIO_NET_F_MRG_RXBUF
	netControl    = 1 << 17 // VIRTIO_NET_F_CTRL_VQ, whose ring the front-end serves
	netAnnounce   = 1 << 21 // VIRTIO_NET_F_GUEST_ANNOUNCE: a guest that has moved says so, where the front-end asks it to
	netMQ         = 1 << 22 // VIRTIO_NET_F_MQ
	logAll        = 1 << 26 // VHOST_F_LOG_ALL, of the front-end: pages that are written are marked
	ringIndirect  = 1 << 28 // VIRTIO_RING_F_INDIRECT_DESC
	ringEventIdx  = 1 << 29 // VIRTIO_RING_F_EVENT_IDX
	hasProtocol   = 1 << 30 // VHOST_USER_F_PROTOCOL_FEATURES
	version1      = 1 << 32 // VIRTIO_F_VERSION_1
	ringPacked    = 1 << 34 // VIRTIO_F_RING_PACKED
	netUDP        = 1 << 56 // VIRTIO_NET_F_HOST_USO
	offloads      = netChecksum | netTCP4 | netTCP6 | netECN | netUDP | guestChecksum | guestTCP4 | guestTCP6 | guestECN | guestUDP4 | guestUDP6
	offered       = netMergeable | netControl | netAnnounce | netMQ | logAll | ringIndirect | ringEventIdx | hasProtocol | version1 | ringPacked
	offeredByWire = protocolMQ | protocolLog | protocolReplyAck | protocolInflight | protocolSlots
)

// offered are the features of virtio that this device offers.
func (d *Device) offered() uint64 {
	if d.config.Offloads {
		return offered | offloads
	}
	return offered
}

// handle does what a message says, and answers it.
func (d *Device) handle(c *net.UnixConn, m *message) error {
	switch m.request {
	case getFeatures:
		return m.reply(c, d.offered())
	case getProtocolFeatures:
		return m.reply(c, offeredByWire)
	case getQueueNum:
		return m.reply(c, uint64(d.config.Queues))
	case getMaxMemSlots:
		return m.reply(c, maxSlots)
	case getVringBase:
		return d.getBase(c, m)
	case getInflightFD:
		return d.getInflight(c, m)
	case setLogBase:
		if err := d.setLog(m); err != nil {
			return err
		}
		return m.answer(c, nil) // whether one was asked for or not
	}
	if err := d.apply(m); err != nil {
		return err
	}
	if m.flags&flagNeedReply != 0 && d.protocol&protocolReplyAck != 0 {
		return m.reply(c, 0)
	}
	return nil
}

// apply does what a message says that has no answer.
func (d *Device) apply(m *message) error {
	switch m.request {
	case setOwner, resetOwner, sendRARP, setVringErr, setLogFD:
		return nil // a guest that moved announces itself; neither errors nor a log's changes are notified
	case setFeatures:
		return d.setFeatures(m)
	case setProtocolFeatures:
		v, err := m.number()
		if err == nil && v&^uint64(offeredByWire) != 0 {
			err = fmt.Errorf("features %#x of the protocol, of which %#x were offered", v, offeredByWire)
		}
		d.protocol = v
		return err
	case setMemTable:
		regions, err := mapTable(m.payload, m.files)
		if err != nil {
			return err
		}
		return d.remap(mappings{regions, d.mapped.log, d.mapped.inflight}, false)
	case addMemReg, remMemReg:
		return d.changeMemory(m)
	case setInflightFD:
		return d.setInflight(m)
	case setVringKick, setVringCall:
		return d.setNotification(m)
	case setVringNum, setVringBase, setVringAddr, setVringEnable:
		index, value, err := m.state()
		if err != nil {
			return err
		}
		return d.withRing(index, func(v *Vring) error { return d.setRing(v, m, value) })
	}
	return fmt.Errorf("request %d, which was not negotiated", m.request)
}

func (d *Device) withRing(index uint32, f func(*Vring) error) error {
	if index >= uint32(len(d.vrings)) {
		return fmt.Errorf("ring %d of %d: set queues to as many pairs as the front-end has", index, len(d.vrings))
	}
	v := d.vrings[index]
	v.gate.Lock()
	defer v.gate.Unlock()
	return f(v)
}

func (d *Device) setFeatures(m *message) error {
	v, err := m.number()
	if err != nil {
		return err
	}
	if v&^d.offered() != 0 {
		return fmt.Errorf("features %#x, of which %#x were offered", v, d.offered())
	}
	logging := (d.features^v)&logAll != 0
	d.features = v
	d.mu.Lock()
	d.status.Features = v
	d.mu.Unlock()
	for _, r := range d.vrings {
		r.gate.Lock()
		r.negotiated(v)
		r.gate.Unlock()
	}
	if logging { // a migration begins or ends, while rings run
		return d.remap(d.mapped, false)
	}
	return nil
}

// negotiated notes the features. A running ring keeps those that it began with: the front-end stops it before
// it changes them. The caller holds the lock.
func (v *Vring) negotiated(features uint64) {
	l := &v.layout
	l.Packed = features&ringPacked != 0
	l.Indirect = features&ringIndirect != 0
	l.EventIdx = features&ringEventIdx != 0
	l.Mergeable = features&netMergeable != 0
	has := func(bits uint64) bool { return features&bits == bits }
	l.Offloads = gso.Offloads{Checksum: has(netChecksum), TCP4: has(netTCP4), TCP6: has(netTCP6), UDP: has(netUDP), ECN: has(netECN)}
	l.Guest = gso.Offloads{}
	if has(guestChecksum) { // without it the others have no meaning (virtio 1.3, 5.1.3.1)
		l.Guest = gso.Offloads{Checksum: true, TCP4: has(guestTCP4), TCP6: has(guestTCP6), UDP: has(guestUDP4 | guestUDP6), ECN: has(guestECN)}
	}
	guest := l.Guest
	v.guest.Store(&guest)
	l.Header = 10
	if features&(netMergeable|version1) != 0 {
		l.Header = 12
	}
	if features&hasProtocol == 0 {
		v.enabled = true // there is no message for it
		v.changed()
	}
}

// setNotification takes the descriptor of a ring's kick, with which the ring starts, or of its call. Bits 0 to 7 are the ring,
// bit 8 says that there is none.
func (d *Device) setNotification(m *message) error {
	value, err := m.number()
	if err != nil {
		return err
	}
	fd := -1
	if value&(1<<8) == 0 {
		if fd, err = m.takeFile(); err != nil {
			return err
		}
		m.files = append(m.files, fd) // until the ring has it
		if err := shmem.Eventfd(fd); err != nil {
			return err
		}
	} else if len(m.files) != 0 {
		return fmt.Errorf("request %d without a descriptor has %d", m.request, len(m.files))
	}
	return d.withRing(uint32(value&0xff), func(v *Vring) error {
		m.files = m.files[:0]
		if m.request == setVringCall {
			v.setCall(fd)
			return nil
		}
		if err := v.setKick(fd); err != nil {
			return err
		}
		v.started = true
		return v.start()
	})
}

// setRing sets one property of a ring; the caller holds its lock.
func (d *Device) setRing(v *Vring, m *message, value uint32) error {
	switch m.request {
	case setVringEnable:
		v.enabled = value != 0
		v.changed()
		return nil
	case setVringAddr:
		// The index, flags (of the dirty log), and the addresses of descriptors, used and available ring.
		if len(m.payload) < 32 {
			return fmt.Errorf("addresses of a ring in %d bytes: want 32 or more", len(m.payload))
		}
		v.layout.Desc = binary.LittleEndian.Uint64(m.payload[8:])
		v.layout.Device = binary.LittleEndian.Uint64(m.payload[16:])
		v.layout.Driver = binary.LittleEndian.Uint64(m.payload[24:])
		v.layout.Log = value&1 != 0
		if v.layout.Log && len(m.payload) < 40 {
			return fmt.Errorf("addresses of a ring with a log in %d bytes: want 40", len(m.payload))
		}
		if v.layout.Log {
			v.layout.LogUsed = binary.LittleEndian.Uint64(m.payload[32:])
		}
		v.placed = true
		if v.ring == nil {
			return nil
		}
		v.stop() // the log's address changes while a ring runs
		return v.start()
	}
	if v.ring != nil {
		return fmt.Errorf("request %d for ring %d while it runs", m.request, v.index)
	}
	if m.request == setVringBase {
		v.layout.Base, v.layout.Cut = value, 0
		return nil
	}
	if value == 0 || value > 1<<15 {
		return fmt.Errorf("ring %d of %d descriptors: want 1 to %d", v.index, value, 1<<15)
	}
	v.layout.Size = int(value)
	return nil
}

// getBase stops a ring and answers where it stopped.
func (d *Device) getBase(c *net.UnixConn, m *message) error {
	index, _, err := m.state()
	if err != nil {
		return err
	}
	var base uint32
	err = d.withRing(index, func(v *Vring) error {
		v.stop()
		base, v.layout.Cut = v.layout.Base, 0
		_ = v.setKick(-1)
		v.setCall(-1)
		v.placed, v.started = false, false
		return nil
	})
	if err != nil {
		return err
	}
	return m.reply(c, uint64(index)|uint64(base)<<32)
}

// FeatureNames lists the negotiated features that change what a ring does, for reports.
func FeatureNames(features uint64) []string {
	names := []string{"split"}
	if features&ringPacked != 0 {
		names[0] = "packed"
	}
	for _, f := range []struct {
		bit  uint64
		name string
	}{{netMergeable, "mergeable"}, {ringIndirect, "indirect"}, {ringEventIdx, "event index"}, {netChecksum, "checksum"}, {netTCP4 | netTCP6 | netUDP, "segmentation"}, {guestTCP4 | guestTCP6 | guestUDP4, "large receive"}} {
		if features&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	return names
}
