package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/tables"
)

// bridge is what the control plane knows of stations. As in a Weir switch (stages/l2), a new one is
// not learned while the table is full, and one that is silent for the ageing time is forgotten.
type bridge struct {
	learning tables.Learning
	stations map[station]*heard
	byEntry  map[int32]station // by the handle of the entry that is hit as long as they are heard
	counts   Stations
}

// Stations counts what became of stations.
type Stations struct {
	Known uint64 // now, without static ones
	// Learned, Moved and Aged are how often; Full is how many samples told of a station for which there was no room.
	Learned, Moved, Aged, Full uint64
}

func newBridge(config *tables.Switch) bridge {
	learning, _ := config.Learning()
	return bridge{learning: learning, stations: map[station]*heard{}, byEntry: map[int32]station{}}
}

// station is a MAC address in a VLAN.
type station struct {
	vlan uint16
	mac  [6]byte
}

// heard is where a station was heard, and its entries.
type heard struct {
	port    uint16
	entries []entry // the last one is hit by its packets
}

type entry struct {
	table  string
	handle int32
}

// Stations counts what became of stations.
func (c *Controller) Stations() Stations {
	s := c.bridge.counts
	s.Known = uint64(len(c.bridge.stations))
	return s
}

// Known says whether a station is known at a port.
func (c *Controller) Known(vlan uint16, mac [6]byte, port uint16) bool {
	h := c.bridge.stations[station{vlan, mac}]
	return h != nil && h.port == port
}

// stationLen is the length of a sample of the digest station_t: VLAN, MAC address, port.
const stationLen = 2 + 6 + 2

// Learn takes in what the switch's bridge told: a station that it did not know at its port. One
// that was elsewhere has moved. Where there is no room it is counted, and its packets are flooded.
func (c *Controller) Learn(l bmv2.Learned) error {
	for _, s := range l.Samples {
		if len(s) != stationLen {
			return fmt.Errorf("the switch reports a station in %d bytes, want %d", len(s), stationLen)
		}
		who := station{vlan: binary.BigEndian.Uint16(s), mac: [6]byte(s[2:8])}
		if err := c.learn(who, binary.BigEndian.Uint16(s[8:])); err != nil {
			return fmt.Errorf("learn a station: %w", err)
		}
	}
	return nil
}

func (c *Controller) learn(who station, port uint16) error {
	b := &c.bridge
	before := b.stations[who]
	switch {
	case before != nil && before.port == port:
		return nil
	case before != nil:
		if err := c.forget(who); err != nil {
			return err
		}
	case len(b.stations) >= b.learning.Stations:
		b.counts.Full++
		return nil
	}
	err := c.add(who, port)
	switch {
	case errors.Is(err, bmv2.ErrFull):
		b.counts.Full++
		return nil
	case err != nil:
		return err
	case before != nil:
		b.counts.Moved++
	default:
		b.counts.Learned++
	}
	return nil
}

// add puts a station's entries into the tables: all of them or, if one has no room, none.
func (c *Controller) add(who station, port uint16) error {
	h := &heard{port: port}
	for _, e := range tables.StationEntries(who.vlan, who.mac, port) {
		handle, err := c.sw.AddEntry(e.Command())
		if err != nil {
			return errors.Join(err, c.remove(h.entries))
		}
		h.entries = append(h.entries, entry{e.Table, handle})
	}
	last := h.entries[len(h.entries)-1]
	if err := c.sw.SetEntryTTL(last.table, last.handle, c.bridge.learning.Ageing); err != nil {
		return err
	}
	c.bridge.stations[who], c.bridge.byEntry[last.handle] = h, who
	return nil
}

func (c *Controller) remove(entries []entry) error {
	for _, e := range slices.Backward(entries) {
		if err := c.sw.DeleteEntry(e.table, e.handle); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) forget(who station) error {
	h := c.bridge.stations[who]
	delete(c.bridge.stations, who)
	delete(c.bridge.byEntry, h.entries[len(h.entries)-1].handle)
	return c.remove(h.entries)
}

// expire takes in which entries no packet has hit for their time: their stations are forgotten.
func (c *Controller) expire(e bmv2.Expired) error {
	for _, handle := range e.Handles {
		who, ok := c.bridge.byEntry[handle]
		if !ok || c.bridge.last(who).table != e.Table {
			continue // It has moved, or was forgotten, since.
		}
		if err := c.forget(who); err != nil {
			return fmt.Errorf("forget a station: %w", err)
		}
		c.bridge.counts.Aged++
	}
	return nil
}

// last is the entry of a known station that its packets hit.
func (b *bridge) last(who station) entry {
	entries := b.stations[who].entries
	return entries[len(entries)-1]
}
