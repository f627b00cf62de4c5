package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/internal/tomlfile"
)

func newReloadCommand(o *ctlOptions) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload [FILE]",
		Short: "Put a changed configuration into force",
		Long: `Reload has the switch read its configuration file again, or sends it FILE, and puts
what differs into force without losing a packet. It prints what changed: + what is
new, - what is gone, ~ what is different.

What cannot change while the switch runs is refused by its key, and then nothing
changes. SIGHUP does the same as reload without FILE; the switch's log says what
came of it.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := &api.ReloadRequest{}
			if len(args) == 1 {
				text, err := safefile.ReadTrusted(args[0], tomlfile.MaxBytes)
				if err != nil {
					return usageError(fmt.Errorf("read the configuration: %w: name a readable TOML file", err))
				}
				if len(text) == 0 {
					return usageError(fmt.Errorf("%s is empty: name a TOML file", args[0]))
				}
				if !utf8.Valid(text) {
					return usageError(fmt.Errorf("%s is no text in UTF-8: name a TOML file", args[0]))
				}
				q.Toml, q.File = string(text), args[0]
			}
			return o.change(cmd, asJSON, func(ctx context.Context, c *control.Client) (*api.ChangeResponse, error) {
				return c.Reload(ctx, q)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as one JSON object")
	return cmd
}

func newSaveCommand(o *ctlOptions) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Write what was changed at run time into a file",
		Long: `Save makes FILE what the switch has in force: what "weir ctl set" has added, removed or
changed since the switch has read it. Comments and all else in it stay as they are, but
for comments directly above an element that is gone. It prints what changed, as
reload does, and a reload finds nothing that differs.

What cannot be written is named, and then FILE stays as it is. A FILE that is not there
yet gets the whole configuration in force, with every default, as "show config" prints it.`,
		Example: "  weir ctl save --dry-run /etc/weir/edge.toml\n  weir ctl save /etc/weir/edge.toml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := config.ReadFile(args[0])
			absent := errors.Is(err, fs.ErrNotExist)
			if err != nil && !absent {
				return usageError(err)
			}
			var inForce *config.Config
			var whole string
			err = o.call(cmd.Context(), o.timeout, func(ctx context.Context, c *control.Client) error {
				r, err := c.Config(ctx, &api.ConfigRequest{})
				if err != nil {
					return err
				}
				whole = r.Toml
				inForce, err = config.ParseAs("configuration in force", []byte(r.Toml))
				return err
			})
			if err != nil {
				return err
			}
			if absent {
				return saveNew(cmd.OutOrStdout(), args[0], whole, dry)
			}
			saved, changes, err := config.Saved(text, inForce)
			if err != nil {
				return usageError(fmt.Errorf("%s: %w", args[0], err))
			}
			if len(changes) == 0 {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "nothing differs")
				return err
			}
			if !dry {
				if err := safefile.Replace(args[0], saved); err != nil {
					return unwritten("configuration", args[0], err, "")
				}
			}
			for _, c := range changes {
				if _, err = fmt.Fprintln(cmd.OutOrStdout(), c); err != nil {
					break
				}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would change, and leave FILE as it is")
	return cmd
}

// saveNew writes the whole configuration into a file that is not there yet.
func saveNew(w io.Writer, file, whole string, dry bool) error {
	did := "would write"
	err := safefile.MayFill(file)
	if !dry && err == nil {
		did, err = "wrote", safefile.Create(file, []byte(whole))
	}
	if err != nil {
		return unwritten("configuration", file, err, "name the switch's file, or a new one in a folder that is there and may be written")
	}
	_, err = fmt.Fprintf(w, "%s the whole configuration in force, with every default, into %s, which is a new file\n", did, file)
	return err
}

// unwritten is the error of a file that could not be written, with what else than space may help. Where the disk is full the
// fault is not what was asked for.
func unwritten(what, file string, err error, remedy string) error {
	err = fmt.Errorf("write the %s: %w", what, err)
	switch {
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		if file == "-" {
			return err
		}
		return fmt.Errorf("%w: free space in %s, or name a file on another disk", err, filepath.Dir(file))
	case remedy == "":
		return err
	}
	return usageError(fmt.Errorf("%w: %s", err, remedy))
}

// change makes a call that changes the switch and prints what changed.
func (o *ctlOptions) change(cmd *cobra.Command, asJSON bool, call func(context.Context, *control.Client) (*api.ChangeResponse, error)) error {
	w := cmd.OutOrStdout()
	var r *api.ChangeResponse
	err := o.call(cmd.Context(), o.timeout, func(ctx context.Context, c *control.Client) (err error) {
		r, err = call(ctx, c)
		return err
	})
	if err != nil {
		return unlessBegun(err)
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "weir: warning: %s\n", text)
	}
	if asJSON {
		return printJSON(w, r)
	}
	if len(r.Changes) == 0 {
		_, err = fmt.Fprintln(w, "nothing differs")
	}
	for _, c := range r.Changes {
		if _, err = fmt.Fprintln(w, control.ChangeText(c)); err != nil {
			break
		}
	}
	return err
}

// settable is a table that weir ctl set changes.
type settable struct{ name, stage, list, short, example string }

var settables = []settable{
	{"acl", "acl", "rule", "a rule of the access control list", "name=web action=deny protocol=tcp dst_port=80 --at 1"},
	{"route", "l3", "route", "a route", "prefix=10.0.3.0/24 via=10.0.12.2,10.0.12.3"},
	{"neighbour", "l3", "neighbour", "a neighbour that is not asked for", "address=10.0.12.2 mac=02:00:00:00:00:01 port=p0"},
	{"fdb", "l2", "static", "a station that neither moves nor ages", "mac=02:00:00:00:00:01 port=p0"},
	{"policer", "policer", "port", "a port's rate limit", "port=p0 rate_bits=100000000"},
	{"port", "", "port", "a port", "name=p2 interface=eth2"},
	{"mirror", "mirror", "session", "a mirror session", "name=span ports=p0 to=p3 direction=both"},
}

func newSetCommand(o *ctlOptions) *cobra.Command {
	set := &cobra.Command{
		Use:   "set",
		Short: "Add an element to a table, or remove one",
		Long: `Set changes one element of a table of the running switch. The configuration in
