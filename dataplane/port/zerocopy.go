package port

import (
	"fmt"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
)

// tooLong is Info.Error of a port at which packets arrive that no frame holds.
func tooLong(packets uint64, room int) string {
	return fmt.Sprintf("%d packets of more than %d bytes were dropped: their sender leaves the cutting into segments to its device, which does not cut them: "+
		"turn that off there (ethtool -K IFACE tso off gso off), use mode = \"native\", or set jumbo = true if the packets are that long", packets, room)
}

// zeroCopyRoom is the longest packet that a device can receive into a frame itself, in bytes.
func (l *link) zeroCopyRoom(room int) int {
	if unit := nic.BufferUnit(l.module); unit != 0 {
		return room / unit * unit
	}
	return room
}

// refuseZeroCopy says why an interface must not have zero-copy, which the kernel would grant; nil if it may.
func (x *XSK) refuseZeroCopy(b *beneath) error {
	if mode := b.attach.Mode(); mode != xdp.Native {
		return fmt.Errorf("zero-copy needs the XDP program in the driver, and it runs in %s mode", mode)
	}
	frame := x.memory.umem.PacketRoom()
	room := b.link.zeroCopyRoom(frame)
	if most := b.link.maxFrame(); room < frame && most > room {
		return fmt.Errorf("zero-copy with driver %s receives packets of up to %d bytes into a frame of %d, and the MTU allows %d: set dataplane.frame_size = %d, or a smaller MTU",
			b.link.module, room, x.memory.umem.FrameSize(), most, largeFrame)
	}
	return nil
}

// notNative returns the reason for generic mode, with a leading comma; empty if that mode is configured.
func (b *beneath) notNative() string {
	switch why := b.attach.NoNative(); {
	case why != nil:
		return ", " + why.Error()
	case b.generic != "":
		return ", " + b.generic
	}
	return ""
}

// copyMode is how the sockets of an interface shall be opened: as configured, but in copy mode
// where zero-copy would be granted and not work, and b.noZeroCopy says why.
func (x *XSK) copyMode(b *beneath) (xsk.Mode, error) {
	x.mu.Lock() // Info reads b, and asks its link
	defer x.mu.Unlock()
	mode, err := xsk.ParseMode(x.memory.config.Copy)
	if err != nil || mode == xsk.Copy {
		return mode, err
	}
	if b.noZeroCopy = x.refuseZeroCopy(b); b.noZeroCopy == nil {
		return mode, nil
	}
	if mode == xsk.ZeroCopy {
		if b.attach.Mode() != xdp.Native {
			return mode, fmt.Errorf("%w%s: use copy mode, or auto", b.noZeroCopy, b.notNative())
		}
		return mode, b.noZeroCopy
	}
	return xsk.Copy, nil
}
