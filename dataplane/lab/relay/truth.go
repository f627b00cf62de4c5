package relay

import (
	"cmp"
	"slices"
)

// Truth is what a relay did, by classes and by flows.
type Truth struct {
	Name    string       `json:"name"`
	Classes []ClassTruth `json:"classes"`
	Flows   []FlowTruth  `json:"flows"`
	Dropped uint64       `json:"dropped"` // frames of all kinds
}

// ClassTruth is what became of a class, both directions together.
type ClassTruth struct {
	Class
	Received uint64 `json:"received"`
	Sent     uint64 `json:"sent"`
	Dropped  uint64 `json:"dropped"`
	// MeanNs is the mean achieved delay.
	MeanNs float64 `json:"mean_ns"`
}

// FlowTruth is what became of a flow. From is the port that it came by.
type FlowTruth struct {
	Flow     string  `json:"flow"` // "10.0.0.1:1234 > 10.0.0.2:80 udp"
	From     string  `json:"from"`
	Class    int     `json:"class"`
	Received uint64  `json:"received"`
	Sent     uint64  `json:"sent"`
	Dropped  uint64  `json:"dropped"`
	MeanNs   float64 `json:"mean_ns"`
	// Arrivals and Departures are the sums of the times at which packets were received and sent, modulo 2^64: where all that one relay sent came to the next,
	// their difference is what packets waited between both.
	Arrivals   uint64 `json:"arrivals_ns"`
	Departures uint64 `json:"departures_ns"`
}

// truth adds up what both directions did.
func truth(c *Config, lines [2]*line) Truth {
	classes := c.all()
	t := Truth{Name: c.Name, Classes: make([]ClassTruth, len(classes)), Flows: []FlowTruth{}}
	sums := make([]float64, len(classes))
	for i, l := range lines {
		t.Dropped += l.dropped
		for k, f := range l.flows {
			class := &t.Classes[f.class]
			class.Received += f.received
			class.Sent += f.sent
			class.Dropped += f.dropped
			sums[f.class] += f.delays
			t.Flows = append(t.Flows, FlowTruth{
				Flow: k.String(), From: c.Ports[i], Class: f.class,
				Received: f.received, Sent: f.sent, Dropped: f.dropped, MeanNs: f.delays / float64(max(f.sent, 1)),
				Arrivals: f.arrivals, Departures: f.departures,
			})
		}
	}
	for i := range t.Classes {
		t.Classes[i].Class = classes[i]
		t.Classes[i].MeanNs = sums[i] / float64(max(t.Classes[i].Sent, 1))
	}
	slices.SortFunc(t.Flows, func(a, b FlowTruth) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Flow, b.Flow))
	})
	return t
}
