package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/telemetry/view/text"
)

func newNICCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nic",
		Short: "Look at network interfaces, and put back what killed switches left",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNICShowCommand(), newNICRestoreCommand())
	return cmd
}

func newNICShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [INTERFACE]",
		Short: "Show what a port would be granted, and which settings stand in the way",
		Long: `Show tells what a port with default settings would be granted on an interface
of this network namespace, which settings it would change while it is open, and
which stand in the way. It changes nothing. Without INTERFACE it prints a line
for each.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return showInterface(cmd.OutOrStdout(), args[0], asJSON)
			}
			return showInterfaces(cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "report as JSON")
	return cmd
}

// defaultPort is what a port needs whose switch has one worker.
var defaultPort = nic.Config{Workers: 1}

// lookedAt is an interface and what a port would be granted there.
type lookedAt struct {
	*nic.Interface
	Grant nic.Grant `json:"grant"`
}

func showInterface(w io.Writer, name string, asJSON bool) error {
	i, err := nic.Look(name)
	if err != nil {
		return usageError(err)
	}
	l := lookedAt{i, i.Grant(defaultPort)}
	routes, err := nic.DefaultRoutes()
	if err != nil {
		return err
	}
	if route := routes[name]; route != "" {
		l.Grant.Notes = append(l.Grant.Notes, nic.CutsOff(name, route))
	}
	if asJSON {
		return json.NewEncoder(w).Encode(l)
	}
	return printInterface(w, l)
}

func showInterfaces(w io.Writer, asJSON bool) error {
	all, err := nic.LookAll()
	if err != nil {
		return err
	}
	if asJSON {
		looked := []lookedAt{}
		for _, i := range all {
			looked = append(looked, lookedAt{i, i.Grant(defaultPort)})
		}
		return json.NewEncoder(w).Encode(looked)
	}
	t := text.NewTable("INTERFACE", "DRIVER", "LINK", "SPEED", ">MTU", ">QUEUES", "MODE", ">CHANGES", ">OBSTACLES", ">NOTES")
	for _, i := range all {
		g := i.Grant(defaultPort)
		t.Row(i.Name, i.Driver, linkText(i), speedText(i), i.MTU, g.Queues, g.Mode(), len(g.Changes), len(g.Obstacles), len(g.Notes))
	}
	return t.Write(w)
}

func linkText(i *nic.Interface) string {
	if i.Up {
		return "up"
	}
	return "down"
}

func speedText(i *nic.Interface) string {
	if i.BitsPerSecond == 0 {
		return "-"
	}
	return fmt.Sprintf("%g Gb/s", float64(i.BitsPerSecond)/1e9)
}

// printInterface prints what it is, what a port gets, and what is in the way.
func printInterface(w io.Writer, l lookedAt) error {
	i, g := l.Interface, &l.Grant
	t := text.NewTable(i.Name, "")
	driver := strings.Join(strings.Fields(i.Driver+" "+i.Version+" "+i.Firmware+" "+i.Bus), " ")
	t.Row("driver", driver)
	t.Row("link", linkText(i)+", "+speedText(i))
	t.Row("mtu", i.MTU)
	if i.NUMANode >= 0 {
		t.Row("NUMA node", fmt.Sprintf("%d: choose workers.cores there", i.NUMANode))
	}
	mode := g.Mode()
	if g.WhyNot != "" {
		mode += ": " + g.WhyNot
	}
	t.Row("mode", mode)
	t.Row("multi-buffer", yesNo(g.MultiBuffer))
	queues := fmt.Sprintf("%d of %d", g.Queues, i.Queues.Receive)
	if i.Queues.Max != 0 {
		queues += fmt.Sprintf(", up to %d", i.Queues.Max)
	}
	switch {
	case i.Queues.Settable:
		queues += ", settable"
	case i.Queues.Max > i.Queues.Receive:
		queues += " by ethtool -L"
	}
	t.Row("queues", queues)
	if i.Rings.RXMax != 0 {
		t.Row("rings", fmt.Sprintf("rx %d of %d, tx %d of %d", i.Rings.RX, i.Rings.RXMax, i.Rings.TX, i.Rings.TXMax))
	}
	if i.RSS.Size != 0 {
		t.Row("RSS", fmt.Sprintf("%s, %s, transform %s", i.RSS.Function, nic.Short(i.RSS.Spread), i.RSS.Transform))
	}
	t.Row("metadata", metadataText(&i.XDP))
	for _, c := range g.Changes {
		t.Row("would change", fmt.Sprintf("%s from %s to %s", c.Name, nic.Short(c.Was), nic.Short(c.Is)))
	}
	for _, o := range g.Obstacles {
		t.Row("in the way", o.Name+": "+o.Why)
	}
	for _, n := range g.Notes {
		t.Row("note", n)
	}
	return t.Write(w)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// metadataText lists what the device gives with packets, and takes with them.
func metadataText(x *nic.XDP) string {
	var has []string
	for _, m := range []struct {
		name string
		has  bool
	}{
		{"receive time", x.RxTimestamp}, {"receive hash", x.RxHash}, {"VLAN tag", x.RxVLAN},
		{"transmit time", x.TxTimestamp}, {"transmit checksum", x.TxChecksum}, {"launch time", x.TxLaunchTime},
	} {
		if m.has {
			has = append(has, m.name)
		}
	}
	if has == nil {
		return "none"
	}
	return strings.Join(has, ", ")
}

func newNICRestoreCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "restore [INTERFACE]",
		Short: "Put back the settings that a killed switch has left",
		Long: `Restore puts back the settings of the interfaces of this network namespace that
