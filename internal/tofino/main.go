package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// program is one of p4/tna.
type program struct {
	name   string
	target string // of the compiler
	define string // of the target, for tna.p4
	most   int    // stages
}

var programs = []program{
	{"pint", "tofino", "1", 12},
	{"disketch", "tofino", "1", 12},
	{"oblivious", "tofino", "1", 12},
	{"lds", "tofino", "1", 12},
	{"weir", "tofino2", "2", 20},
}

func main() {
	source := flag.String("source", "p4/tna", "folder of the programs")
	out := flag.String("out", "bin/p4/tna", "folder for what is made")
	readme := flag.String("check", "", "Markdown `FILE` whose tables of the programs are compared with the ones printed: a warning says what differs")
	var include []string
	flag.Func("I", "folder of the compiler's headers, if it is not installed (repeatable)", func(dir string) error {
		include = append(include, dir)
		return nil
	})
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: tofino [-source DIR] [-out DIR] [-check FILE] [-I DIR]... [PROGRAM...]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*source, *out, *readme, include, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run builds the named programs, or all, side by side, and shows them in order. It goes on
// behind one that does not fit. readme is a file to compare the tables with, or "".
func run(source, out, readme string, include, names []string) error {
	t, err := findTools()
	if err != nil {
		return err
	}
	var text []byte
	if readme != "" {
		if text, err = os.ReadFile(readme); err != nil {
			return fmt.Errorf("read what the tables are compared with: %w", err)
		}
	}
	t.include = include
	var wanted []program
	for _, p := range programs {
		if len(names) == 0 || contains(names, p.name) {
			wanted = append(wanted, p)
		}
	}
	results := make([]chan result, len(wanted))
	turns := make(chan struct{}, runtime.NumCPU()) // a compiler has one thread
	for i, p := range wanted {
		results[i] = make(chan result, 1)
		go func() {
			turns <- struct{}{}
			r := t.measure(p, source, filepath.Join(out, p.name))
			<-turns
			results[i] <- r
		}()
	}
	var faults []error
	for i, p := range wanted {
		r := <-results[i]
		if r.lost != nil {
			fmt.Fprintf(os.Stderr, "warning: %s: %v\n", p.name, r.lost)
		}
		if r.err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", p.name, r.err))
		}
		if len(r.stages) == 0 {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: warnings: %v", p.name, r.warnings)
		printed := table(p, r.stages)
		fmt.Print(printed)
		faults = append(faults, check(p, r.stages)...)
		if readme != "" {
			if err := compare(p, printed, string(text)); err != nil {
				fmt.Fprintf(os.Stderr, "warning: %s: %v\n", readme, err) // another p4c may place otherwise
			}
		}
	}
	return errors.Join(faults...)
}

// check says what is wrong with a program that compiler and assembler took.
func check(p program, stages []stage) (faults []error) {
	if len(stages) > p.most {
		faults = append(faults, fmt.Errorf("%s needs %d stages, of at most %d", p.name, len(stages), p.most))
	}
	seen := map[string]int{}
	for i, s := range stages {
		for _, r := range s.registers {
			if first, ok := seen[r]; ok {
				faults = append(faults, fmt.Errorf("%s: register %s is split over the stages %d and %d", p.name, r, first, i))
			}
			seen[r] = i
		}
	}
	return faults
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if strings.TrimSuffix(n, ".p4") == name {
			return true
		}
	}
	return false
}
