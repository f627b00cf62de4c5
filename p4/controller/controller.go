package controller

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/tables"
)

// Controller is the control plane of a switch. It belongs to one goroutine.
type Controller struct {
	sw       *bmv2.Switch
	config   *tables.Switch
	options  tables.Options
	stations map[station]*heard
	written  map[cell]uint64 // what the clock's registers hold
}

// station is a MAC address in a VLAN.
type station struct {
	vlan uint16
	mac  [6]byte
}

// heard is where a station was heard, and its entries.
type heard struct {
	port    uint16
	entries []entry
}

type entry struct {
	table  string
	handle int32
}

// cell is a cell of a register.
type cell struct {
	name  string
	index int
}

// New loads the tables of a configuration into a switch that has just started. Its error names
// all that the configuration asks for and P4 cannot do.
func New(sw *bmv2.Switch, config *tables.Switch, o tables.Options) (*Controller, error) {
	c := &Controller{sw: sw, config: config, options: o, stations: map[station]*heard{}, written: map[cell]uint64{}}
	contents, err := tables.Build(config, o)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	if err := contents.WriteCommands(&text, sw.Program().CustomCRC32()); err != nil {
		return nil, err
	}
	if err := sw.Load(text.String()); err != nil {
		return nil, fmt.Errorf("load the switch's tables: %w", err)
	}
	for _, r := range contents.Registers {
		c.written[cell{r.Name, r.Index}] = r.Value
	}
	return c, nil
}

// Tick writes the schedules of the epoch of now, in ns of CLOCK_TAI, and of the next one, as far
// as they are not there yet. It is to be called often enough that no epoch begins without.
func (c *Controller) Tick(now uint64) error {
	o := c.options
	o.Now = now
	contents, err := tables.Build(c.config, o)
	if err != nil {
		return err
	}
	for _, r := range contents.Registers {
		at := cell{r.Name, r.Index}
		if before, ok := c.written[at]; ok && before == r.Value {
			continue
		}
		if err := c.sw.WriteRegister(r.Name, r.Index, r.Value); err != nil {
			return err
		}
		c.written[at] = r.Value
	}
	return nil
}

// stationLen is the length of a sample of the digest station_t: VLAN, MAC address, port.
const stationLen = 2 + 6 + 2

// Learn takes in what the switch's bridge told: a station that it did not know at its port. One
// that was elsewhere has moved.
func (c *Controller) Learn(l bmv2.Learned) error {
	for _, s := range l.Samples {
		if len(s) != stationLen {
			return fmt.Errorf("the switch tells of a station in %d bytes, want %d", len(s), stationLen)
		}
		who := station{vlan: binary.BigEndian.Uint16(s), mac: [6]byte(s[2:8])}
		if err := c.learn(who, binary.BigEndian.Uint16(s[8:])); err != nil {
			return fmt.Errorf("learn a station: %w", err)
		}
	}
	return nil
}

func (c *Controller) learn(who station, port uint16) error {
	before := c.stations[who]
	if before != nil && before.port == port {
		return nil
	}
	if before != nil {
		for _, e := range slices.Backward(before.entries) {
			if err := c.sw.DeleteEntry(e.table, e.handle); err != nil {
				return err
			}
		}
		delete(c.stations, who)
	}
	h := &heard{port: port}
	for _, e := range tables.StationEntries(who.vlan, who.mac, port) {
		handle, err := c.sw.AddEntry(e.Command())
		if err != nil {
			return err
		}
		h.entries = append(h.entries, entry{e.Table, handle})
	}
	c.stations[who] = h
	return nil
}

// Known says whether a station is known at a port.
func (c *Controller) Known(vlan uint16, mac [6]byte, port uint16) bool {
	h := c.stations[station{vlan, mac}]
	return h != nil && h.port == port
}