a switch had changed when it was killed, as its next start would. Settings that the operator has
changed since stay, and those that a running switch has.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			all, err := nic.Restore(name)
			if len(all) == 0 && err == nil && name != "" {
				if _, err := nic.Look(name); errors.Is(err, nic.ErrMissing) {
					return usageError(err)
				}
			}
			if asJSON {
				return errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(append([]nic.Restored{}, all...)))
			}
			if len(all) == 0 && err != nil {
				return err
			}
			return errors.Join(err, printRestored(cmd.OutOrStdout(), all))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "report as JSON")
	return cmd
}

func printRestored(w io.Writer, all []nic.Restored) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "nothing to put back")
		return err
	}
	t := text.NewTable("INTERFACE", "SETTING", "WAS", "IS", "NOTE")
	for _, r := range all {
		for _, c := range r.Settings {
			t.Row(r.Interface, c.Name, nic.Short(c.Was), nic.Short(c.Is), "put back")
		}
		for _, c := range r.Stayed {
			t.Row(r.Interface, c.Name, nic.Short(c.Was), nic.Short(c.Is), "changed since, left as it is")
		}
		if r.Note != "" {
			t.Row(r.Interface, "", "", "", r.Note)
		}
	}
	return t.Write(w)
}

// printPortPlans prints for each port of a configuration what it would be granted here, in a line.
func printPortPlans(w io.Writer, c *config.Config) error {
	jumbo := false // of any: all have one memory
	for _, p := range c.Ports {
		jumbo = jumbo || p.Jumbo
	}
	routes, err := nic.DefaultRoutes()
	if err != nil {
		return err
	}
	for _, p := range c.Ports {
		if !p.OnInterface() {
			continue // a virtual machine's, or one that does not exist yet
		}
		p.Workers = c.Workers.Count
		line := ""
		i, err := nic.Look(p.Interface)
		switch {
		case errors.Is(err, nic.ErrMissing):
			line = fmt.Sprintf("no interface %s here, so nothing is known of it", p.Interface)
		case err != nil:
			line = err.Error()
		default:
			wants := p.NIC()
			wants.Copy, wants.Jumbo = c.Dataplane.Copy == "copy", jumbo
			g := i.Grant(wants)
			line = g.String()
			if !i.Up {
				line += "; " + i.NoLink()
			}
			if route := routes[p.Interface]; route != "" && len(p.Keep) == 0 {
				line += "; " + nic.CutsOff(p.Interface, route)
			}
		}
		if _, err := fmt.Fprintf(w, "port %s: %s\n", p.Name, line); err != nil {
			return err
		}
	}
	return nil
}
