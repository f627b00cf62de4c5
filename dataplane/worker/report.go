package worker

import (
	"slices"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Report is everything that a switch counts, at one moment. While packets are
// while it runs, the workers' counters are of slightly different moments.
type Report struct {
	Name    string         `json:"name"`
	ID      uint32         `json:"id"`
	Modes   []string       `json:"modes"` // per port, all that was granted
	Ports   []PortReport   `json:"ports"`
	Stages  []StageReport  `json:"stages"`
	Workers []WorkerReport `json:"workers"`
	Fate                   // of all packets that were received
	Copies  Fate           `json:"copies"` // of all copies made inside
	Frames  FrameReport    `json:"frames"`
	// Balanced: received = forwarded + consumed + dropped, for each port and
	// for the copies. It holds whenever no packet is between two workers.
	Balanced bool `json:"balanced"`
}

// Fate says what became of packets. Received (or made) = Forwarded + Consumed
// + the sum of Dropped.
type Fate struct {
	Received  uint64            `json:"received"`
	Forwarded uint64            `json:"forwarded"`
	Consumed  uint64            `json:"consumed"`
	Dropped   map[string]uint64 `json:"dropped"` // by reason
}

// DroppedTotal sums the drops of all reasons.
func (f *Fate) DroppedTotal() uint64 {
	var n uint64
	for _, v := range f.Dropped {
		n += v
	}
	return n
}

func (f *Fate) balanced() bool { return f.Received == f.Forwarded+f.Consumed+f.DroppedTotal() }

// PortReport is one port's info and counters.
type PortReport struct {
	port.Info
	port.Counters
	Fate                    // of the packets that arrived here
	Copies           Fate   `json:"copies"` // of their copies
	ReceivedBytes    uint64 `json:"received_bytes"`
	Transmitted      uint64 `json:"transmitted"` // packets that left here
	TransmittedBytes uint64 `json:"transmitted_bytes"`
	// Backlog is how many frames wait to be sent at the moment. It is for statuses, and in no report.
	Backlog uint64 `json:"-"`
	// Rebuilds is how often the port came back after its interface had vanished,
	// LinkChanges how often its link went up or down.
	Rebuilds    uint64 `json:"rebuilds"`
	LinkChanges uint64 `json:"link_changes"`
	// Classes are what became of the packets that were to leave here, by class, also of classes that the port has no more; empty
	// if it never had any.
	Classes []port.ClassCounters `json:"classes,omitempty"`
}

// StageReport is one stage's counters, summed over the workers.
type StageReport struct {
	pipeline.StageCounters
	NsPerPacket float64 `json:"ns_per_packet"` // sampled
}

// WorkerReport is one worker's counters.
type WorkerReport struct {
	ID     int      `json:"id"`
	Core   int      `json:"core"` // -1: not pinned
	Thread int      `json:"thread"`
	Queues []string `json:"queues"` // "port/queue"
	LoopCounters
	FreeFrames int    `json:"free_frames"` // in its cache
	CPUNs      uint64 `json:"cpu_ns"`      // processor time that its thread has used; 0 once it has ended
}

// FrameReport counts the frames of the pool.
type FrameReport struct {
	Total     int    `json:"total"`
	Size      int    `json:"size"`
	HugePages bool   `json:"huge_pages"`
	Audited   bool   `json:"audited"`
	Faults    uint64 `json:"faults"` // wrong changes of owner, with the audit
	// The others are known once the switch is closed. Lost frames have no owner.
	Lost int `json:"lost"`
	// HeldByKernel frames were the kernel's until the sockets closed, and
	// came back to us then. Those of interfaces that vanished are among them.
	HeldByKernel int `json:"held_by_kernel"`
	// Unconfirmed packets were transmitted, but the kernel had not confirmed
	// them when the switch closed or their interface vanished.
	Unconfirmed int `json:"unconfirmed"`
}

// Report collects all counters. It may be called at any time, also after Run.
func (s *Switch) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Report{
		Name: s.name, ID: s.id, Balanced: true,
		Fate: newFate(), Copies: newFate(),
		Frames: FrameReport{
			Total: s.pool.Frames(), Size: s.pool.FrameSize(), HugePages: s.pool.HugePages(), Audited: s.pool.Audited(),
		},
	}
	s.table.RLock()
	seats := slices.Clone(s.seats)
	s.table.RUnlock()
	sums, backlogs := make([]portCounters, len(seats)), make([]uint64, len(seats))
	var stages []pipeline.StageCounters
	var classes []pastClass
	for _, w := range s.workers {
		w.Do(func() {
			for i := range sums {
				sums[i].add(&w.counters[i])
			}
			if !s.closed {
				w.addBacklogs(backlogs)
			}
			classes = w.addClasses(classes)
			stages = addStages(stages, w.graph.AppendCounters(nil))
			r.Workers = append(r.Workers, w.report())
		})
	}
	for i, seat := range seats {
		if seat == nil {
			continue
		}
		pr := portReport(seat.port, &sums[i])
		pr.Backlog = backlogs[i]
		for k := range classes {
			if int(classes[k].port) == i {
				pr.Classes = append(pr.Classes, classes[k].ClassCounters)
			}
		}
		r.Balanced = r.Balanced && pr.Fate.balanced() && pr.Copies.balanced()
		r.Fate.add(&pr.Fate)
		r.Copies.add(&pr.Copies)
		if last, ok := s.last[seat]; ok {
			// A closed port knows no interface; the last report says how it was.
			pr.State, pr.Up, pr.Error = last.State, last.Up, last.Error
		}
		seat.addKept(&pr)
		r.Modes = append(r.Modes, pr.Name+": "+pr.Mode)
		r.Ports = append(r.Ports, pr)
	}
	for _, c := range stages {
		r.Stages = append(r.Stages, StageReport{c, c.NsPerPacket()})
	}
	census := s.pool.Census()
	r.Frames.Faults = census.Faults
	if s.closed {
		r.Frames.HeldByKernel = s.rest.HeldRx + s.rest.HeldTx
		r.Frames.Lost = census.Frames - s.pool.Free()
		r.Frames.Unconfirmed = s.rest.HeldTx + s.rest.Unsent
	}
	return r
}

