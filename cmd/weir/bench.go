package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/paper"
	"github.com/weirswitch/weir/telemetry/view/text"
)

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the switch and its rivals in one run",
		Long: `Bench measures. A figure counts only next to another one of the same run, so
each benchmark runs its rivals too, and reports ratios.

Each prints a table, or with --json one object of rows with metric, unit, value,
reference, source and which direction is better.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchForwardCommand(), newBenchPipelineCommand(), newBenchStageCommand(), newBenchCollectCommand(), newBenchScaleCommand(), newBenchPaperCommand(), newBenchPeersCommand(), newBenchCompareCommand(), newBenchListCommand())
	return cmd
}

// benchmarks are all measurements, for weir bench list.
func benchmarks() []bench.Benchmark {
	all := []bench.Benchmark{
		{Name: "forward", About: "packets per second, loss, latency and processor time of a forwarder between two cables, and of its rivals"},
		{Name: "pipeline", About: "nanoseconds per packet of stages, graphs and workers, without any I/O"},
		{Name: "collect", About: "records and digests per second into a collector's store over JetStream, and how long questions take"},
		{Name: "scale", About: "records, bytes, disk, memory and collectors of networks of 20 to 10,000 switches, of simulated records"},
	}
	for _, p := range paper.Figures {
		all = append(all, bench.Benchmark{Name: "paper/" + p.Name, About: p.About})
	}
	return all
}

func newBenchListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Name all measurements",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := benchmarks()
			if asJSON {
				type entry struct {
					Name  string `json:"name"`
					About string `json:"about"`
				}
				list := make([]entry, len(all))
				for i, b := range all {
					list[i] = entry{b.Name, b.About}
				}
				return indentJSON(cmd.OutOrStdout(), list)
			}
			t := text.NewTable("BENCHMARK", "MEASURES")
			for _, b := range all {
				t.Row(b.Name, b.About)
			}
			return t.Write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func indentJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printResult prints what a measurement found.
func printResult(w io.Writer, r *bench.Result, asJSON bool) error {
	if asJSON {
		return r.WriteJSON(w)
	}
	return r.WriteTable(w)
}

// selfCommand is this binary, to be started again as a switch.
func selfCommand() ([]string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the own program: %w", err)
	}
	return []string{path}, nil
}
