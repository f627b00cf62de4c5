package query

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/store"
)

// Question is what all views ask an [Engine]. Zero values mean
// the defaults; fields that the kind does not use must be zero ([Kind.Uses]).
type Question struct {
	Kind Kind `json:"kind"`

	// Flow is one flow, as ParseKey reads it; empty: the flows selected, if the kind
	// knows more than one.
	Flow string `json:"flow,omitempty"`
	// Prefix holds the source or the destination, Src and Dst one of them, as
	// "10.0.0.0/8" or an address; Proto is a protocol by name or number, Port a number
	// of either end. All that is given holds. Not with Flow.
	Prefix string `json:"prefix,omitempty"`
	Src    string `json:"src,omitempty"`
	Dst    string `json:"dst,omitempty"`
	Proto  string `json:"proto,omitempty"`
	Port   string `json:"port,omitempty"`

	// From and To are places, "s1", "s1:up1" or "s1:2": switches, and ports of them by name or number.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// At is a measurement point, "s1:up1 in" or "s1:2 in", for heavy hitters; Flows are the
	// candidates looked for there; none: those that the samples name. For network it is a
	// switch, "s1", or a port of it, "s1:up1" or "s1:2", which a series needs. Of delay and loss, Flows are
	// those that the answer has one by one, beside all together; not with Flow or Step.
	At    string   `json:"at,omitempty"`
	Flows []string `json:"flows,omitempty"`

	// Unit is "packets" (also if empty) or "bytes".
	Unit string `json:"unit,omitempty"`
	// Theta is the share of the volume from which on a flow is heavy, in (0, 1]; 0
	// means 0.001. Epsilon is its error, in [0, Theta]; 0: by the estimates alone.
	Theta   float64 `json:"theta,omitempty"`
	Epsilon float64 `json:"epsilon,omitempty"`
	// AtLeast is a size in Unit instead of Theta, of the sketch; 0: by Theta.
	AtLeast float64 `json:"at_least,omitempty"`
	// By is what names heavy hitters: "sample", "sketch", or empty: the sample if there
	// is one.
	By string `json:"by,omitempty"`
	// Sketch is the number of a sketch, for target.
	Sketch uint16 `json:"sketch,omitempty"`
	// Weight is what measurement points count a packet of Flow as, in
	// 1..MaxWeight; 0 means 1.
	Weight uint32 `json:"weight,omitempty"`
	// Segments asks for delay and loss of Flow between each two switches of its path, too. Not with Step.
	Segments bool `json:"segments,omitempty"`

	// Hop is one hop of a flow, from 1; 0: all.
	Hop int `json:"hop,omitempty"`
	// Quantiles are ranks in [0, 1]; none means DefaultQuantiles.
	Quantiles []float64 `json:"quantiles,omitempty"`
	// Limit bounds the rows of an answer's lists, in 1..MaxLimit; 0 means
	// DefaultLimit. Answers count what they leave out.
	Limit int `json:"limit,omitempty"`

	// Last asks about so long before the end of the newest record, in ns, or before the engine's clock where that record is
	// late or claims a time to come (store.Store.LastBefore). Start and End
	// are the window in ns of the switches' clock (CLOCK_TAI), as answers state theirs;
	// 0: unbounded on that side. Not both ways. Nothing: the engine's window.
	Last  time.Duration `json:"last_ns,omitempty"`
	Start int64         `json:"start_ns,omitempty"`
	End   int64         `json:"end_ns,omitempty"`
	// Confidence that bounds hold, in (0, 1); 0 means the engine's.
	Confidence float64 `json:"confidence,omitempty"`
	// Step asks for a Series of the window in pieces of this length, in ns; 0: one
	// answer. For the kinds of which [Kind.HasSeries] is true.
	Step time.Duration `json:"step_ns,omitempty"`
}

// Defaults and bounds of a Question.
const (
	DefaultTheta = 0.001
	DefaultLimit = 1000
	MaxLimit     = 100_000
	// MaxQuantiles, MaxFlows and MaxText bound lists, and each text in bytes.
	MaxQuantiles = 64
	MaxWeight    = 10_000 // as in [[stages.lds_ingress.weight]]
	MaxFlows     = 100_000
	MaxText      = 256
)

// DefaultQuantiles are the ranks that a question asks for which names none.
func DefaultQuantiles() []float64 { return []float64{0.5, 0.9, 0.99} }

// ErrInvalid says that a question is wrong in itself, whatever the records are.
var ErrInvalid = errors.New("the question is not valid")

// Validate reports all faults at once, each with its field's JSON name and the remedy.
// The error wraps ErrInvalid. Names of switches are not looked at: they are the store's.
func (q *Question) Validate() error {
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	if _, known := kinds[q.Kind]; !known {
		fault("kind %q: use one of %s", shorten(string(q.Kind)), strings.Join(kindNames(), ", "))
	} else {
		q.validateUse(fault)
	}
	q.validateTexts(fault)
	q.validateFlows(fault)
	q.validateNumbers(fault)
	q.validateWindow(fault)
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(faults...))
}

