package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// planOptions are the flags of weir plan.
type planOptions struct {
	pintplan.Config
	queries, out, show string
	asJSON             bool
}

func newPlanCommand() *cobra.Command {
	o := planOptions{Config: pintplan.Config{ID: 2, Seed: 1, Bits: 16}}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Make the plan of stage pint from queries, or show one",
		Long: `Plan finds how often each set of queries must run, so that every query gets its
frequency within the bits of a packet, and writes the plan that all switches of
a network share (docs/pint.md). If that cannot be, it says by how much.

Without --queries it takes those of the built-in plan, which has the id 1.`,
		Example: `  weir plan --queries queries.toml --bits 16 --id 2 --out plan.toml
  weir plan --carrier ipid --id 3 --out ipid.toml
  weir plan --show plan.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.show != "" {
				for _, f := range []string{"queries", "bits", "edge-bits", "carrier", "id", "hash", "seed", "initial-ttl", "out"} {
					if cmd.Flags().Changed(f) {
						return usageError(fmt.Errorf("--%s makes a plan and --show reads one: give one of them", f))
					}
				}
				p, err := pintplan.Load(o.show)
				if err != nil {
					return usageError(err)
				}
				return o.print(cmd.OutOrStdout(), p)
			}
			return usageError(makePlan(o, cmd.OutOrStdout()))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.queries, "queries", "", "file of the queries; without it, those of the built-in plan")
	f.IntVar(&o.Bits, "bits", o.Bits, "bits of a packet's digest, 1 to 64")
	f.IntVar(&o.EdgeBits, "edge-bits", 0, "bits of the shim for the id of the switch at which a packet enters, which stage lds can tell classes by, 1 to 32; 0: none")
	f.StringVar(&o.Carrier, "carrier", pintplan.CarrierShim, "what carries the digest: shim or ipid")
	f.Uint16Var(&o.ID, "id", o.ID, "the plan's id, which identifies it among others")
	f.TextVar(&o.Hash, "hash", o.Hash, "the switches' hash: xxhash, or crc, which P4 switches have too")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the plan's hashes")
	f.IntVar(&o.InitialTTL, "initial-ttl", 0, "the TTL that hosts send, for carrier ipid; 0: the nearest of 32, 64, 128 and 255")
	f.StringVar(&o.out, "out", "", "file to write; without it, standard output")
	f.StringVar(&o.show, "show", "", "plan file to print: its query sets and their shares of the packets")
	f.BoolVar(&o.asJSON, "json", false, "with --show or --out: report as one JSON object")
	return cmd
}

// makePlan writes a plan, and reports it if it goes to a file.
func makePlan(o planOptions, out io.Writer) error {
	if o.asJSON && o.out == "" {
		return errors.New("--json reports what was written: name a file with --out")
	}
	o.Queries = pintplan.Default().Queries
	if o.queries != "" {
		f, err := os.Open(o.queries)
		if err != nil {
			return usageError(fmt.Errorf("read queries: %w: name a readable file of queries, as docs/pint.md shows one", err))
		}
		defer f.Close()
		if o.Queries, err = pintplan.ReadQueries(f); err != nil {
			faults := unjoin(errors.Unwrap(err))
			for i := range faults {
				faults[i] = fmt.Errorf("%s: %w", o.queries, faults[i])
			}
			return errors.Join(faults...)
		}
	}
	p, err := pintplan.New(o.Config)
	if err != nil {
		return err
	}
	if o.out == "" {
		return p.Write(out)
	}
	if err := p.Save(o.out); err != nil {
		return err
	}
	return o.print(out, p)
}

func (o *planOptions) print(w io.Writer, p *pintplan.Plan) error {
	r := p.Report()
	if o.asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	grow := "packets do not grow"
	if r.GrowthBy != 0 {
		grow = fmt.Sprintf("packets grow by %d bytes", r.GrowthBy)
	}
	if r.EdgeBits != 0 {
		grow += fmt.Sprintf(", with %d bits for the edge", r.EdgeBits)
	}
	fmt.Fprintf(w, "plan %d: %d bits, carrier %s, hops from %s, hash %s, seed %d; %s\n\n", r.ID, r.Bits, r.Carrier, r.Hops, r.Hash, r.Seed, grow)
	queries := text.NewTable("QUERY", "VALUE", "AGGREGATION", ">BITS", ">OF PACKETS")
	for _, q := range r.Queries {
		queries.Row(q.Name, q.Value, q.Aggregation, q.Bits, percent(q.Frequency))
	}
	sets := text.NewTable("TOGETHER ON A PACKET", ">BITS", ">OF PACKETS")
	for _, s := range r.Sets {
		sets.Row(strings.Join(s.Queries, ", "), s.Bits, percent(s.Share))
	}
	if r.Idle > 1e-9 {
		sets.Row("(none)", 0, percent(r.Idle))
	}
	err := queries.Write(w)
	fmt.Fprintln(w)
	return errors.Join(err, sets.Write(w))
}

func percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }
