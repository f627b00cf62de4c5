package query

import "github.com/weirswitch/weir/telemetry/store"

// Series is an answer over time: the window in pieces, in the order of time.
type Series struct {
	Basis
	Of     Kind          `json:"of"`
	StepNs int64         `json:"step_ns"`
	Points []SeriesPoint `json:"points"`
}

// MaxPoints bounds the points of a Series.
const MaxPoints = 2048

// SeriesPoint is the answer of one piece.
type SeriesPoint struct {
	store.Window
	// Values are what the kind's answers have of numbers, each under the same name in
	// every point: "packets" and "bytes" of volume, "bits", "flows", and so on.
	Values []SeriesValue `json:"values"`
	// Fault says why there is no value; empty: there is one.
	Fault string `json:"fault,omitempty"`
}

// SeriesValue is a number with its bounds.
type SeriesValue struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Bounded
}