// written says how needed fields are written.
var written = map[string]string{
	"flow": `: write it as "10.0.0.1:1234 > 10.0.0.2:80 udp"`,
	"from": `: name a switch, as "s1", or a port of it, as "s1:up1" or "s1:2"`,
	"to":   `: name a switch, as "s1", or a port of it, as "s1:up1" or "s1:2"`,
}

// validateUse reports fields that the kind does not use, and those that it lacks.
func (q *Question) validateUse(fault func(string, ...any)) {
	k := kinds[q.Kind]
	for _, f := range q.given() {
		if !slices.Contains(k.uses, f) && !slices.Contains(common, f) {
			fault("%s: not for %s: leave it out", f, q.Kind)
		}
	}
	for _, f := range k.needs {
		if !slices.Contains(q.given(), f) {
			fault("%s: %s needs it%s", f, q.Kind, written[f])
		}
	}
	if q.Step != 0 && !k.series {
		fault("step_ns: %s has no series: leave it out", q.Kind)
	}
	if q.Step != 0 && q.Kind == KindNetwork && q.At == "" {
		fault("at: a series of network is of one switch: name it, or a port of it")
	}
}

// validateTexts bounds what would be repeated in errors.
func (q *Question) validateTexts(fault func(string, ...any)) {
	for _, t := range []struct{ name, text string }{
		{"flow", q.Flow}, {"prefix", q.Prefix}, {"src", q.Src}, {"dst", q.Dst}, {"proto", q.Proto}, {"port", q.Port},
		{"from", q.From}, {"to", q.To}, {"at", q.At}, {"unit", q.Unit}, {"by", q.By},
	} {
		if len(t.text) > MaxText {
			fault("%s: %d bytes: at most %d", t.name, len(t.text), MaxText)
		}
	}
}

func (q *Question) validateFlows(fault func(string, ...any)) {
	if _, err := q.key(); err != nil {
		fault("flow: %w", err)
	}
	s, err := q.selection()
	if err != nil {
		fault("%w", err)
	}
	if q.Flow != "" && s != nil && !s.All() {
		fault("flow: one flow needs no prefix, src, dst, proto or port: leave them out")
	}
	if len(q.Flows) > MaxFlows {
		fault("flows: %d of them: at most %d", len(q.Flows), MaxFlows)
		return
	}
	switch between := q.Kind == KindDelay || q.Kind == KindLoss; {
	case len(q.Flows) == 0:
	case between && q.Flow != "":
		fault("flows: flow names one: leave one of them out")
	case between && q.Step != 0:
		fault("flows: a series has none: leave them out, or step_ns")
	case !between && q.At == "":
		fault("flows: they are candidates for a measurement point: name that with at")
	}
	for i, text := range q.Flows {
		if _, err := parseShort(text); err != nil {
			fault("flows[%d]: %w", i, err)
			return // the others are likely as wrong
		}
	}
}

func (q *Question) validateNumbers(fault func(string, ...any)) {
	if _, err := q.unit(); err != nil {
		fault("unit: %w", err)
	}
	if q.Theta != 0 && !(q.Theta > 0 && q.Theta <= 1) {
		fault("theta %g: choose a share above 0, up to 1", q.Theta)
	}
	if !(q.Epsilon >= 0 && q.Epsilon <= max(q.theta(), 0)) {
		fault("epsilon %g: choose 0 up to theta, which is %g", q.Epsilon, q.theta())
	}
	if !(q.AtLeast >= 0) || math.IsInf(q.AtLeast, 1) {
		fault("at_least %g: choose a size above 0", q.AtLeast)
	}
	if q.By != "" && q.By != BySample && q.By != BySketch {
		fault("by %q: choose sample or sketch", shorten(q.By))
	}
	if q.By == BySample && q.AtLeast > 0 {
		fault("at_least: the sample's heavy hitters are shares: choose theta, or by sketch")
	}
	if (q.By == BySketch || q.AtLeast > 0) && q.Epsilon > 0 {
		fault("epsilon: a sketch guarantees none: choose it with by sample")
	}
	if q.At != "" && (q.By != "" || q.AtLeast > 0) {
		fault("at: by and at_least do not go with it: a measurement point has one sketch, without keys")
	}
	if q.Weight > MaxWeight {
		fault("weight %d: choose 1 to %d", q.Weight, MaxWeight)
	}
	if q.Segments && q.Flow == "" {
		fault("segments: they are of the path of one flow: name it")
	}
	if q.Segments && q.Step != 0 {
		fault("segments: a series has none: leave them out, or step_ns")
	}
	if q.Hop < 0 || q.Hop > 255 {
		fault("hop %d: choose 1 to 255, or 0 for all", q.Hop)
	}
	if q.Hop != 0 && q.Flow == "" {
		fault("hop: hops are of one flow, several are pooled by switch: name a flow")
	}
	if len(q.Quantiles) > MaxQuantiles {
		fault("quantiles: %d of them: at most %d", len(q.Quantiles), MaxQuantiles)
	}
	for i, rank := range q.Quantiles {
		if !(rank >= 0 && rank <= 1) {
			fault("quantiles[%d] is %g: choose a rank in 0 to 1", i, rank)
		}
	}
	if q.Limit < 0 || q.Limit > MaxLimit {
		fault("limit %d: choose 1 to %d, or 0 for %d", q.Limit, MaxLimit, DefaultLimit)
	}
	if q.Confidence != 0 && !(q.Confidence > 0 && q.Confidence < 1) {
		fault("confidence %g: choose a probability above 0 and below 1", q.Confidence)
	}
}

