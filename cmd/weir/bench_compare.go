package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/forward"
)

func newBenchCompareCommand() *cobra.Command {
	var asJSON, every bool
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two measurements, with confidence",
		Long: `Compare reads two files of figures and says of each figure that both have how B differs
from A: the ratio of the medians, its interval of 95 % confidence (bootstrap), and the chance p
that the ranks of runs which do not differ are as far apart (Mann and Whitney's U). A figure is better or
worse only where p is 0.05 at most and the interval excludes 1; one line sums up those that are
not shown to differ, and --all lists them.

The files are those of "weir bench forward --raw", or for a device of your own those of "weir bench forward
--tx TX --rx RX --rounds 7 --json", which have each round. Left out and counted are rounds that are no result, since
their figures contradict each other (INVALID), and of each figure the rounds in which what sends, not the device, set it
(source-limited). At least four other rounds are needed on each side: with fewer the verdict is INVALID, source-limited or
"too few runs". It is source-limited, too, where a round that was left out reached the median of the side that would be
better. Files of --json have one value for each figure, so no confidence follows.

Exit status: 0 if a figure has a round on each side that is a result; 1 if all verdicts are INVALID; 2 if the files
have no figure in common.`,
		Example: `  weir bench forward --dut patch --size 64 --rounds 7 --raw before.jsonl
  weir bench compare before.jsonl after.jsonl
  weir bench forward --tx eth1 --rx eth2 --rounds 7 --json >before.json
  weir bench compare before.json after.json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var sides [2][]bench.Runs
			var reports [2]*forward.WireReport
			for i, file := range args {
				var err error
				var invalid int
				if sides[i], invalid, reports[i], err = readRuns(file); err != nil {
					return usageError(err)
				}
				if invalid > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "weir: %s: left out, as they are no result (INVALID): %s of a size\n", file, rounds(invalid))
				}
			}
			all := bench.Compare(sides[0], sides[1])
			if len(all) == 0 {
				return usageError(fmt.Errorf("%s and %s have no figure in common: compare measurements of the same devices and sizes", args[0], args[1]))
			}
			if reports[0] != nil && reports[1] != nil {
				if differ := reports[0].Differences(reports[1]); len(differ) > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "weir: A and B were not measured alike, so figures may differ for that alone: %s: measure both with the same settings\n", strings.Join(differ, "; "))
				}
			}
			if asJSON {
				return errors.Join(indentJSON(cmd.OutOrStdout(), all), nothingCompared(all, args))
			}
			judged := 0
			for _, c := range all {
				if c.LimitedA+c.LimitedB > 0 && c.Verdict != bench.SourceLimited {
					judged++
				}
			}
			if judged > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "weir: of %d of %d figures, left out are rounds in which what sent, not the device, set them (source-limited)\n", judged, len(all))
			}
			for _, v := range []struct{ verdict, remedy string }{
				{bench.TooFew, fmt.Sprintf("measure both sides with --rounds %d or more; %d that are a result are the least", bench.EnoughRuns, bench.LeastRuns)},
				{bench.SourceLimited, fmt.Sprintf("what sent, not the device, set them in so many rounds that fewer than %d others are left, or as high as the better side's: measure with a faster source, with larger frames, or on a quiet machine", bench.LeastRuns)},
				{bench.Invalid, "no round of a side is a result: measure again, on a quiet machine"},
			} {
				n := 0
				for _, c := range all {
					if c.Verdict == v.verdict {
						n++
					}
				}
				if n > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "weir: %s, %d of %d figures: %s\n", v.verdict, n, len(all), v.remedy)
				}
			}
			return errors.Join(bench.WriteComparison(cmd.OutOrStdout(), all, !every), nothingCompared(all, args))
		},
	}
	cmd.Flags().BoolVar(&every, "all", false, "list the figures that are not shown to differ, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with each figure")
	return cmd
}

// rounds counts them for a reader.
func rounds(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// nothingCompared is the error of a comparison in which no figure has a round on each side that is a result.
func nothingCompared(all []bench.Comparison, files []string) error {
	for _, c := range all {
		if c.Verdict != bench.Invalid {
			return nil
		}
	}
	return fmt.Errorf("nothing could be compared: of no figure do both %s and %s have a round that is a result, all are %s: measure again, on a quiet machine", files[0], files[1], bench.Invalid)
}

// readRuns reads a file of any form. The report is nil where the file is not one of a device of the user's.
func readRuns(file string) (runs []bench.Runs, invalid int, report *forward.WireReport, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("read the figures: %w: name a file of weir bench --json, or of weir bench forward --raw", err)
	}
	var r bench.Result
	if err := json.Unmarshal(text, &r); err == nil && r.Rows != nil {
		return r.RunsOf(), 0, nil, nil
	}
	var w forward.WireReport
	if err := json.Unmarshal(text, &w); err == nil && w.Sizes != nil {
		runs, invalid = w.Runs()
		return runs, invalid, &w, nil
	}
	if runs, invalid, err = forward.ReadRaw(bytes.NewReader(text)); err != nil {
		if fault := (*json.SyntaxError)(nil); errors.As(err, &fault) {
			err = errors.New("it is no JSON; CSV and pages of a report do not have the rounds, which a comparison needs")
		}
		return nil, 0, nil, fmt.Errorf("%s: %w: name a file of weir bench --json, or of weir bench forward --raw", file, err)
	}
	return runs, invalid, nil, nil
}
