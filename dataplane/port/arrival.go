package port

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/packet"
)

// arrival says what a port granted of DataplaneConfig.Timestamps. The zero
// value says nothing: no stage needs arrival times.
type arrival struct {
	source  string // TimestampsBatch, TimestampsXDP or TimestampsHardware
	detail  string // the clock, or why it is less than was asked
	untimed uint64 // packets to which the program could not give their time
	// Packets with the program's time instead of the device's: it gave
	// none, or one that is no time of CLOCK_TAI.
	unstamped, astray uint64
}

// String continues Info.Mode, as ", arrival: xdp, 1 ns".
func (a arrival) String() string {
	text := ""
	if a.source != "" {
		text = ", arrival: " + a.source
	}
	if a.detail != "" {
		text += ", " + a.detail
	}
	if a.untimed != 0 {
		text += fmt.Sprintf(" (%d packets by batch: the driver gave no room for metadata in front of them)", a.untimed)
	}
	if a.unstamped != 0 {
		text += fmt.Sprintf(" (%d packets by xdp: the device gave them no time; hwstamp_ctl -r 1 has it time all)", a.unstamped)
	}
	if a.astray != 0 {
		text += fmt.Sprintf(" (%d packets by xdp: the device's clock is over 100 ms off CLOCK_TAI; phc2sys keeps it there)", a.astray)
	}
	return text
}

// TimeArrivals implements ArrivalTimer: a program that reads the clock takes
// and replaces the attached one.
func (x *XSK) TimeArrivals() error {
	x.arrival = arrival{source: TimestampsBatch}
	wanted := x.memory.config.Timestamps
	if wanted == TimestampsBatch {
		return nil
	}
	clock := xdp.BestClock()
	if err := x.timedProgram(clock); err != nil {
		if wanted != TimestampsAuto {
			return fmt.Errorf("port %s: let the XDP program time arrivals: %w: set dataplane.timestamps = %q to do with less",
				x.config.Name, err, TimestampsAuto)
		}
		x.arrival.detail = err.Error()
		return nil
	}
	x.arrival = arrival{source: TimestampsXDP, detail: resolution(clock)}
	if x.hardware = wanted == TimestampsHardware; x.hardware && x.beneath != nil {
		return x.space.Do(func() error { x.takeHardware(x.beneath); return nil })
	}
	return nil
}

// takeHardware replaces the program by the one for the device of b. Where that
// cannot be, b says why, and the program goes on by its own clock.
func (x *XSK) takeHardware(b *beneath) {
	if mode := b.attach.Mode(); mode != xdp.Native {
		b.noHardware = fmt.Sprintf("no hardware: the program runs in %s mode", mode)
		return
	}
	device, err := x.program.ForDevice(b.link.index)
	if err == nil {
		if err = b.attach.Replace(device); err == nil {
			b.device = device
			return
		}
		err = errors.Join(err, device.Close())
	}
	b.noHardware = fmt.Sprintf("no hardware: %v", err)
}

// arrivals is what is granted on the interface that there is now.
func (x *XSK) arrivals() arrival {
	a := x.arrival
	if x.program != nil {
		if c, err := x.program.Counters(); err == nil {
			a.untimed, a.unstamped, a.astray = c.Untimed, c.Unstamped, c.Astray
		}
	}
	switch {
	case !x.hardware:
	case x.beneath.device != nil:
		a.source, a.detail = TimestampsHardware, "the device's clock must keep TAI"
	case x.beneath.noHardware != "":
		a.detail += ", " + x.beneath.noHardware
	}
	return a
}

func (x *XSK) timedProgram(clock xdp.Clock) error {
	if len(x.queues) != 0 {
		return errors.New("a queue is open already")
	}
	options := x.options
	options.Timestamp = clock
	var program *xdp.Program
	if err := x.space.Do(func() (err error) {
		program, err = xdp.Load(options)
		return err
	}); err != nil {
		return err
	}
	if x.beneath != nil {
		if err := x.beneath.replace(program); err != nil {
			return errors.Join(err, program.Close())
		}
	}
	old := x.program
	x.program, x.options = program, options
	return old.Close()
}

// replace puts the port's new program, or one like it for what this interface has, in the place of the present one.
func (b *beneath) replace(program *xdp.Program) error {
	if b.device == nil {
		return b.attach.Replace(program)
	}
	device, err := program.WithTags(b.device.TagsOf())
	if err != nil {
		return err
	}
	if err := b.attach.Replace(device); err != nil {
		return errors.Join(err, device.Close())
	}
	old := b.device
	b.device = device
	return old.Close()
}

// resolution is the smallest difference that the clock resolves.
func resolution(clock xdp.Clock) string {
	id, text := int32(unix.CLOCK_TAI), "%d ns"
	if clock == xdp.ClockMonotonic {
		id, text = unix.CLOCK_MONOTONIC, "%d ns, CLOCK_MONOTONIC moved to CLOCK_TAI each 10 ms"
	}
	var ts unix.Timespec
	if err := unix.ClockGetres(id, &ts); err != nil {
		return "resolution unknown"
	}
	return fmt.Sprintf(text, ts.Nano())
}

// TimeArrivals implements ArrivalTimer: the library hides what precedes
// of a packet, so the batch's clock has to do.
func (a *Asavie) TimeArrivals() error {
	a.arrival = arrival{source: TimestampsBatch}
	switch a.rings.Timestamps {
	case TimestampsXDP, TimestampsHardware:
		return fmt.Errorf("port %s: the driver asavie knows no arrival times: use driver = %q, or set dataplane.timestamps = %q",
			a.config.Name, DriverXSK, TimestampsAuto)
	case TimestampsAuto:
		a.arrival.detail = "the driver asavie knows no arrival times"
	}
	return nil
}

// stamps reads the times that the XDP program wrote (xdp.TimestampSize).
type stamps struct {
	tag       uint64 // of the program; 0: it writes none
	monotonic bool   // the times are CLOCK_MONOTONIC
	offset    int64  // CLOCK_TAI minus CLOCK_MONOTONIC
	measured  int64  // CLOCK_MONOTONIC when offset was measured, or 0
}

// read sets Arrival of packets just received. A packet without a time keeps 0,
// and gets the batch's clock from the parser. The tag is cleared, so that it does
// not speak for the frame's next packet.
func (s *stamps) read(mem []byte, pkts []packet.Packet) {
	for i := range pkts {
		p := &pkts[i]
		front := mem[p.Addr-xdp.TimestampSize : p.Addr]
		if binary.NativeEndian.Uint64(front) != s.tag {
			continue
		}
		binary.NativeEndian.PutUint64(front, 0)
		p.Arrival = int64(binary.NativeEndian.Uint64(front[8:]))
	}
	if s.monotonic {
		s.toTAI(pkts)
	}
}

// resync is how often the distance of the clocks is measured, in nanoseconds;
// in that time a slewed clock moves by 5 us at most (500 ppm).
const resync = 10_000_000

// toTAI moves times of CLOCK_MONOTONIC to CLOCK_TAI. The packets' own times
// say when to measure the distance anew, so that no clock is read per batch.
func (s *stamps) toTAI(pkts []packet.Packet) {
	for i := range pkts {
		p := &pkts[i]
		if p.Arrival == 0 {
			continue
		}
		if s.measured == 0 || p.Arrival-s.measured > resync {
			s.measure()
		}
		p.Arrival += s.offset
	}
}

// measure compares the clocks anew.
func (s *stamps) measure() {
	r := clock.Kernel.Read()
	if s.measured == 0 {
		s.offset = r.Offset()
	}
	s.offset, s.measured = r.Follow(s.offset), r.After
}
