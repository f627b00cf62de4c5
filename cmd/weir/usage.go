package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirswitch/weir/internal/tomlfile"
)

// unknownCommand reports a word of a command line that should be a subcommand and is none, with the nearest one that
// is. cobra looks at a group's flags first, so that it would name the flags of "weir swich -c FILE".
func unknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasAvailableSubCommands() {
		return nil // cobra knows
	}
	word := firstWord(cmd, rest)
	if word == "help" && cmd == root && len(rest) > 1 {
		if _, left, err := root.Find(rest[1:]); err != nil || len(left) > 0 {
			return unknownCommand(root, rest[1:])
		}
	}
	if word == "" || word == "help" || strings.HasPrefix(word, "__") {
		return nil
	}
	if slices.ContainsFunc(cmd.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word }) {
		return nil // after a flag, as in "weir query --help volume"
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s: %s lists what there is", word, cmd.CommandPath(), meantCommand(cmd, names, word, rest), helpOf(cmd))
}

// meantCommand asks whether another command was meant: one with a similar name, a later word of the line, the one that runs
// a file, or one of that name in a group.
func meantCommand(cmd *cobra.Command, names []string, word string, rest []string) string {
	if strings.ContainsAny(word, "./") {
		if slices.Contains(names, "run") {
			return fmt.Sprintf(": did you mean \"%s run %s\"?", cmd.CommandPath(), word)
		}
		if slices.Contains(names, "check") {
			return fmt.Sprintf(": did you mean \"%s check %s\"?", cmd.CommandPath(), word)
		}
		return ""
	}
	if cmd == cmd.Root() && (word == "run" || word == "start") {
		return ": did you mean \"weir switch -c FILE\", or \"weir lab run FILE\"?"
	}
	if cmd == cmd.Root() && (word == "check" || word == "validate") {
		return ": did you mean \"weir switch -c FILE --check\", or \"weir lab check FILE\"?"
	}
	if cmd == cmd.Root() && (word == "stop" || word == "restart" || word == "kill") {
		return ": a switch ends at SIGTERM, as by Ctrl-C or \"systemctl stop weir@NAME\", and a lab by \"weir lab down FILE\""
	}
	if cmd == cmd.Root() && word == "status" {
		return ": did you mean \"weir ctl top\", or \"weir lab status FILE\"?"
	}
	if path := elsewhere[word]; path != "" && cmd.Name() == "show" {
		return fmt.Sprintf(": did you mean %q?", path)
	}
	if hint := meant(word, names, ""); hint != "" {
		return hint
	}
	for _, later := range rest {
		if later != word && slices.Contains(names, later) {
			return fmt.Sprintf(": did you mean \"%s %s %s\"?", cmd.CommandPath(), later, word)
		}
	}
	if path := deeper(cmd, word); path != "" {
		return fmt.Sprintf(": did you mean %q?", path)
	}
	if cmd.Name() == "nic" && strings.ContainsAny(word, "0123456789") { // as interfaces have
		return fmt.Sprintf(": did you mean \"%s show %s\"?", cmd.CommandPath(), word)
	}
	return ""
}

// elsewhere has the views that show what people look for under another name.
var elsewhere = map[string]string{
	"drops":      "weir ctl show ports",
	"counters":   "weir ctl show ports",
	"interfaces": "weir ctl show ports",
	"rates":      "weir ctl top",
	"mac":        "weir ctl show fdb",
	"arp":        "weir ctl show neighbours",
	"neighbors":  "weir ctl show neighbours",
	"lacp":       "weir ctl show bonds",
	"igmp":       "weir ctl show groups",
	"mld":        "weir ctl show groups",
}

// deeper is the path of the first command of that name below a group.
func deeper(cmd *cobra.Command, name string) string {
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if sub.Name() == name {
			return sub.CommandPath()
		}
		if path := deeper(sub, name); path != "" {
			return path
		}
	}
	return ""
}

// firstWord is the first argument that is neither a flag nor a flag's value.
func firstWord(cmd *cobra.Command, args []string) string {
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag {
			return args[i]
		}
		if args[i] == "--" {
			return ""
		}
		long := strings.HasPrefix(name, "-")
		name = strings.TrimPrefix(name, "-")
		var f *pflag.Flag
		switch {
		case strings.Contains(name, "="):
		case long:
			f = cmd.Flag(name)
		case len(name) == 1:
			f = cmd.Flags().ShorthandLookup(name)
		}
		if f != nil && f.NoOptDefVal == "" {
			i++
		}
	}
	return ""
}

// meant asks whether another word was meant, if one is near.
func meant(word string, known []string, mark string) string {
	for _, k := range known {
		if strings.HasPrefix(k, word) && len(word) > 2 {
			return fmt.Sprintf(": did you mean %q?", mark+k)
		}
	}
	near, ok := tomlfile.Nearest(word, known)
	if !ok {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", mark+near)
}

// helpOf is the command that prints a command's help.
func helpOf(cmd *cobra.Command) string { return fmt.Sprintf("\"%s --help\"", cmd.CommandPath()) }

// refusedLine is an error of cobra's own about a command's line, with what may have been meant and where its help is.
func refusedLine(cmd *cobra.Command, err error) error {
	if refused := plainly(cmd, err.Error()); refused != nil {
		return fmt.Errorf("%w: %s lists what there is", refused, helpOf(cmd))
	}
	hint := ""
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if name := missing.GetSpecifiedName(); len(name) > 1 {
			hint = meant(name, known, "--")
			if i := slices.IndexFunc(otherFlags[name], func(other string) bool { return slices.Contains(known, other) }); hint == "" && i >= 0 {
				hint = fmt.Sprintf(": did you mean %q?", "--"+otherFlags[name][i])
			}
		} else if name = strings.Trim(missing.GetSpecifiedShortnames(), "-"); len(name) > 1 {
			hint = meant(name, known, "--") // "-json" for "--json"
		} else if f := cmd.Flags().ShorthandLookup(otherCase(name)); f != nil {
			hint = fmt.Sprintf(": did you mean \"-%s\"?", f.Shorthand)
		} else if path := cmd.Flag("config"); name == "f" && path != nil {
			hint = ": did you mean \"-c\"?"
		} else if name == "V" && cmd == cmd.Root() {
			hint = ": did you mean \"--version\"?"
		}
	}
	return fmt.Errorf("%w%s: %s lists what there is", err, hint, helpOf(cmd))
}