force ("weir ctl show config") has the change from then on, the file has not: the
next reload takes back what the file does not have, unless "weir ctl save" wrote it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, x := range settables {
		table := &cobra.Command{
			Use: x.name, Short: "Add or remove " + x.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		}
		table.AddCommand(newElementCommand(o, x, false), newElementCommand(o, x, true))
		if x.name == "port" {
			table.Short = "Add, remove or change " + x.short
			table.AddCommand(newPortCommands(o)...)
		}
		set.AddCommand(table)
	}
	return set
}

func newElementCommand(o *ctlOptions, x settable, remove bool) *cobra.Command {
	keys := config.Lists()[x.stage+"."+x.list]
	verb, short := "add", "Add "+x.short
	list := x.list
	if x.stage != "" {
		list = "stages." + x.stage + "." + x.list
	}
	long := fmt.Sprintf("Keys of %s, as in [[%s]] of the configuration: %s.\nElements of lists are separated by commas.",
		x.short, list, strings.Join(keys, ", "))
	example := "  weir ctl set " + x.name + " add " + x.example
	if remove {
		verb, short = "remove", "Remove "+x.short
		long = "Removes the one element that has all the keys given.\n\n" + long
		example = "  weir ctl set " + x.name + " remove " + strings.Fields(x.example)[0]
	}
	var asJSON bool
	var at int
	cmd := &cobra.Command{
		Use: verb + " KEY=VALUE...", Short: short, Long: long, Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			fields, err := keyValues(args)
			if err != nil {
				return usageError(err)
			}
			if cmd.Flags().Changed("at") && at < 1 {
				return usageError(fmt.Errorf("--at %d: positions count from 1: choose one of these, or leave it out", at))
			}
			q := &api.SetRequest{Stage: x.stage, List: x.list, Remove: remove, At: int64(at), Fields: fields}
			return o.change(cmd, asJSON, func(ctx context.Context, c *control.Client) (*api.ChangeResponse, error) {
				return c.Set(ctx, q)
			})
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var words []string
			for _, k := range keys {
				words = append(words, k+"=")
			}
			return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
	}
	where := "put it at this `POSITION` of the list, from 1; default: at its end"
	if remove {
		where = "the element's `POSITION` in the list, from 1; default: wherever the keys are"
	}
	cmd.Flags().IntVar(&at, "at", 0, where)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as one JSON object")
	return cmd
}

