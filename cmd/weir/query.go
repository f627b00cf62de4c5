package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/internal/progress"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// queryOptions are the flags of weir query that are no part of a question.
type queryOptions struct {
	records   querySpool
	collector queryCollector
	asJSON    bool
	parquet   string
	watch     time.Duration
}

func newQueryCommand() *cobra.Command {
	var o queryOptions
	cmd := &cobra.Command{
		Use:   "query",
		Short: "Ask a network: what its switches measured",
		Long: `Query asks a running collector (weir collect), or the records that switches have spooled
into a folder ([telemetry] spool). Each answer has its bounds, and says what was missing.

Which fragments of a sketch counted a flow is known by its path: from PINT's digests among
the records; of a folder also from what sinks decoded (--pint), and for flows of which these
know nothing, from a file of prefixes (--paths), or recomputed from the routes of a lab's
switches (--lab).`,
		Example: `  weir query volume --last 10s
  weir query path --flow "10.0.0.1:1234 > 10.0.0.2:80 udp" --json
  weir query network --watch 2s
  weir query volume --collector https://collector:9470 --tls-ca ca.pem --tls-cert me.pem --tls-key me.key
  weir query volume --records DIR --prefix 10.1.0.0/16 --proto udp --port 53
  weir query heavy-hitters --records DIR --theta 0.01 --epsilon 0.005 --delta 0.01
  weir query heavy-hitters --records DIR --at "s2:0 in" --unit bytes
  weir query frequency --records DIR --lab config/spineleaf.toml --flow "10.0.0.1:1234 > 10.0.0.2:80 udp"
  weir query delay --records DIR --from s1 --to s2 --flow "10.0.0.1:1234 > 10.0.0.2:80 udp"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	o.records.add(cmd)
	o.collector.add(cmd)
	p := cmd.PersistentFlags()
	p.BoolVar(&o.asJSON, "json", false, "print each answer as one JSON object, in a line")
	p.StringVar(&o.parquet, "parquet", "", "write the answer to a Parquet `FILE` instead of printing it")
	p.DurationVar(&o.watch, "watch", 0, "ask again after each `INTERVAL`, 100ms to 1h, until Ctrl-C")
	cmd.MarkFlagsMutuallyExclusive("records", "collector")
	cmd.MarkFlagsMutuallyExclusive("paths", "lab")
	cmd.MarkFlagsMutuallyExclusive("json", "parquet")
	cmd.MarkFlagsMutuallyExclusive("watch", "parquet")
	for _, k := range queryKinds {
		q := &queryFlags{Question: query.Question{Kind: k.kind}}
		sub := &cobra.Command{
			Use: string(k.kind), Short: k.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := q.finish(cmd); err != nil {
					return usageError(err)
				}
				return o.run(cmd, &q.Question)
			},
		}
		q.add(sub)
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(newQueryCollectorCommand(&o), newQueryRecordsCommand(&o))
	return cmd
}

// queryKind is a kind of question, and what its command is for.
type queryKind struct {
	kind  query.Kind
	short string
}

// queryKinds are all kinds of questions.
var queryKinds = []queryKind{
	{query.KindPath, "The paths that flows take through the network"},
	{query.KindLatency, "Latency of each hop of a flow, or of each switch"},
	{query.KindCongestion, "How congested the paths of flows are, and which links may be why"},
	{query.KindLoops, "Flows whose packets pass a switch twice"},
	{query.KindVolume, "Packets and bytes, each packet counted once in the network; of all flows, or some"},
	{query.KindFrequency, "Packets and bytes of a flow"},
	{query.KindHeavyHitters, "The flows with the largest shares"},
	{query.KindEntropy, "Entropy of the flows' shares"},
	{query.KindCardinality, "The number of flows"},
	{query.KindTarget, "The error that all fragments of a sketch best aim at"},
	{query.KindDelay, "One-way delay between two measurement points"},
	{query.KindLoss, "Packets lost between two measurement points"},
	{query.KindNetwork, "Switches, ports and links: health, rates, queues"},
}

// querySource answers questions: a folder of records, or a collector.
type querySource interface {
	// Ask answers as query.Engine.Ask does.
	Ask(context.Context, *query.Question) (any, error)
	// Watch answers at once and after each interval, until the context ends or each fails.
	Watch(ctx context.Context, q *query.Question, interval time.Duration, each func(answer any, err error) error) error
	// Footer writes what is to be said behind an answer.
	Footer(io.Writer) error
}

// source takes the folder if there is one, else the collector.
func (o *queryOptions) source(cmd *cobra.Command) (querySource, error) {
	if o.records.Records != "" {
		return &o.records, o.collector.unused(cmd)
	}
	if err := o.records.unused(cmd); err != nil {
		return nil, err
	}
	return o.collector.client()
}

// run is a question, top to bottom.
func (o *queryOptions) run(cmd *cobra.Command, q *query.Question) error {
	from, err := o.source(cmd)
	if err != nil {
		return usageError(err)
	}
	if err := q.Validate(); err != nil {
		return usageError(inFlags(err))
	}
	stdout := cmd.OutOrStdout()
	write := func(w io.Writer, answer any) error {
		if err := text.Write(w, q.Kind, answer); err != nil {
			return err
		}
		return from.Footer(w)
	}
	if o.asJSON {
		write = func(w io.Writer, answer any) error {
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false) // flows are written with >
			return e.Encode(answer)
		}
	}
	if o.watch != 0 {
		return o.watchOn(cmd.Context(), from, q, stdout, write)
	}
	if stderr := cmd.ErrOrStderr(); progress.Terminal(stderr) {
		o.records.show = stderr
	}
	answer, err := from.Ask(cmd.Context(), q)
	if err != nil {
		return refused(err)
	}
	if o.parquet != "" {
		return writeParquet(o.parquet, answer)
	}
	return write(stdout, answer)
}

// refused is why there is no answer: a wrong question is a usage error.
func refused(err error) error {
	if errors.Is(err, query.ErrInvalid) {
		return usageError(inFlags(err))
	}
	return err
}

// fieldsElsewhere are the fields' names that are no words of sentences.
var fieldsElsewhere = strings.NewReplacer("last_ns", "--last", "start_ns", "--start", "end_ns", "--end", "step_ns", "--step", "at_least", "--at-least")

// inFlags has the faults of a question name the flags instead of its fields, a fault each.
func inFlags(err error) error {
	var faults []error
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), query.ErrInvalid.Error()+": "), "\n") {
		field := line[:len(line)-len(strings.TrimLeft(line, "abcdefghijklmnopqrstuvwxyz_"))]
		if flag, ok := flagOf[field]; ok {
			line = "--" + flag + line[len(field):]
		}
		faults = append(faults, errors.New(fieldsElsewhere.Replace(line)))
	}
	return errors.Join(faults...)
}

// The bounds of --watch, as the collector has them.
const leastWatch, longestWatch = 100 * time.Millisecond, time.Hour

// watchOn writes the answer again and again, until Ctrl-C: on a terminal over the one
// before, else behind it.
func (o *queryOptions) watchOn(ctx context.Context, from querySource, q *query.Question, stdout io.Writer, write func(io.Writer, any) error) error {
	if o.watch < leastWatch || o.watch > longestWatch {
		return usageError(fmt.Errorf("--watch %v: choose %v to %v", o.watch, leastWatch, longestWatch))
	}
	show := func(answer []byte) error { _, err := stdout.Write(answer); return err }
	if progress.Terminal(stdout) && !o.asJSON {
		screen, err := text.NewScreen(stdout)
		if err != nil {
			return err
		}
		show = func(answer []byte) error { return screen.Show(answer, time.Now()) }
	} else if !o.asJSON {
		first := true
		show = func(answer []byte) error {
			if !first {
				answer = append([]byte("\n"), answer...)
			}
			first = false
			_, err := stdout.Write(answer)
			return err
		}
	}
	err := from.Watch(ctx, q, o.watch, func(answer any, why error) (err error) {
		var b bytes.Buffer
		switch {
		case why == nil:
			err = write(&b, answer)
		case o.asJSON:
			err = json.NewEncoder(&b).Encode(map[string]string{"fault": why.Error()})
		default:
			fmt.Fprintln(&b, "no answer:", why)
		}
		if err != nil {
			return err
		}
		return show(b.Bytes())
	})
	if ctx.Err() != nil {
		return nil // asked for
	}
	return refused(err)
}
