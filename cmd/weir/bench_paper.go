package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/paper"
	"github.com/weirswitch/weir/internal/progress"
)

func newBenchPaperCommand() *cobra.Command {
	o := paper.Options{Seed: 1}
	var output benchOutput
	var all bool
	cmd := &cobra.Command{
		Use:   "paper NAME | --all",
		Short: "Repeat a figure of a paper, with its rivals",
		Long:  paperHelp(),
		Example: `  weir bench paper pint-fig5 --quick
  weir bench paper pint-fig10 --data ../shared/data --json
  weir bench paper --all --quick --json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return fmt.Errorf("a NAME and --all: choose one")
			case all && output.plot != "":
				return fmt.Errorf("--plot draws one figure: give its NAME")
			case !all && len(args) != 1:
				return fmt.Errorf("%d arguments: give the NAME of one figure, or --all", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Packets < 0 {
				return usageError(fmt.Errorf("--packets %d: choose a number above 0", o.Packets))
			}
			if !all {
				return runBenchPaper(cmd, args[0], o, output)
			}
			for _, p := range paper.Figures {
				if err := runBenchPaper(cmd, p.Name, o, output); err != nil {
					return fmt.Errorf("%s: %w", p.Name, err)
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "all figures, one result after the other; hours, but for --quick")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of all that is random")
	f.BoolVar(&o.Quick, "quick", false, "a twentieth of the runs")
	f.IntVar(&o.Packets, "packets", 0, "length of synthetic traces; default: what the figure chooses")
	f.StringVar(&o.Data, "data", "", "`FOLDER` with topologies and traces; default: found next to the working directory")
	output.add(cmd)
	return cmd
}

func paperHelp() string {
	var text strings.Builder
	text.WriteString("Paper repeats what a paper measured, with our code, and prints the paper's figure\nbeside ours:\n\n")
	for _, p := range paper.Figures {
		fmt.Fprintf(&text, "  %-12s %s\n", p.Name, p.About)
	}
	return text.String()
}

func runBenchPaper(cmd *cobra.Command, name string, o paper.Options, output benchOutput) error {
	var names []string
	for _, p := range paper.Figures {
		if p.Name != name {
			names = append(names, p.Name)
			continue
		}
		report, done := progress.Steps(cmd.ErrOrStderr(), name)
		o.Progress = report
		rows, err := p.Run(cmd.Context(), o)
		done()
		if err != nil {
			return err
		}
		r := &bench.Result{Name: paper.ResultName(name, o), Seed: o.Seed, Machine: bench.ThisMachine(), Rows: rows}
		return output.print(cmd.OutOrStdout(), r, paper.Grids(name, rows)...)
	}
	return usageError(fmt.Errorf("no figure %q: choose among %s", name, strings.Join(names, ", ")))
}