func (w *Worker) report() WorkerReport {
	var cpu time.Duration
	if w.thread != 0 {
		cpu = max(clock.Thread(w.thread), 0)
	}
	return WorkerReport{
		ID: w.id, Core: w.core, Thread: w.thread, Queues: slices.Clone(w.names), LoopCounters: w.loop, FreeFrames: w.cache.Len(),
		CPUNs: uint64(cpu),
	}
}

func addStages(sum, one []pipeline.StageCounters) []pipeline.StageCounters {
	if sum == nil {
		return one
	}
	// By name: the graph may become another one between two workers' answers.
	for _, c := range one {
		if i := slices.IndexFunc(sum, func(s pipeline.StageCounters) bool { return s.Name == c.Name }); i >= 0 {
			sum[i].Add(c)
		} else {
			sum = append(sum, c)
		}
	}
	return sum
}

func portReport(p port.Port, c *portCounters) PortReport {
	r := PortReport{
		Info: p.Info(), Counters: p.Counters(),
		ReceivedBytes: c.receivedBytes, Transmitted: c.transmitted, TransmittedBytes: c.transmittedBytes,
	}
	r.Fate = fateReport(c.received, &c.fate[0])
	r.Copies = fateReport(c.copied, &c.fate[1])
	return r
}

func newFate() Fate { return Fate{Dropped: map[string]uint64{}} }

func fateReport(received uint64, f *fate) Fate {
	r := newFate()
	r.Received, r.Forwarded, r.Consumed = received, f.forwarded, f.reasons[packet.Consumed]
	for _, reason := range packet.Reasons() {
		if n := f.reasons[reason]; n != 0 {
			r.Dropped[reason.String()] = n
		}
	}
	return r
}

func (f *Fate) add(o *Fate) {
	f.Received += o.Received
	f.Forwarded += o.Forwarded
	f.Consumed += o.Consumed
	for k, n := range o.Dropped {
		f.Dropped[k] += n
	}
}