var (
	missingFlags = regexp.MustCompile(`^required flag\(s\) (.*) not set$`)
	quotedName   = regexp.MustCompile(`"([^"]+)"`)
	missingUnit  = regexp.MustCompile(`^(invalid argument .* for .* flag): time: (missing unit in|invalid|unknown unit .* in) duration .*$`)
	noNumber     = regexp.MustCompile(`^(invalid argument "(.*)" for .* flag): strconv\.(Parse[A-Za-z]+|Atoi): .*$`)
	together     = regexp.MustCompile(`^if any flags in the group \[(.*)\] are set they must all be set; missing \[(.*)\]$`)
	notTogether  = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
)

// otherFlags has the flags that are called otherwise in other programs.
var otherFlags = map[string][]string{
	"iface": {"interface"}, "dev": {"interface"}, "device": {"interface"}, "file": {"config", "in"},
	"pps": {"rate"}, "bandwidth": {"rate"}, "packets": {"count"}, "time": {"duration"}, "pcap": {"capture", "in"},
	"test": {"check"}, "dry-run": {"check"}, "mac": {"dst-mac"}, "netns": {"namespace"},
}

// oneDash refuses a flag's full name behind one dash. "-check" is -c with the value "heck" to pflag, which is no fault where -c takes a file.
func oneDash(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return nil
	}
	for _, arg := range rest {
		if arg == "--" {
			return nil
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) > 1 && name[0] != '-' && arg[0] == '-' && cmd.Flag(name) != nil {
			return fmt.Errorf("%s: a flag's full name has two dashes: write --%s: %s lists what there is", arg, name, helpOf(cmd))
		}
	}
	return nil
}

// otherCase is a letter in small for one in large, and the other way about.
func otherCase(letter string) string {
	if lower := strings.ToLower(letter); lower != letter {
		return lower
	}
	return strings.ToUpper(letter)
}

// plainly says in other words what cobra says of a line that lacks something or has too much; nil: cobra's words will do.
func plainly(cmd *cobra.Command, text string) error {
	if m := missingUnit.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s: a duration has a unit: write 10s, 500ms or 2m", m[1])
	}
	if m := noNumber.FindStringSubmatch(text); m != nil {
		if share, err := strconv.ParseFloat(strings.TrimSuffix(m[2], "%"), 64); err == nil && strings.HasSuffix(m[2], "%") && m[3] == "ParseFloat" {
			return fmt.Errorf("%s: it is no number: for %s write %g", m[1], m[2], share/100)
		}
		if m[3] == "ParseFloat" {
			return fmt.Errorf("%s: it is no number: write one as 5 or 0.01", m[1])
		}
		return fmt.Errorf("%s: it is no whole number in the flag's range: write one as 5", m[1])
	}
	if m := notTogether.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("--%s: choose one of them", strings.ReplaceAll(m[1], " ", " and --"))
	}
	if m := missingFlags.FindStringSubmatch(text); m != nil {
		var all []string
		for _, q := range quotedName.FindAllStringSubmatch(m[1], -1) {
			kind, usage := pflag.UnquoteUsage(cmd.Flag(q[1]))
			all = append(all, fmt.Sprintf("--%s %s is missing: %s", q[1], kind, usage))
		}
		return errors.New(strings.Join(all, "; "))
	}
	rest := cmd.Flags().Args()
	if strings.HasPrefix(text, "unknown command ") && len(rest) > 0 {
		return fmt.Errorf("%q is no argument of %q%s", rest[0], cmd.CommandPath(), flagFor(cmd, rest[0]))
	}
	if m := together.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("--%s: they go together: give --%s too", strings.ReplaceAll(m[1], " ", " and --"), strings.ReplaceAll(m[2], " ", " and --"))
	}
	if tooFew := strings.HasPrefix(text, "requires at least "); tooFew || strings.HasPrefix(text, "accepts ") {
		line, _, _ := strings.Cut(cmd.UseLine(), " [flags]")
		if len(rest) == 0 || tooFew {
			return fmt.Errorf("something is missing: write %q", line)
		}
		return fmt.Errorf("not so many arguments: write %q", line)
	}
	return nil
}

// flagFor asks whether an argument belongs to the flag by which a command gets its file or interface.
func flagFor(cmd *cobra.Command, word string) string {
	if _, err := strconv.ParseFloat(word, 64); err == nil {
		switches := ""
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				switches = ": --" + f.Name + " takes no value"
			}
		})
		if switches != "" {
			return switches
		}
	}
	for _, name := range []string{"config", "in", "interface", "queries", "collector"} {
		f := cmd.Flag(name)
		if f == nil || name == "config" && !strings.HasSuffix(word, ".toml") {
			continue
		}
		if f.Shorthand != "" {
			name = "-" + f.Shorthand
		} else {
			name = "--" + name
		}
		return fmt.Sprintf(": did you mean \"%s %s %s\"?", cmd.CommandPath(), name, word)
	}
	return ""
}
