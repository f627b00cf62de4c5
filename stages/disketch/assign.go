package disketch

import (
	"fmt"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// ahead is how far a collector's clock may be before the switch's, in ns: what was made later than that would keep
// all that comes later from being taken.
const ahead = 60e9

// Assign takes the numbers of subepochs that a collector chose, at the time now in ns of CLOCK_TAI. What is not newer
// than the last ones is ignored, and counted if it is older; so is, by fragment, what is over, or is of epochs of
// another length. A fragment with a target of its own configuration does not follow. An error says that the bytes
// are no assignments, or not of this time; then nothing is taken.
func (m *Module) Assign(now int64, body []byte) error {
	var a disketch.Assignments
	if err := a.UnmarshalBinary(body); err != nil {
		return err
	}
	if a.Version > uint64(max(now, 0))+ahead {
		return fmt.Errorf("assignments of DiSketch are of a time %d s ahead: set the clocks of the collector and the switches", (a.Version-uint64(max(now, 0)))/1e9)
	}
	m.assigning.Lock()
	defer m.assigning.Unlock()
	newer, older := a.Version > m.version, a.Version < m.version
	m.version = max(m.version, a.Version)
	for _, e := range a.Each {
		if int(e.Sketch) >= len(m.fragments) {
			continue // the sketch is on other switches
		}
		f := m.fragments[e.Sketch]
		present := f.epochs.Epoch(uint64(max(now, 0)))
		switch {
		case older || e.Epochs != f.epochs || e.Until <= present || e.From > present+longestWait:
			f.stale.Add(1)
		case newer:
			f.mu.Lock()
			f.plan.Assign(e.Assignment)
			f.mu.Unlock()
			f.assignments.Add(1)
		}
	}
	return nil
}

// longestWait is how many epochs ahead an assignment may begin.
const longestWait = 64
