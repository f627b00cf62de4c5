package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// queryOptions are the flags of weir query.
type queryOptions struct {
	records    string
	last       time.Duration
	confidence float64
	delta      float64 // 1 - confidence, if given
	flow       string
	selection  querySelection
	from, to   string
	weight     uint32
	at, flows  string
	unit       string
	theta      float64
	epsilon    float64
	by         string
	least      float64
	sketch     uint16
	paths      string
	pint       []string
	lab        string
	seed       uint64
	asJSON     bool
}

func newQueryCommand() *cobra.Command {
	var o queryOptions
	cmd := &cobra.Command{
		Use:   "query",
		Short: "Ask the records of a network's switches",
		Long: `Query answers from the records that switches have spooled into a folder
([telemetry] spool). Each answer has its bounds, and says what was missing.

Which fragments of a sketch counted a flow is known by its path: from what sinks
decoded of PINT's digests (--pint), and for flows of which these know nothing, from a
file of prefixes (--paths), or recomputed from the routes of a lab's switches (--lab).`,
		Example: `  weir query volume --records DIR --last 10s
  weir query volume --records DIR --prefix 10.1.0.0/16 --proto udp --port 53
  weir query heavy-hitters --records DIR --theta 0.01 --epsilon 0.005 --delta 0.01
  weir query heavy-hitters --records DIR --at "s2:0 in" --unit bytes
  weir query frequency --records DIR --lab config/spineleaf.toml --flow "10.0.0.1:1234 > 10.0.0.2:80 udp"
  weir query delay --records DIR --from s1 --to s2 --flow "10.0.0.1:1234 > 10.0.0.2:80 udp"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	p := cmd.PersistentFlags()
	p.StringVar(&o.records, "records", "", "folder of records")
	p.DurationVar(&o.last, "last", 0, "only so long before the newest record; 0: all")
	p.Float64Var(&o.confidence, "confidence", 0.95, "probability with which bounds hold")
	p.Float64Var(&o.delta, "delta", 0, "probability with which bounds may fail, in place of --confidence 1-delta")
	p.StringVar(&o.paths, "paths", "", "file of the flows' paths (docs/query.md)")
	p.StringSliceVar(&o.pint, "pint", nil, "files of the paths that sinks decoded: weir ctl show paths --json")
	p.StringVar(&o.lab, "lab", "", "lab file whose switches' routes tell the flows' paths")
	p.Uint64Var(&o.seed, "seed", 0, "seed of [stages.parse] in the switches; with --lab its own")
	p.BoolVar(&o.asJSON, "json", false, "print as one JSON object")
	if err := cmd.MarkPersistentFlagRequired("records"); err != nil {
		panic(err) // the flag is there, three lines above
	}
	cmd.MarkFlagsMutuallyExclusive("paths", "lab")
	cmd.MarkFlagsMutuallyExclusive("confidence", "delta")
	for _, q := range queries {
		sub := &cobra.Command{
			Use: q.name, Short: q.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if cmd.Flags().Changed("delta") {
					o.confidence = 1 - o.delta
				}
				return o.run(q, cmd.OutOrStdout())
			},
		}
		f := sub.Flags()
		if q.flow {
			f.StringVar(&o.flow, "flow", "", "the flow, as \"10.0.0.1:1234 > 10.0.0.2:80 udp\"")
		}
		if q.places {
			f.StringVar(&o.from, "from", "", "switch, or switch:port number, that packets leave")
			f.StringVar(&o.to, "to", "", "switch, or switch:port number, at which they arrive")
			f.Uint32Var(&o.weight, "weight", 1, "what the points count a packet of the flow as: its weight in [[stages.lds_ingress.weight]]")
		}
		if q.subset {
			o.selection.add(sub)
		}
		if q.heavy {
			f.StringVar(&o.at, "at", "", "measurement point whose sketch tells: switch, or switch:port number, and \"in\" or \"out\" behind it; without, the network-wide sample")
			f.StringVar(&o.flows, "flows", "", "with --at, `FILE` of the flows to look for, one in a line; without, those that samples name")
			f.StringVar(&o.unit, "unit", "packets", "packets or bytes")
			f.Float64Var(&o.theta, "theta", 0.001, "share of the volume from which on a flow is heavy")
			f.Float64Var(&o.epsilon, "epsilon", 0, "error of that share, up to theta: report from theta - epsilon/2 on; 0: by the estimates alone")
			f.StringVar(&o.by, "by", "", "sample or sketch; default: the sample if there is one")
			f.Float64Var(&o.least, "at-least", 0, "with the sketch: size from which on a flow is heavy, in place of --theta")
		}
		if q.sketch {
			f.Uint16Var(&o.sketch, "sketch", 0, "number of the sketch: the position of its fragments in the switches' files, from 0")
		}
		cmd.AddCommand(sub)
	}
	return cmd
}

// queryKind is one question.
type queryKind struct {
	name, short                 string
	flow, places, heavy, subset bool // which flags it has
	sketch                      bool // likewise
	ask                         func(*queryOptions, *query.Engine) (any, error)
	print                       func(io.Writer, any) error
}

var queries = []queryKind{
	{name: "volume", short: "Packets and bytes, each packet counted once in the network; of all flows, or some", subset: true,
		ask: func(o *queryOptions, e *query.Engine) (any, error) {
			s, err := o.selection.parse()
			if err != nil {
				return nil, usageError(err)
			}
			return e.Select(s)
		},
		print: printAnswer(printVolume)},
	{name: "frequency", short: "Packets and bytes of a flow", flow: true,
		ask: func(o *queryOptions, e *query.Engine) (any, error) {
			k, err := query.ParseKey(o.flow)
			if err != nil {
				return nil, usageError(err)
			}
			return e.Frequency(k)
		},
		print: printAnswer(printFrequency)},
	{name: "heavy-hitters", short: "The flows with the largest shares", heavy: true,
		ask: (*queryOptions).heavyHitters, print: printAnswer(printHeavyHitters)},
	{name: "entropy", short: "Entropy of the flows' shares",
		ask:   func(_ *queryOptions, e *query.Engine) (any, error) { return e.Entropy() },
		print: printAnswer(printEntropy)},
	{name: "cardinality", short: "The number of flows",
		ask:   func(_ *queryOptions, e *query.Engine) (any, error) { return e.Cardinality() },
		print: printAnswer(printCardinality)},
	{name: "target", short: "The error that all fragments of a sketch best aim at", sketch: true,
		ask:   func(o *queryOptions, e *query.Engine) (any, error) { return e.Target(o.sketch) },
		print: printAnswer(printTarget)},
	{name: "delay", short: "One-way delay between two measurement points", flow: true, places: true,
		ask: (*queryOptions).between, print: printAnswer(printDelay)},
	{name: "loss", short: "Packets lost between two measurement points", flow: true, places: true,
		ask: (*queryOptions).between, print: printAnswer(printLoss)},
}

// heavyHitters asks whom --by names, or who knows.
func (o *queryOptions) heavyHitters(e *query.Engine) (any, error) {
	unit, err := oblivious.ParseUnit(o.unit)
	if err != nil || unit == oblivious.Flows {
		return nil, usageError(fmt.Errorf("--unit %q: choose packets or bytes", o.unit))
	}
	if !(o.theta > 0 && o.theta <= 1) || !(o.epsilon >= 0 && o.epsilon <= o.theta) {
		return nil, usageError(fmt.Errorf("--theta %g, --epsilon %g: choose a share above 0, up to 1, and an error of at most that", o.theta, o.epsilon))
	}
	if o.at != "" || o.flows != "" {
		if o.by != "" || o.least > 0 {
			return nil, usageError(errors.New("--by and --at-least do not go with --at and --flows: a measurement point has one sketch, without keys"))
		}
		return o.heavyHittersAt(e, unit)
	}
	if o.epsilon > 0 && (o.by == query.BySketch || o.least > 0) {
		return nil, usageError(fmt.Errorf("--epsilon %g: choose it with --by sample, whose size decides what is guaranteed", o.epsilon))
	}
	if !(o.least >= 0) || o.least > 0 && o.by == query.BySample {
		return nil, usageError(fmt.Errorf("--at-least %g: choose a size above 0, with --by sketch", o.least))
	}
	switch o.by {
	case "", query.BySample:
		if o.least > 0 {
			break
		}
		h, err := e.HeavyHitters(unit, o.theta, o.epsilon)
		if err == nil || o.by != "" || !errors.Is(err, query.ErrNoRecords) {
			return h, err
		}
		bySketch, sketchErr := e.SketchHeavyHitters(o.theta, 0)
		if sketchErr != nil {
			return nil, errors.Join(err, sketchErr)
		}
		return bySketch, nil
	case query.BySketch:
	default:
		return nil, usageError(fmt.Errorf("--by %q: choose sample or sketch", o.by))
	}
	return e.SketchHeavyHitters(o.theta, o.least)
}

// between asks for delay and loss.
func (o *queryOptions) between(e *query.Engine) (any, error) {
	if o.from == "" || o.to == "" {
		return nil, usageError(errors.New("name both ends with --from and --to"))
	}
	from, err := e.ParsePlace(o.from)
	to, err2 := e.ParsePlace(o.to)
	if err := errors.Join(err, err2); err != nil {
		return nil, usageError(err)
	}
	if o.flow == "" {
		return e.Between(from, to, nil)
	}
	k, err := query.ParseKey(o.flow)
	if err != nil {
		return nil, usageError(err)
	}
	if o.weight < 1 || o.weight > lds.MaxWeight {
		return nil, usageError(fmt.Errorf("--weight %d: choose 1 to %d", o.weight, lds.MaxWeight))
	}
	e.Weight = o.weight
	return e.Between(from, to, &k)
}

// heavyHittersAt asks a measurement point.
func (o *queryOptions) heavyHittersAt(e *query.Engine, unit oblivious.Unit) (any, error) {
	if o.at == "" {
		return nil, usageError(errors.New("--flows names candidates for a measurement point: name that too, with --at"))
	}
	at, err := e.ParseAt(o.at)
	if err != nil {
		return nil, usageError(err)
	}
	var flows []query.Key
	if o.flows != "" {
		text, err := os.ReadFile(o.flows)
		if err != nil {
			return nil, usageError(err)
		}
		if flows, err = query.ReadFlows(string(text)); err != nil {
			return nil, usageError(fmt.Errorf("%s: %w", o.flows, err))
		}
	}
	return e.HeavyHittersAt(at, unit, o.theta, o.epsilon, flows)
}

// run is a question, top to bottom.
func (o *queryOptions) run(q queryKind, stdout io.Writer) error {
	e, err := o.engine()
	if err != nil {
		return usageError(err)
	}
	answer, err := q.ask(o, e)
	if err != nil {
		return err
	}
	if o.asJSON {
		return json.NewEncoder(stdout).Encode(answer)
	}
	if err := q.print(stdout, answer); err != nil {
		return err
	}
	return printCounts(stdout, e.Store.Counts())
}

// engine reads the records and whatever tells the flows' paths.
func (o *queryOptions) engine() (*query.Engine, error) {
	if !(o.confidence > 0 && o.confidence < 1) {
		return nil, fmt.Errorf("bounds with confidence %g: choose --confidence, or --delta, above 0 and below 1", o.confidence)
	}
	if o.last < 0 {
		return nil, fmt.Errorf("--last %v: choose a length of time above 0, or 0 for all", o.last)
	}
	s, err := store.Read(o.records)
	if err != nil {
		return nil, err
	}
	e := &query.Engine{Store: s, Confidence: o.confidence, FlowSeed: o.seed}
	if o.last > 0 {
		e.Window = s.Last(o.last)
	}
	var paths query.FirstOf
	if o.pint != nil {
		decoded, err := query.ReadPintPaths(o.pint...)
		if err != nil {
			return nil, err
		}
		paths = append(paths, decoded)
	}
	switch {
	case o.paths != "":
		listed, err := query.ReadPaths(o.paths, s)
		if err != nil {
			return nil, err
		}
		paths = append(paths, listed)
	case o.lab != "":
		c, err := lab.Load(o.lab)
		if err != nil {
			return nil, err
		}
		recomputed, err := newLabPaths(c)
		if err != nil {
			return nil, err
		}
		paths, e.FlowSeed = append(paths, recomputed), recomputed.seed
	}
	if paths != nil {
		e.Paths = paths
	}
	return e, nil
}
