package service

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

const (
	// coordinateInterval is between two messages to each switch, which may be new or have missed the last one.
	coordinateInterval = 5 * time.Second
	// assignedEpochs is for how many epochs an assignment is in force: switches that get no other one choose
	// by themselves behind it.
	assignedEpochs = 64
)

// coordinate sends switches the numbers of subepochs of their fragments until ctx ends.
func (s *Collector) coordinate(ctx context.Context) {
	known := map[uint16]*assigned{}
	tick := time.NewTicker(coordinateInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e, err := s.asker.present()
		if err != nil {
			continue // a question reports it
		}
		s.assign(&e, known)
	}
}

// assigned are the subepochs of a sketch that were found last, and when.
type assigned struct {
	*query.Subepochs
	version uint64
}

// assign finds subepochs from epochs that were looked at since the last call, and sends all to the switches.
func (s *Collector) assign(e *query.Engine, known map[uint16]*assigned) {
	now := uint64(clock.Kernel.TAI())
	bySwitch := map[uint64]*disketch.Assignments{}
	for _, number := range sketchNumbers(e.Store) {
		a := known[number]
		found, err := e.Subepochs(number, func(epochs disketch.Epochs, looked uint64) bool {
			return a == nil || a.Epochs != epochs || a.Looked != looked
		})
		if err == nil && found != nil {
			a = &assigned{Subepochs: found, version: now}
			known[number] = a
			s.log.Debug("subepochs of a sketch", zap.Uint16("sketch", number), zap.Uint64("epoch", found.Looked), zap.Float64("squared error over that of one", found.Ratio))
		}
		if a == nil || a.Epochs.Epoch(now) >= a.Last+assignedEpochs {
			continue // it is over
		}
		for sw, log := range a.Logs {
			m := bySwitch[sw]
			if m == nil {
				m = &disketch.Assignments{}
				bySwitch[sw] = m
			}
			if m.Version = max(m.Version, a.version); len(m.Each) < disketch.MaxAssignments {
				m.Each = append(m.Each, disketch.SketchAssignment{Sketch: number, Epochs: a.Epochs,
					Assignment: disketch.Assignment{Log: log, From: a.Last + 1, Until: a.Last + assignedEpochs}})
			}
		}
	}
	for sw, m := range bySwitch {
		body, _ := m.AppendBinary(nil)
		if err := s.reader.Send(jetstream.Assignments(uint32(sw)), body); err != nil && !errors.Is(err, jetstream.ErrDisconnected) {
			s.log.Warn("subepochs of DiSketch are not sent", zap.Uint64("switch", sw), zap.Error(err))
		}
	}
}

// sketchNumbers are the sketches of which there are records, in the order of their first ones.
func sketchNumbers(s *store.Store) (numbers []uint16) {
	seen := map[uint16]bool{}
	for i := range s.Fragments {
		if n := s.Fragments[i].ID.Sketch; !seen[n] {
			seen[n] = true
			numbers = append(numbers, n)
		}
	}
	return numbers
}
