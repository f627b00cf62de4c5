package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/tables"
)

// Controller is the control plane of a switch. It belongs to one goroutine.
type Controller struct {
	sw       Switch
	contents *tables.Contents
	bridge   bridge
	written  map[cell]uint64 // what the clock's registers hold
	left     bool            // they are others' to write
}

// Switch is what the control plane does to a switch: a [bmv2.Switch].
type Switch interface {
	Program() *bmv2.Program
	Load(commands string) error
	AddEntry(command string) (handle int32, err error)
	DeleteEntry(table string, handle int32) error
	SetEntryTTL(table string, handle int32, ttl time.Duration) error
	WriteRegister(name string, index int, value uint64) error
}

// cell is a cell of a register.
type cell struct {
	name  string
	index int
}

// New loads the tables of a configuration into a switch that has just started. Its error names
// all that the configuration asks for and P4 cannot do.
func New(sw Switch, config *tables.Switch, o tables.Options) (*Controller, error) {
	contents, err := tables.Build(config, o)
	if err != nil {
		return nil, err
	}
	c := &Controller{sw: sw, contents: contents, bridge: newBridge(config), written: map[cell]uint64{}}
	var text strings.Builder
	if err := contents.WriteCommands(&text, sw.Program().CustomCRC32()); err != nil {
		return nil, err
	}
	if err := sw.Load(text.String()); err != nil {
		return nil, fmt.Errorf("load the switch's tables: %w", err)
	}
	for _, r := range contents.Epochs {
		c.written[cell{r.Name, r.Index}] = r.Value
	}
	return c, nil
}

// Tick writes the schedules of the epoch of now, in ns of CLOCK_TAI, and of the next one, as far
// as they are not there yet. It is to be called twice in each epoch at least, so that none begins without.
func (c *Controller) Tick(now uint64) error {
	if c.left {
		return nil
	}
	for _, r := range c.contents.EpochsAt(now) {
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

// LeaveEpochs leaves the registers of epochs to others, who know what was measured (p4/records): Tick writes none
// any more.
func (c *Controller) LeaveEpochs() { c.left = true }
