package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirswitch/weir/internal/plural"
	"github.com/weirswitch/weir/telemetry/oblivious"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/store"
)

// ErrNoRecords says that there are no records to answer a question from.
var ErrNoRecords = errors.New("no records")

// Engine asks a store.
type Engine struct {
	Store *store.Store
	// Window that is asked about; the zero window: all there is.
	Window store.Window
	// Confidence that bounds hold, above 0 and below 1; 0 means 0.95.
	Confidence float64
	// Paths of flows, for questions that fragments answer; nil: none are known.
	Paths Paths
	// Weight is what measurement points count a packet of the flows as that are asked
	// about; 0 means 1.
	Weight uint32
	// FlowSeed is the seed of [stages.parse] in all switches.
	FlowSeed uint64
	// Links of the network, and Now, in ns of CLOCK_TAI, are for the question network: who
	// asks about records that are still coming says what time it is, so that switches which
	// have all gone silent are seen to be. 0: the window's end.
	Links []Link
	Now   int64
	// Plans are PINT's plans whose digests can be read; none: pint.DefaultPlan.
	Plans []*pintplan.Plan
	// Switches are numbers of switches beside those of which there are records, Names the same with their names, and
	// Topology the links between switches, nil if they are not known: among these, paths are decoded from digests.
	// A switch that makes no records, as a P4 switch in the middle of the network does not, is known by these alone.
	Switches []uint64
	Names    map[uint32]string
	Topology *pintpath.Topology
	// Limits bound the cost of a question.
	Limits Limits
	// Progress gets how many of the intervals have been read that a question of delay or loss needs between two places; nil: it is not shown.
	Progress func(read, all int)

	ctx     context.Context // of the question that this engine was made for; nil: none
	wires   *wiring         // of the store and the links; nil: not read yet
	piece   bool            // of a series, which has the times of records
	decoded Paths           // of all pieces of a series; nil: of each question anew
	// unions are the samples that the question joined already; nil: none are kept.
	unions map[string]*network
}

// Bounded is a value with bounds that hold with the engine's confidence.
type Bounded struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Holds reports whether the bounds hold a value.
func (b Bounded) Holds(truth float64) bool { return b.Low <= truth && truth <= b.High }

func bounded(e oblivious.Estimate) Bounded { return Bounded(e) }

// Basis is what an answer rests on.
type Basis struct {
	store.Window
	Confidence float64         `json:"confidence"`
	Records    int             `json:"records"`
	Switches   int             `json:"switches"`
	Missing    []store.Missing `json:"missing"`
}

// String is the basis in a clause.
func (b *Basis) String() string {
	return fmt.Sprintf("%s of %s over %v, confidence %g",
		plural.Counted(b.Records, "record"), plural.Counted(b.Switches, "switch"), time.Duration(b.To-b.From).Round(time.Millisecond), b.Confidence)
}

func (e *Engine) window() store.Window {
	if e.Window == (store.Window{}) {
		return e.Store.All()
	}
	return e.Window
}

func (e *Engine) confidence() (float64, error) {
	switch {
	case e.Confidence == 0:
		return 0.95, nil
	case e.Confidence > 0 && e.Confidence < 1:
		return e.Confidence, nil
	}
	return 0, fmt.Errorf("confidence %g: choose a probability above 0 and below 1", e.Confidence)
}

// basis begins an answer.
func (e *Engine) basis(of string) (Basis, error) {
	c, err := e.confidence()
	w := e.window()
	return Basis{Window: w, Confidence: c, Missing: e.Store.Missing(of, w)}, err
}

// basisOfDigests begins an answer from digests: of the partition that a question is about, or of all, which is store.AllPartitions.
func (e *Engine) basisOfDigests(q *Question) (b Basis, partition int, err error) {
	partition, one := e.partition(q)
	if !one {
		b, err = e.basis(store.OfDigests)
		return b, partition, err
	}
	c, err := e.confidence()
	w := e.window()
	return Basis{Window: w, Confidence: c, Missing: e.Store.MissingDigests(partition, w)}, partition, err
}

// rest notes which records the answer rests on.
func (b *Basis) rest(switches map[uint32]bool, o *store.Origin) {
	b.Records++
	switches[o.Switch] = true
	b.Switches = len(switches)
}
