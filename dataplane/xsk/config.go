package xsk

import (
	"errors"
	"fmt"
)

// Mode says whether the device writes packets into the frames itself.
type Mode uint8

const (
	// Auto takes zero-copy where the driver grants it, else copy, for each interface;
	// Granted.NoZeroCopy says why (xp_assign_dev in net/xdp/xsk_buff_pool.c).
	Auto Mode = iota
	// ZeroCopy fails with ErrNotSupported where the driver does not have it.
	ZeroCopy
	// Copy lets the kernel copy each packet; it works with every driver.
	Copy
)

var modeNames = [...]string{"auto", "zero-copy", "copy"}

// String names the mode as the configuration does.
func (m Mode) String() string { return modeNames[m] }

// ParseMode is the inverse of Mode.String.
func ParseMode(name string) (Mode, error) {
	for i, n := range modeNames {
		if n == name {
			return Mode(i), nil
		}
	}
	return Auto, fmt.Errorf("AF_XDP mode %q: want auto, zero-copy or copy", name)
}

// Config shapes a socket. NeedWakeup and MultiBuffer belong to the UMEM in the
// kernel: the first socket decides them, and a later one that wants something else is refused.
type Config struct {
	// Ring sizes in descriptors, powers of two. The completion ring bounds the
	// packets in flight in copy mode, so it should not be smaller than the TX ring.
	FillSize, RXSize, TXSize, CompletionSize int

	Mode        Mode
	NeedWakeup  bool // the kernel signals when it needs a system call
	MultiBuffer bool // packets of several frames (XDP_USE_SG, kernel 6.6)

	// TXBudget is how many descriptors one Kick sends in copy mode, from 32 to TXSize
	// (XDP_MAX_TX_SKB_BUDGET, kernel 6.17); 0 leaves the kernel's 32. Where the kernel
	// lacks the option, Granted.TXBudget is 0.
	TXBudget int

	// BusyPoll is for how long in microseconds a Kick or WakeRX may run the device's
	// receive loop on this CPU (SO_PREFER_BUSY_POLL, SO_BUSY_POLL); 0 is off.
	// BusyPollBudget bounds its packets (SO_BUSY_POLL_BUDGET); 0 leaves the kernel's 8.
	// A driver without NAPI busy polling takes no notice.
	BusyPoll, BusyPollBudget int
}

// DefaultConfig has rings of 2048, the best mode there is, and need_wakeup.
func DefaultConfig() Config {
	return Config{
		FillSize: 2048, RXSize: 2048, TXSize: 2048, CompletionSize: 2048,
		Mode: Auto, NeedWakeup: true, TXBudget: 128,
	}
}

// maxRingSize is far above what any device uses and far below what overflows.
const maxRingSize = 1 << 20

// minTXBudget is TX_BATCH_SIZE of net/xdp/xsk.c.
const minTXBudget = 32

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	for _, ring := range []struct {
		name string
		size int
	}{{"fill", c.FillSize}, {"RX", c.RXSize}, {"TX", c.TXSize}, {"completion", c.CompletionSize}} {
		if ring.size <= 0 || ring.size > maxRingSize || ring.size&(ring.size-1) != 0 {
			faults = append(faults, fmt.Errorf("%s ring of %d descriptors: want a power of two up to %d", ring.name, ring.size, maxRingSize))
		}
	}
	if c.Mode > Copy {
		faults = append(faults, fmt.Errorf("AF_XDP mode %d does not exist", c.Mode))
	}
	if c.TXBudget != 0 && (c.TXBudget < minTXBudget || c.TXBudget > c.TXSize) {
		faults = append(faults, fmt.Errorf("TX budget %d: want 0, or from %d to the TX ring's size %d", c.TXBudget, minTXBudget, c.TXSize))
	}
	if c.BusyPoll < 0 || c.BusyPollBudget < 0 {
		faults = append(faults, errors.New("busy polling: want a time and a budget of 0 or more"))
	}
	return errors.Join(faults...)
}

// Granted is what the kernel gave, as far as it can be asked.
type Granted struct {
	ZeroCopy bool // from XDP_OPTIONS
	// NoZeroCopy is why a socket of mode Auto has copy mode, else nil.
	NoZeroCopy  error
	NeedWakeup  bool // the bind asked for it and was accepted, or inherited it
	MultiBuffer bool // as granted
	TXBudget    int  // descriptors per Kick in copy mode, or 0: the kernel's 32
	BusyPoll    bool // all options asked for were accepted
}

// String is like "copy, need_wakeup, multi-buffer, TX budget 128".
func (g Granted) String() string {
	text := Copy.String()
	if g.ZeroCopy {
		text = ZeroCopy.String()
	}
	if g.NeedWakeup {
		text += ", need_wakeup"
	}
	if g.MultiBuffer {
		text += ", multi-buffer"
	}
	if g.TXBudget > 0 {
		text += fmt.Sprintf(", TX budget %d", g.TXBudget)
	}
	if g.BusyPoll {
		text += ", busy poll"
	}
	return text
}
