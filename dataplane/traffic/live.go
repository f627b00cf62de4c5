package traffic

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/traffic/bpf"
)

const (
	// rateShift is the number of fraction bits of times inside the program.
	rateShift = 16
	// maxLiveFrame is what one page holds after headroom and the kernel's tail, in
	// bytes without the frame check sequence (net/bpf/test_run.c, TEST_XDP_FRAME_SIZE).
	maxLiveFrame = 3000
	// pacedBatch and floodBatch are the numbers of program calls between two flushes
	// towards the device. A paced source wants its packets out at once and spends
	// most calls waiting; one that floods has the kernel's default.
	pacedBatch = 8
	floodBatch = 64
	// livePoll is how often the controlling thread looks for the end of a run.
	livePoll = 2 * time.Millisecond
)

// LiveSource sends by the kernel's live-frame mode of BPF_PROG_RUN: an XDP program
// fills pages in and redirects them out of the interface. One core reaches
// millions of packets per second even on veth. The rate is kept inside the
// program, so a run is one system call.
//
// A veth takes redirected frames only when its peer has an XDP program or
// generic receive offload on. Frames are limited to 3000 bytes.
type LiveSource struct {
	port    Port
	objects bpf.LiveObjects
	frame   []byte
}

// NewLiveSource loads the program. It needs CAP_BPF and CAP_NET_ADMIN, and Linux
// 6.1 or newer.
func NewLiveSource(port Port, w Workload) (_ *LiveSource, err error) {
	fw, err := NewWriter(w)
	if err != nil {
		return nil, err
	}
	if !w.plain() {
		return nil, errors.New("live frames are of UDP over Ethernet and IP alone: use source xsk or packet for TCP, VLAN, MPLS and VXLAN")
	}
	if w.MaxSize()-FCS > maxLiveFrame {
		return nil, fmt.Errorf("live frames hold %d bytes, not %d: use an af_packet source", maxLiveFrame+FCS, w.MaxSize())
	}
	link, err := port.Namespace.Link(port.Interface)
	if err != nil {
		return nil, err
	}
	spec, err := bpf.LoadLive()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables["config"].Set(liveConfig(fw, link.Attrs().Index)); err != nil {
		return nil, fmt.Errorf("configure the live-frame program: %w", err)
	}
	columns := fw.drawer.columns
	spec.Maps["columns"].MaxEntries = uint32(max(len(columns), 1))

	_ = rlimit.RemoveMemlock() // kernels before 5.11 count maps against it; newer ones do not care
	s := &LiveSource{port: port, frame: make([]byte, w.MaxSize()-FCS)}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("load the live-frame program (needs CAP_BPF and CAP_NET_ADMIN): %w", err)
	}
	if err := loadColumns(s.objects.Columns, columns); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func liveConfig(fw *Writer, ifindex int) bpf.LiveConfig {
	w := fw.w
	c := bpf.LiveConfig{
		Seed:   fw.drawer.seed,
		SrcMac: fw.sides.srcMAC, DstMac: fw.sides.dstMAC,
		SrcMacs: fw.sides.srcMACs, DstMacs: fw.sides.dstMACs,
		SrcNet: fw.src, DstNet: fw.dst,
		SrcBits: uint32(fw.sides.srcBits), DstBits: uint32(fw.sides.dstBits),
		NetSum: fw.netSum, Flows: uint32(w.ownFlows()), Part: uint32(w.Part), Parts: uint32(w.parts()), Columns: uint32(len(fw.drawer.columns)),
		Ifindex: uint32(ifindex), SizeCount: uint8(len(w.Sizes)), Order: uint8(w.Order),
		Ipv6: flag(w.isIPv6()), UdpChecksum: flag(w.isIPv6() || w.UDPChecksum),
		Reversed: flag(w.Reversed), Tai: flag(w.Clock == TAI), Run: w.Run,
	}
	for i, size := range w.Sizes {
		c.Sizes[i] = uint16(size - FCS)
	}
	return c
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func loadColumns(m *ebpf.Map, columns []column) error {
	if len(columns) == 0 {
		return nil
	}
	keys, values := make([]uint32, len(columns)), make([]bpf.LiveColumn, len(columns))
	for i, c := range columns {
		keys[i] = uint32(i)
		values[i] = bpf.LiveColumn{
			Threshold: c.threshold, Base: c.own.base, Width: c.own.width,
			AliasBase: c.alias.base, AliasWidth: c.alias.width,
		}
	}
	if _, err := m.BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("load the alias table: %w", err)
	}
	return nil
}

