package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench"
)

// benchOutput is where the result of a measurement goes, the same for each weir bench.
type benchOutput struct {
	asJSON bool
	plot   string
}

func (o *benchOutput) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.StringVar(&o.plot, "plot", "", "draw the figure to `FILE`, as SVG")
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.check() }
}

// check finds out before a measurement, which may take hours, whether it can be drawn at all.
func (o *benchOutput) check() error {
	if o.plot == "" {
		return nil
	}
	_, missing := os.Stat(o.plot)
	file, err := os.OpenFile(o.plot, os.O_WRONLY|os.O_CREATE, 0o666) // what is there stays until there is a drawing
	if err != nil {
		return usageError(fmt.Errorf("--plot: %w: make its folder, or name another file", err))
	}
	if missing != nil {
		_ = os.Remove(o.plot) // an interrupted run leaves nothing
	}
	return file.Close()
}

// print prints what a measurement found, and draws it where asked for, as maps if there are any.
func (o *benchOutput) print(w io.Writer, r *bench.Result, maps ...bench.Grid) error {
	if err := printResult(w, r, o.asJSON); err != nil || o.plot == "" {
		return err
	}
	file, err := os.Create(o.plot)
	if err != nil {
		return usageError(err)
	}
	if len(maps) > 0 {
		err = bench.PlotGrids(file, r, maps)
	} else {
		err = bench.Plot(file, r)
	}
	return errors.Join(err, file.Close())
}

// interrupted says of a measurement that a signal ended what there is of it.
func interrupted(err error, reported bool) error {
	switch {
	case !errors.Is(err, context.Canceled):
		return err
	case reported:
		return errors.New("interrupted: the report has what was complete by then")
	}
	return errors.New("interrupted before a measurement was complete: there is no report")
}