// newPortCommands returns the commands for ports that are there.
func newPortCommands(o *ctlOptions) []*cobra.Command {
	var asJSON bool
	set := func(cmd *cobra.Command, name string, fields map[string]string) error {
		q := &api.SetRequest{List: "port", Match: map[string]string{"name": name}, Fields: fields}
		return o.change(cmd, asJSON, func(ctx context.Context, c *control.Client) (*api.ChangeResponse, error) {
			return c.Set(ctx, q)
		})
	}
	commands := []*cobra.Command{
		{
			Use: "up NAME", Short: "Take a port's interface into use", Args: cobra.ExactArgs(1),
			Long: `Up opens a port that is down or was disabled in the file. If it cannot be opened, the
reason is printed with status 2, and the port stays down. A port with optional = true
whose interface is missing comes with it.`,
			RunE: func(cmd *cobra.Command, args []string) error {
				return set(cmd, args[0], map[string]string{"disabled": "false"})
			},
		},
		{
			Use: "down NAME", Short: "Leave a port's interface to the kernel", Args: cobra.ExactArgs(1),
			Long: `Down closes a port: what arrives at its interface is the kernel's, and what is to
leave there is dropped (port_down), until "up" opens it again.`,
			RunE: func(cmd *cobra.Command, args []string) error {
				return set(cmd, args[0], map[string]string{"disabled": "true"})
			},
		},
		{
			Use: "change NAME KEY=VALUE...", Short: "Give a port other settings", Args: cobra.MinimumNArgs(2),
			Long: `Change gives a port other settings, as in [[port]] of the configuration. The port is
closed and opened with them; packets that arrive meanwhile are the kernel's. If it
cannot be opened so, it is opened as it was, and the reason is printed.`,
			Example: "  weir ctl set port change p0 rate_bits=100000000",
			RunE: func(cmd *cobra.Command, args []string) error {
				fields, err := keyValues(args[1:])
				if err != nil {
					return usageError(err)
				}
				return set(cmd, args[0], fields)
			},
		},
	}
	for _, cmd := range commands {
		cmd.Flags().BoolVar(&asJSON, "json", false, "print as one JSON object")
	}
	return commands
}

func keyValues(args []string) (map[string]string, error) {
	fields := map[string]string{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if _, twice := fields[key]; !ok || key == "" || twice {
			return nil, fmt.Errorf("%q: write each key once, as in action=deny", arg)
		}
		fields[key] = value
	}
	return fields, nil
}

func newClearCommand(o *ctlOptions) *cobra.Command {
	var q api.ClearRequest
	clear := &cobra.Command{
		Use:   "clear",
		Short: "Forget what was learned or counted",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usageError(errors.New("nothing says what to clear: write \"weir ctl clear acl\" or \"weir ctl clear fdb\""))
		},
	}
	what := map[string]struct{ short, done string }{
		"fdb": {"Forget the learned stations of the forwarding database", "forgot %d stations\n"},
		"acl": {"Set the counts of the access control list's rules to zero", "cleared the counts of %d rules\n"},
	}
	for _, name := range slices.Sorted(maps.Keys(what)) {
		cmd := &cobra.Command{
			Use: name, Short: what[name].short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				q.Table = name
				var r *api.ClearResponse
				err := o.call(cmd.Context(), o.timeout, func(ctx context.Context, c *control.Client) (err error) {
					r, err = c.Clear(ctx, &q)
					return err
				})
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), what[name].done, r.Cleared)
				}
				return err
			},
		}
		if name == "fdb" {
			cmd.Flags().StringVar(&q.Port, "port", "", "only those behind this `PORT`")
			cmd.Flags().Uint32Var(&q.Vlan, "vlan", 0, "only those in this `VLAN`")
			cmd.Flags().StringVar(&q.Domain, "domain", "", "only those in this bridge `DOMAIN`")
		}
		clear.AddCommand(cmd)
	}
	return clear
}
