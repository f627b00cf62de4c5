package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/virtio"
)

// changeMemory adds one region to the guest's memory, or removes one. The message has 8 bytes of padding and the region.
func (d *Device) changeMemory(m *message) error {
	if len(m.payload) < 8+regionSize {
		return fmt.Errorf("a memory region in %d bytes: want %d", len(m.payload), 8+regionSize)
	}
	region := m.payload[8:]
	next := d.mapped
	if m.request == addMemReg {
		if len(next.regions) == maxSlots || len(m.files) != 1 {
			return fmt.Errorf("memory region %d with %d descriptors: want 1, and at most %d regions", len(next.regions), len(m.files), maxSlots)
		}
		added, err := mapRegion(m.files[0], region, room(next.regions))
		if err != nil {
			return fmt.Errorf("add a memory region: %w", err)
		}
		next.regions = append(slices.Clone(next.regions), added)
		return d.remap(next, true)
	}
	guest, size, user := binary.LittleEndian.Uint64(region), binary.LittleEndian.Uint64(region[8:]), binary.LittleEndian.Uint64(region[16:])
	i := slices.IndexFunc(next.regions, func(r *mapping) bool {
		return r.region.Guest == guest && r.region.User == user && uint64(len(r.region.Bytes)) == size
	})
	if i < 0 {
		return fmt.Errorf("remove a memory region of %d bytes at %#x (user %#x), which there is not", size, guest, user)
	}
	next.regions = slices.Delete(slices.Clone(next.regions), i, i+1)
	return d.remap(next, true)
}

// setLog takes the log of dirty pages: its length and its offset in the file.
func (d *Device) setLog(m *message) error {
	if len(m.payload) < 16 || len(m.files) != 1 {
		return fmt.Errorf("a log in %d bytes with %d descriptors: want 16 and 1", len(m.payload), len(m.files))
	}
	log, err := mapFile(m.files[0], binary.LittleEndian.Uint64(m.payload), binary.LittleEndian.Uint64(m.payload[8:]), maxBeside)
	if err != nil {
		return fmt.Errorf("the log of dirty pages: %w", err)
	}
	return d.remap(mappings{d.mapped.regions, log, d.mapped.inflight}, false)
}

// inflightOf reads the message about buffers in flight: length and offset of the memory, number and size of the rings.
func (d *Device) inflightOf(m *message) (size, offset uint64, rings, descriptors int, err error) {
	if len(m.payload) < 20 {
		return 0, 0, 0, 0, fmt.Errorf("request %d of %d bytes: want 20", m.request, len(m.payload))
	}
	size, offset = binary.LittleEndian.Uint64(m.payload), binary.LittleEndian.Uint64(m.payload[8:])
	rings, descriptors = int(binary.LittleEndian.Uint16(m.payload[16:])), int(binary.LittleEndian.Uint16(m.payload[18:]))
	if rings == 0 || rings > len(d.vrings) || descriptors == 0 || descriptors > 1<<15 {
		err = fmt.Errorf("tracking of %d rings of %d descriptors: want 1 to %d of 1 to %d", rings, descriptors, len(d.vrings), 1<<15)
	}
	return size, offset, rings, descriptors, err
}

// getInflight answers with new memory, which the front-end keeps for the back-end after this one.
func (d *Device) getInflight(c *net.UnixConn, m *message) error {
	_, _, rings, descriptors, err := d.inflightOf(m)
	if err != nil {
		return err
	}
	size := rings * virtio.InflightSize(descriptors, d.features&ringPacked != 0)
	fd, err := unix.MemfdCreate("weir-inflight", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("make memory to track buffers in flight: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.Ftruncate(fd, int64(size))
	if _, sealErr := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil || sealErr != nil {
		return fmt.Errorf("make %d bytes to track buffers in flight: %w", size, errors.Join(err, sealErr))
	}
	payload := binary.LittleEndian.AppendUint64(nil, uint64(size))
	payload = binary.LittleEndian.AppendUint64(payload, 0)
	payload = binary.LittleEndian.AppendUint16(payload, uint16(rings))
	payload = binary.LittleEndian.AppendUint16(payload, uint16(descriptors))
	return m.answer(c, append(payload, 0, 0, 0, 0), fd)
}

// setInflight takes the memory of a getInflight: of this connection, or of one before.
func (d *Device) setInflight(m *message) error {
	size, offset, rings, descriptors, err := d.inflightOf(m)
	if err != nil {
		return err
	}
	each := virtio.InflightSize(descriptors, d.features&ringPacked != 0)
	if size < uint64(rings*each) || len(m.files) != 1 {
		return fmt.Errorf("tracking of %d rings in %d bytes with %d descriptors: want %d bytes and 1", rings, size, len(m.files), rings*each)
	}
	for _, v := range d.vrings {
		v.gate.Lock()
		running := v.ring != nil
		v.gate.Unlock()
		if running {
			return fmt.Errorf("request %d while ring %d runs", m.request, v.index)
		}
	}
	mapped, err := mapFile(m.files[0], size, offset, maxBeside)
	if err != nil {
		return fmt.Errorf("the tracking of buffers in flight: %w", err)
	}
	d.track(mapped, rings, each)
	return d.remap(mappings{d.mapped.regions, d.mapped.log, mapped}, false)
}

// track gives the first rings their parts of a mapping, of each bytes.
func (d *Device) track(m *mapping, rings, each int) {
	d.tracked, d.each = rings, each
	for i, v := range d.vrings {
		v.gate.Lock()
		v.layout.Inflight = nil
		if i < rings {
			v.layout.Inflight = m.region.Bytes[i*each:][:each:each]
		}
		v.gate.Unlock()
	}
}
