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
	var include []string
	flag.Func("I", "folder of the compiler's headers, if it is not installed (repeatable)", func(dir string) error {
		include = append(include, dir)
		return nil
	})
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: tofino [-source DIR] [-out DIR] [-I DIR]... [PROGRAM...]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*source, *out, include, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run builds the named programs, or all, side by side, and shows them in order. It goes on
// behind one that does not fit.
func run(source, out string, include, names []string) error {
	t, err := findTools()
	if err != nil {
		return err
	}
	t.include = include
	var wanted []program
	for _, p := range programs {
		if len(names) == 0 || contains(names, p.name) {
			wanted = append(wanted, p)
		}
	}
	type result struct {
		stages    []stage
		lost, err error
	}
	results := make([]chan result, len(wanted))
	turns := make(chan struct{}, runtime.NumCPU()) // a compiler has one thread
	for i, p := range wanted {
		results[i] = make(chan result, 1)
		go func() {
			turns <- struct{}{}
			stages, lost, err := t.measure(p, filepath.Join(source, p.name+".p4"), filepath.Join(out, p.name))
			<-turns
			results[i] <- result{stages, lost, err}
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
		if len(r.stages) > 0 {
			fmt.Print(table(p, r.stages))
			faults = append(faults, check(p, r.stages)...)
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
