package main

import (
	"fmt"
	"strings"
)

// lostSelections is an error that names the parser states of an assembly file which have more
// than one transition that any packet takes. The first one is taken, so what the program selects
// by is lost. p4c does so between its pull requests 5063 and 5753, without a word: a state
// has no line "match", and "*" for each transition.
func lostSelections(assembly string) error {
	var lost []string
	var gress, state string
	unconditional := 0
	for line := range strings.Lines(assembly) {
		line = strings.TrimRight(line, "\r\n")
		name := strings.TrimSpace(line)
		switch indent := len(line) - len(strings.TrimLeft(line, " ")); {
		case name == "" || strings.HasPrefix(name, "#"):
		case indent == 0:
			gress = ""
			if words := strings.Fields(strings.TrimSuffix(name, ":")); len(words) > 1 && words[0] == "parser" {
				gress = words[1]
			}
		case gress == "":
		case indent == 4 && strings.HasSuffix(name, ":"):
			state, unconditional = strings.TrimSuffix(name, ":"), 0
		case indent == 6 && name == "*:":
			if unconditional++; unconditional == 2 {
				lost = append(lost, gress+" "+state)
			}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("the compiler has lost what %d parser states select by, so that every packet takes the first transition (%s): "+
		"take a p4c without this fault, from before its pull request 5063 or with 5753", len(lost), strings.Join(lost, ", "))
}
