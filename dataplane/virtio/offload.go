package virtio

import (
	"encoding/binary"

	"github.com/weirswitch/weir/dataplane/gso"
)

// cut is a large packet on its way out of the guest's memory: Get returns its segments one by one, or GetWhole the packet as it is.
type cut struct {
	gso.Cut
	start cursor // of its chain
	whole bool
	kind  uint8
}

// faultOf is the fault of a ring for a packet that cannot be cut.
var faultOf = [...]Fault{gso.Long: FaultLong, gso.Segment: FaultSegment, gso.Checksum: FaultChecksum}

// complete copies a packet and completes its checksum, or begins to cut a large one and returns its first segment. The length
// is 0 if it was refused.
func (r *Ring) complete(dst []byte, start cursor) (n int, large bool) {
	want := r.buffers[0].room - r.layout.Header
	if want < minPacket {
		r.fault(FaultShort)
		return 0, false
	}
	c := &r.cut
	c.Source(r.segments[:r.nsegs])
	var h [12]byte
	c.Read(h[:r.layout.Header])
	if h[1] != gso.None {
		if !r.layout.Offloads.Takes(h[1] &^ gso.ECN) {
			r.fault(FaultSegment)
			return 0, false
		}
		if f := c.Begin(h[:gso.HeaderSize], want, len(dst)); f != gso.OK {
			r.fault(faultOf[f])
			return 0, false
		}
		c.start, c.kind = start, h[1]
		if r.Whole && want > len(dst) && r.skip == 0 {
			c.whole = true
			return 0, true
		}
		return r.cutNext(dst), true
	}
	if want > len(dst) {
		r.fault(FaultLong)
		return 0, false
	}
	c.Read(dst[:want])
	if h[0]&gso.NeedsChecksum != 0 && !gso.FinishChecksum(dst[:want], int(binary.LittleEndian.Uint16(h[6:])), int(binary.LittleEndian.Uint16(h[8:]))) {
		r.fault(FaultChecksum)
		return 0, false
	}
	return want, false
}

// Large describes the packet that Get began and returned nothing of, if Whole is set: its length in bytes, its segmentation type (gso.TCP4 and so on)
// and the payload of its segments. With 0 there is none. The caller copies it by GetWhole, or gives up and has it as segments, by Get.
func (r *Ring) Large() (length int, kind uint8, size int) {
	if !r.cut.whole {
		return 0, 0, 0
	}
	return r.cut.Total(), r.cut.kind, r.cut.Size()
}

// GetWhole copies the large packet as it is to memory in pieces, which have room for all of it.
func (r *Ring) GetWhole(pieces [][]byte) {
	r.cut.Whole(pieces[0])
	for _, p := range pieces[1:] {
		r.cut.Rest(p)
	}
	r.cutEnd()
}

// cutNext returns the next segment. Behind the last one the buffer goes back to the driver.
func (r *Ring) cutNext(dst []byte) int {
	r.cut.whole = false
	n := r.cut.Next(dst)
	if n == 0 { // the caller gives less room than before
		r.fault(FaultLong)
	}
	if !r.cut.On() {
		r.cutEnd()
	}
	return n
}

func (r *Ring) cutEnd() {
	r.cut.whole = false
	b := &r.buffers[0]
	r.push(b.id, b.descs, 0)
}