// Name is "live-frames".
func (s *LiveSource) Name() string { return "live-frames" }

// Close frees the program and its maps.
func (s *LiveSource) Close() error { return s.objects.Close() }

// Run implements [Source].
func (s *LiveSource) Run(ctx context.Context, load Load) (Sent, error) {
	if err := load.Validate(); err != nil {
		return Sent{}, err
	}
	before, err := s.port.Namespace.Counters(s.port.Interface)
	if err != nil {
		return Sent{}, err
	}
	if err := errors.Join(s.objects.Stop.Set(uint64(0)), s.objects.State.Set(liveState(load))); err != nil {
		return Sent{}, fmt.Errorf("start the live-frame program: %w", err)
	}
	restarts := 0
	err = s.port.run(func() error {
		restarts, err = s.sendOn(ctx, load)
		return err
	})
	if err != nil {
		return Sent{}, fmt.Errorf("send live frames over %s: %w", s.port, err)
	}
	var state bpf.LiveState
	if err := s.objects.State.Get(&state); err != nil {
		return Sent{}, err
	}
	after, err := s.port.Namespace.Counters(s.port.Interface)
	if err != nil {
		return Sent{}, err
	}
	sent := Sent{
		Packets: state.Seq - load.FirstSeq, Bytes: state.Bytes, Restarts: restarts,
		Refused: after.TxDropped - before.TxDropped,
		Elapsed: liveElapsed(load, &state),
	}
	sent.finish(load)
	return sent, nil
}

func liveState(load Load) bpf.LiveState {
	state := bpf.LiveState{Seq: load.FirstSeq, DurationNs: uint64(load.Duration)}
	if load.Count > 0 {
		state.Count = load.FirstSeq + load.Count
	}
	p := NewPacer(load)
	state.Interval, state.MaxLag = p.interval, p.maxLag
	return state
}

// liveElapsed is the duration where that ended the run. Otherwise it reaches to the
// last packet, plus the time slot of that packet.
func liveElapsed(load Load, state *bpf.LiveState) time.Duration {
	if state.Seq == load.FirstSeq {
		return load.Duration
	}
	if load.Duration > 0 && state.EndNs >= state.StartNs+uint64(load.Duration) {
		return load.Duration
	}
	return time.Duration(state.LastNs - state.StartNs + state.Interval>>rateShift)
}

// sendOn runs on the sending thread. A second goroutine watches for the end, as the
// program itself cannot leave the kernel's loop.
func (s *LiveSource) sendOn(ctx context.Context, load Load) (restarts int, err error) {
	var mask unix.Sigset_t
	if err := blockSignals(&mask); err != nil {
		return 0, err
	}
	defer func() {
		if unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil) != nil {
			runtime.LockOSThread() // a second lock, so that the thread ends with its goroutine
		}
	}()
	finished, watcher := make(chan struct{}), make(chan struct{})
	thread := unix.Gettid()
	go func() {
		defer close(watcher)
		s.watch(ctx, thread, finished)
	}()
	defer func() { // before the thread is handed back no signal may be pending
		close(finished)
		<-watcher
	}()
	batch := floodBatch
	if load.Rate > 0 {
		batch = pacedBatch
	}
	for {
		if _, err := runLiveFrames(s.objects.Live, s.frame, batch); err != nil {
			return restarts, fmt.Errorf("run the program (needs Linux 5.18 or newer): %w", err)
		}
		if s.done() {
			return restarts, nil
		}
		restarts++
	}
}

func (s *LiveSource) done() bool {
	var state bpf.LiveState
	return s.objects.State.Get(&state) != nil || state.Done != 0
}

// watch asks the program to stop when the context ends, and wakes the sending thread
// until it has left the kernel.
func (s *LiveSource) watch(ctx context.Context, thread int, finished <-chan struct{}) {
	tick := time.NewTicker(livePoll)
	defer tick.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case <-finished:
			return
		case <-cancelled:
			cancelled = nil
			s.objects.Stop.Set(uint64(1))
		case <-tick.C:
		}
		if s.done() {
			unix.Tgkill(unix.Getpid(), thread, wakeSignal)
		}
	}
}
