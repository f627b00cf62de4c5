package tables

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteCommands writes the contents in the language of BMv2's command line, a command a
// line. crcs are the names of the program's calculations that are to be CRC-32C (see
// Calculations).
func (c *Contents) WriteCommands(w io.Writer, crcs []string) error {
	b := bufio.NewWriter(w)
	for _, name := range crcs {
		fmt.Fprintf(b, "set_crc32_parameters %s %#x %#x %#x true true\n", name, crcPolynomial, crcOnes, crcOnes)
	}
	for _, d := range c.Defaults {
		writeFields(b, "table_set_default", d.Table, d.Action.Name, paramWords(d.Action))
	}
	for i := range c.Entries {
		fmt.Fprintln(b, c.Entries[i].Command())
	}
	for _, r := range c.registers() {
		// The command line reads numbers of 64 bits with a sign.
		fmt.Fprintf(b, "register_write %s %d %d\n", r.Name, r.Index, int64(r.Value))
	}
	for _, s := range c.Clones {
		fmt.Fprintf(b, "mirroring_add %d %d\n", s.Session, s.Port)
	}
	handle := 0 // of the next node: they count from 0
	for i := range c.Groups {
		g := &c.Groups[i]
		fmt.Fprintf(b, "mc_mgrp_create %d\n", g.ID)
		original, copies := g.nodes()
		for id, ports := range [][]int{original, copies} {
			if len(ports) > 0 {
				fmt.Fprintf(b, "mc_node_create %d%s\nmc_node_associate %d %d\n", id, numbers(ports), g.ID, handle)
				handle++
			}
		}
	}
	return b.Flush()
}

// Command is the runtime command that adds the entry.
func (e *Entry) Command() string {
	priority := ""
	if e.Priority != 0 {
		priority = fmt.Sprint(e.Priority)
	}
	var line strings.Builder
	writeFields(&line, "table_add", e.Table, e.Action.Name, keyWords(e.Keys), "=>", paramWords(e.Action), priority)
	return strings.TrimSpace(line.String())
}

// The second CRC is CRC-32C (Castagnoli).
const (
	crcPolynomial = 0x1edc6f41
	crcOnes       = 0xffffffff
)

// writeFields writes a line of the fields that are not empty.
func writeFields(w io.Writer, fields ...string) {
	var kept []string
	for _, f := range fields {
		if f != "" {
			kept = append(kept, f)
		}
	}
	fmt.Fprintln(w, strings.Join(kept, " "))
}

func paramWords(a Action) string {
	words := make([]string, len(a.Params))
	for i, p := range a.Params {
		words[i] = p.Value.String()
	}
	return strings.Join(words, " ")
}

func keyWords(all []Key) string {
	words := make([]string, len(all))
	for i := range all {
		k := &all[i]
		switch k.Match {
		case Exact:
			words[i] = k.Value.String()
		case LPM:
			words[i] = fmt.Sprintf("%v/%d", k.Value, k.Prefix)
		case Ternary:
			words[i] = fmt.Sprintf("%v&&&%v", k.Value, k.Mask)
		case Range:
			words[i] = fmt.Sprintf("%v->%v", k.Value, k.High)
		}
	}
	return strings.Join(words, " ")
}

func numbers(all []int) string {
	var b strings.Builder
	for _, n := range all {
		fmt.Fprintf(&b, " %d", n)
	}
	return b.String()
}
