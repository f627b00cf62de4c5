package node

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/node"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/records"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/record"
)

// recorder makes the records of a P4 switch, out of its registers and of the copies of packets at its CPU port, and
// writes them where [telemetry] says. A nil recorder, of a switch without a spool, does nothing.
type recorder struct {
	cpu    *bmv2.CPUPort
	source *cpuSource
	export *export.Path

	came      atomic.Uint64 // frames from the CPU port
	end       chan struct{}
	running   sync.WaitGroup
	finish    func() error // of the exporter
	finishing sync.Once
}

// startRecorder gives a switch that has its clock and its tables a CPU port, and begins to measure. It writes the
// schedules of epochs from then on.
func startRecorder(n *Node) (*recorder, error) {
	c := n.config
	if err := c.Telemetry.CheckSending(); err != nil {
		return nil, err
	}
	cpu, err := bmv2.OpenCPUPort()
	if err != nil {
		return nil, err
	}
	r := &recorder{cpu: cpu, end: make(chan struct{})}
	if err := n.sw.AddPort(tables.DefaultCPUPort, cpu.Name()); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	measured, err := records.New(records.Config{
		Switch: n.ports, Target: n.sw, Clock: n.now, Settle: records.DefaultSettle, Shortest: records.DefaultShortest,
	})
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	n.plane.LeaveEpochs()
	r.source = &cpuSource{Source: measured, cpu: cpu}
	if r.export, err = export.NewPath(c.Telemetry, c.Switch.ID, c.Switch.Name, c.Switch.Hash, nil, nil, r.source); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	r.running.Go(func() { measured.Run(r.end) })
	r.running.Go(r.read)
	_ = r.export.Configure(c.Telemetry) // the files are good; records wait in the spool otherwise
	r.finish = r.export.Start(n.now)
	return r, nil
}

// maxCopy is the longest copy: a packet of 64 KiB behind a cpu_t.
const maxCopy = 1<<16 + 64

// read takes in what comes to the CPU port until that is closed.
func (r *recorder) read() {
	b := make([]byte, maxCopy)
	for {
		n, err := r.cpu.Read(b)
		if err != nil {
			return
		}
		r.source.Receive(b[:n])
		r.came.Add(1)
	}
}

// drainPause is how long nothing comes to the CPU port when all copies have been read.
const drainPause = 50 * time.Millisecond

// drain waits until the copies have come of packets that have left, by a queue of their own. It gives up after
// settleWait: copies of packets that still arrive never end.
func (r *recorder) drain() {
	deadline := time.Now().Add(settleWait)
	for {
		before := r.came.Load()
		time.Sleep(drainPause)
		if r.came.Load() == before || time.Now().After(deadline) {
			return
		}
	}
}

// stop makes the last records while the switch still runs, behind the last packets. A second call does nothing.
func (r *recorder) stop() (err error) {
	if r == nil {
		return nil
	}
	r.finishing.Do(func() {
		if r.finish != nil {
			r.drain()
			err = r.finish()
			r.source.look()
		}
		close(r.end)
		err = errors.Join(err, r.cpu.Close())
		r.running.Wait()
		if r.source != nil {
			err = errors.Join(err, r.source.Close())
		}
	})
	return err
}

// report completes the switch's last report.
func (r *recorder) report(to *api.ReportResponse) {
	if r == nil || r.export == nil {
		return
	}
	to.Records = node.Records(r.export)
	add := func(name, help string, labels map[string]string, value uint64) {
		to.Metrics = append(to.Metrics, &api.Metric{Stage: "p4", Name: name, Help: help, Labels: labels, Value: float64(value)})
	}
	faults, err := r.source.Faults()
	help := "readings of registers that failed or were not what was counted"
	if err != nil {
		help += "; the last one: " + err.Error()
	}
	add("read_faults_total", help, nil, faults)
	add("late_readings_total", "subepochs, epochs and intervals that were read too late, and missed", nil, r.source.Late())
	add("lost_copies_total", "packets that found no room at the CPU port", nil, r.source.lost)
	drops := r.source.Drops()
	for _, reason := range records.DropReasons() {
		add("dropped_copies_total", "frames from the CPU port that are in no record", map[string]string{"reason": reason}, drops[reason])
	}
	punts := r.source.Punts()
	for _, reason := range slices.Sorted(maps.Keys(punts)) {
		add("punted_packets_total", "packets for the control plane, which drops them", map[string]string{"reason": reason}, punts[reason])
	}
}

// cpuSource counts what is lost at the CPU port, too.
type cpuSource struct {
	*records.Source
	cpu    *bmv2.CPUPort
	looked int64 // ns
	lost   uint64
}

// lookNs is the time between two readings of that counter.
const lookNs = 100_000_000

// Collect implements export.Source.
func (s *cpuSource) Collect(now int64, last bool, emit record.Emit) {
	if last || now-s.looked > lookNs {
		s.looked = now
		s.look()
	}
	s.Source.Collect(now, last, emit)
}

func (s *cpuSource) look() {
	if lost, err := s.cpu.Dropped(); err == nil && lost > s.lost {
		s.Lose(lost - s.lost)
		s.lost = lost
	}
}
