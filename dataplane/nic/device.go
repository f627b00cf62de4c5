package nic

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mdlayher/genetlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Setting names a value of an interface, which is written as text. All others than
// those below are features by the kernel's name ("rx-lro"), with the values On and Off.
type Setting string

const (
	// Channels is how many queues there are: "combined 4", or "rx 2 tx 4".
	Channels Setting = "channels"
	// Spread is the indirection table of RSS, see RSS.
	Spread Setting = "rss-spread"
	// Key is the key of RSS, hexadecimal.
	Key Setting = "rss-key"
	// Transform is what RSS does with a packet's fields before it hashes them, see RSS.
	Transform Setting = "rss-transform"
	// HeaderSplit: the device writes headers and data of TCP packets into different buffers.
	HeaderSplit Setting = "tcp-data-split"
	// DeferRounds is after how many empty rounds the kernel enables interrupts again, and
	// DeferFlush the length of a round in nanoseconds (Documentation/networking/napi.rst).
	DeferRounds Setting = "napi_defer_hard_irqs"
	DeferFlush  Setting = "gro_flush_timeout"
)

// The values of a feature.
const (
	On  = "on"
	Off = "off"
)

// device is an open interface.
type device struct {
	ethtool
	generic *genetlink.Conn
	handle  *netlink.Handle
	sysfs   *Sysfs // nil: noSysfs says why
	noSysfs error
	index   int
	name    string // as of the last find
}

// ErrMissing says that the interface does not exist.
var ErrMissing = errors.New("it does not exist in this network namespace: create it or correct the name (ip link shows what there is)")

// open opens an interface of the calling thread's namespace.
func open(name string) (_ *device, err error) {
	d := &device{ethtool: ethtool{-1}, name: name}
	defer func() {
		if err != nil {
			err = fmt.Errorf("interface %s: %w", name, err)
			_ = d.close()
		}
	}()
	if d.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, err
	}
	if d.ethtool, err = openEthtool(); err != nil {
		return nil, err
	}
	if d.generic, err = genetlink.Dial(nil); err != nil {
		return nil, err
	}
	found, err := d.handle.LinkByName(name)
	if err != nil {
		return nil, missing(err)
	}
	// An alternative name may be longer than a request to a driver takes.
	d.index, d.name = found.Attrs().Index, found.Attrs().Name
	d.sysfs, d.noSysfs = OpenSysfs(d.name)
	return d, nil
}

func missing(err error) error {
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return ErrMissing
	}
	return err
}

func (d *device) close() error {
	var errs []error
	if d.handle != nil {
		d.handle.Close()
	}
	if d.generic != nil {
		errs = append(errs, d.generic.Close())
	}
	if d.fd >= 0 {
		errs = append(errs, d.ethtool.close())
	}
	if d.sysfs != nil {
		errs = append(errs, d.sysfs.Close())
	}
	return errors.Join(errs...)
}

// find looks for the interface again, which may have another name by now.
func (d *device) find() error {
	found, err := d.handle.LinkByIndex(d.index)
	if err != nil {
		return missing(err)
	}
	d.name = found.Attrs().Name
	if d.sysfs != nil {
		d.sysfs.name = d.name
	}
	return nil
}

// read returns a setting's value.
func (d *device) read(s Setting) (string, error) {
	switch s {
	case Channels:
		c, err := d.channels(d.name)
		return c.String(), err
	case Spread, Key, Transform:
		r, err := d.rss(d.name)
		return map[Setting]string{Spread: r.Spread, Key: r.Key, Transform: r.Transform}[s], err
	case HeaderSplit:
		return d.headerSplit()
	case DeferRounds, DeferFlush:
		if d.sysfs == nil {
			return "", d.noSysfs
		}
		return d.sysfs.Read(string(s))
	}
	all, err := d.features(d.name)
	if err != nil {
		return "", err
	}
	f, ok := all[string(s)]
	if !ok {
		return "", errors.ErrUnsupported
	}
	return onOff(f.On), nil
}

func onOff(on bool) string {
	if on {
		return On
	}
	return Off
}

// write sets a setting. That the driver took it shows the next read.
func (d *device) write(s Setting, value string) error {
	switch s {
	case Channels:
		c, err := d.channels(d.name)
		if err != nil {
			return err
		}
		if c, err = c.with(value); err != nil {
			return err
		}
		return d.setChannels(d.name, c)
	case Spread:
		return d.writeTable(value)
	case Key:
		key, err := hex.DecodeString(value)
		if err != nil {
			return err
		}
		return d.setHashing(d.name, noChange, nil, key, transformNoChange)
	case Transform:
		for number, name := range transforms {
			if name == value {
				return d.setHashing(d.name, noChange, nil, nil, number)
			}
		}
		return fmt.Errorf("%q is no transform of RSS", value)
	case HeaderSplit:
		return d.setHeaderSplit(value)
	case DeferRounds, DeferFlush:
		if d.sysfs == nil {
			return d.noSysfs
		}
		return d.sysfs.Write(string(s), value)
	}
	return d.setFeature(d.name, string(s), value == On)
}

// writeTable sets the indirection table. The one over all queues is the driver's own, which follows the number of
// queues; another one would keep the driver from having fewer.
func (d *device) writeTable(value string) error {
	c, err := d.channels(d.name)
	if err == nil && value == equalText(c.receive()) {
		return d.setHashing(d.name, 0, nil, nil, transformNoChange)
	}
	h, err := d.hashing(d.name)
	if err != nil {
		return err
	}
	table, err := parseTable(value, len(h.table))
	if err != nil {
		return err
	}
	return d.setHashing(d.name, uint32(len(table)), table, nil, transformNoChange)
}

// receive is the number of receive queues.
func (c channelCounts) receive() int { return int(c.rx + c.combined) }

// String is the value of Channels.
func (c channelCounts) String() string {
	var parts []string
	for _, p := range []struct {
		name string
		n    uint32
	}{{"rx", c.rx}, {"tx", c.tx}, {"combined", c.combined}} {
		if p.n != 0 {
			parts = append(parts, p.name+" "+strconv.Itoa(int(p.n)))
		}
	}
	return strings.Join(parts, " ")
}

// with returns the counts with those of a value of Channels.
func (c channelCounts) with(value string) (channelCounts, error) {
	c.rx, c.tx, c.combined = 0, 0, 0
	fields := strings.Fields(value)
	for i := 0; i+1 < len(fields); i += 2 {
		n, err := strconv.ParseUint(fields[i+1], 10, 16)
		if err != nil {
			return c, fmt.Errorf("%q is no number of channels", value)
		}
		switch fields[i] {
		case "rx":
			c.rx = uint32(n)
		case "tx":
			c.tx = uint32(n)
		case "combined":
			c.combined = uint32(n)
		}
	}
	return c, nil
}

// serving returns the counts with n receive queues, each with a transmit queue of its number. Some drivers want
// combined queues for XDP (bnxt), or as many of both kinds (gve).
func (c channelCounts) serving(n int) channelCounts {
	if c.maxCombined != 0 {
		c.rx, c.tx, c.combined = 0, 0, uint32(n)
		return c
	}
	c.rx, c.tx = uint32(n), min(uint32(n), c.maxTx)
	return c
}
