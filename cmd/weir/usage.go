package main

import (
	"errors"
	"fmt"
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
	if word == "" || word == "help" || strings.HasPrefix(word, "__") || cmd == root && word == "completion" {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s: %s lists what there is", word, cmd.CommandPath(), meant(word, names, ""), helpOf(cmd))
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
		} else if name = strings.Trim(missing.GetSpecifiedShortnames(), "-"); len(name) > 1 {
			hint = meant(name, known, "--") // "-json" for "--json"
		}
	}
	return fmt.Errorf("%w%s: %s lists what there is", err, hint, helpOf(cmd))
}