// maxTime keeps sums of times in 64 bits.
const maxTime = 1 << 61

func (q *Question) validateWindow(fault func(string, ...any)) {
	if q.Last < 0 || int64(q.Last) > maxTime {
		fault("last_ns %d: choose a length of time above 0, or 0 for all", int64(q.Last))
	}
	for _, t := range []struct {
		name string
		ns   int64
	}{{"start_ns", q.Start}, {"end_ns", q.End}} {
		if t.ns < -maxTime || t.ns > maxTime {
			fault("%s %d: choose a time between -2^61 and 2^61", t.name, t.ns)
		}
	}
	if q.Last != 0 && (q.Start != 0 || q.End != 0) {
		fault("last_ns: it does not go with start_ns and end_ns: choose one")
	}
	if q.Start != 0 && q.End != 0 && q.Start >= q.End {
		fault("end_ns %d: it must be behind start_ns %d", q.End, q.Start)
	}
	if q.Step < 0 || int64(q.Step) > maxTime {
		fault("step_ns %d: choose a length of time above 0, or 0 for one answer", int64(q.Step))
	}
}

// key is the flow asked about; the zero Key: none was named.
func (q *Question) key() (Key, error) {
	if q.Flow == "" {
		return Key{}, nil
	}
	return parseShort(q.Flow)
}

// keys are those of Flows.
func (q *Question) keys() ([]Key, error) {
	flows := make([]Key, 0, len(q.Flows))
	for _, text := range q.Flows {
		k, err := parseShort(text)
		if err != nil {
			return nil, fmt.Errorf("%w: flows: %w", ErrInvalid, err)
		}
		flows = append(flows, k)
	}
	return flows, nil
}

func parseShort(text string) (Key, error) {
	if len(text) > MaxText {
		return Key{}, fmt.Errorf("%d bytes: at most %d", len(text), MaxText)
	}
	return ParseKey(text)
}

// selection is the set of flows asked about.
func (q *Question) selection() (*Selection, error) {
	s := &Selection{}
	var faults []error
	fault := func(name string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	var err error
	if q.Prefix != "" {
		s.Prefix, err = ParsePrefix(shorten(q.Prefix))
		fault("prefix", err)
	}
	if q.Src != "" {
		s.Src, err = ParsePrefix(shorten(q.Src))
		fault("src", err)
	}
	if q.Dst != "" {
		s.Dst, err = ParsePrefix(shorten(q.Dst))
		fault("dst", err)
	}
	if q.Proto != "" {
		proto, err := ParseProto(shorten(q.Proto))
		fault("proto", err)
		s.Proto = &proto
	}
	if q.Port != "" {
		port, err := parsePort(q.Port)
		fault("port", err)
		s.Port = &port
	}
	return s, errors.Join(faults...)
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is no number up to 65535", shorten(text))
	}
	return uint16(n), nil
}

// shorten keeps texts of strangers short in errors; what is longer than any name is
// none.
func shorten(text string) string {
	if len(text) > MaxText {
		return text[:MaxText]
	}
	return text
}

func (q *Question) unit() (oblivious.Unit, error) {
	if q.Unit == "" {
		return oblivious.Packets, nil
	}
	u, err := oblivious.ParseUnit(shorten(q.Unit))
	if err != nil || u != oblivious.Packets && u != oblivious.Bytes {
		return u, fmt.Errorf("%q: choose packets or bytes", shorten(q.Unit))
	}
	return u, nil
}

func (q *Question) theta() float64 {
	if q.Theta == 0 {
		return DefaultTheta
	}
	return q.Theta
}

func (q *Question) limit() int {
	if q.Limit == 0 {
		return DefaultLimit
	}
	return q.Limit
}

func (q *Question) quantiles() []float64 {
	if len(q.Quantiles) == 0 {
		return DefaultQuantiles()
	}
	return q.Quantiles
}

// window is the one asked about, of a store.
func (q *Question) window(s *store.Store, otherwise store.Window, now int64) store.Window {
	switch {
	case q.Last > 0:
		return s.LastBefore(q.Last, now)
	case q.Start == 0 && q.End == 0:
		return otherwise
	}
	return s.Range(q.Start, q.End)
}

// ParseTime reads a time of a window: ns of CLOCK_TAI, or RFC 3339, which this machine's clocks convert. 0: text is
// empty. name is what an error calls it.
func ParseTime(name, text string) (ns int64, err error) {
	if text == "" {
		return 0, nil
	}
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ns, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, fmt.Errorf("%s %q: write a time as 2026-01-31T12:00:00Z, or nanoseconds as answers have them", name, text)
	}
	return t.UnixNano() + clock.UTCOffset(), nil
}
