package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/telemetry/collect/service"
)

// collectOptions are the flags of weir collect.
type collectOptions struct {
	config      string
	check, dump bool
}

func newCollectCommand() *cobra.Command {
	var o collectOptions
	cmd := &cobra.Command{
		Use:   "collect [-c FILE]",
		Short: "Run a collector: records in, answers out",
		Long: `Collect runs a collector until SIGTERM or SIGINT; a second one ends it at once.
Switches publish their records to it ([telemetry] collector); it keeps them on
disk and answers questions about them: on its page, to programs and to
"weir query".

Without a file it serves this machine alone, with its data in weir-collect, in
the folder that systemd names or in the present one.

--check reads the file, says all that is wrong with it, and exits. --dump
prints the configuration with every default.

When it has read what is on disk, it writes the line "ready" to the descriptor
that the environment names in ` + readyVariable + `, and notifies systemd where
that started it.

Exit status: 0 after a clean end; 1 if something failed at work; 2 if the
collector could not be set up.`,
		Example: `  weir collect
  weir collect -c config/collect.toml --check`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCollect(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "the collector's configuration `FILE`; none: the defaults")
	f.BoolVar(&o.check, "check", false, "check the configuration and exit")
	f.BoolVar(&o.dump, "dump", false, "print the complete configuration and exit")
	return cmd
}

// runCollect is the command, top to bottom.
func runCollect(ctx context.Context, o collectOptions, stdout, stderr io.Writer) error {
	c, err := config.ParseCollect(nil)
	if o.config != "" {
		c, err = config.LoadCollect(o.config)
	}
	if err != nil {
		return usageError(err)
	}
	if o.dump {
		return c.Dump(stdout)
	}
	if o.check {
		_, err := fmt.Fprintf(stdout, "%s is good: collector %s, %s\n", cmp.Or(o.config, "the default"), c.Collect.Name, collectSummary(c))
		return err
	}
	if c.Collect.Data == "" {
		c.Collect.Data = filepath.Join(os.Getenv("STATE_DIRECTORY"), "weir-collect")
	}
	log, level, err := newLogger(c.Log, stderr)
	if err != nil {
		return usageError(err)
	}
	notifier, err := newReadiness()
	if err != nil {
		return usageError(err)
	}
	collector, err := service.New(c, service.Options{Log: log, Level: level, Ready: notifier.ready, Stopping: notifier.stopping})
	if err != nil {
		return usageError(err)
	}
	return collector.Run(ctx)
}

// collectSummary is what a configuration is about, on one line.
func collectSummary(c *config.Collect) string {
	where := "its own NATS server at " + c.NATS.Listen
	if len(c.NATS.Servers) != 0 {
		where = "NATS at " + strings.Join(c.NATS.Servers, ", ")
	}
	return fmt.Sprintf("%s, page at %s", where, c.URL(c.Collect.Listen))
}
