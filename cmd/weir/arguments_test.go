package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// wrongArguments are command lines with faults that only the command itself finds.
var wrongArguments = []string{
	"switch -c x.toml --report xml",
	"switch -c x.toml --here",
	"switch -c x.toml --check --here",
	"collect -c nowhere.toml",
	"nic show no-such-0",
	"nic restore no-such-0",
	"replay --in nowhere.pcap",
	"replay --graph nope --in nowhere.pcap",
	"gen -i no-such-0",
	"gen -i lo --size 5",
	"gen -i lo --cores 999",
	"gen -i lo --queues -1",
	"gen -i lo --count -1",
	"sink -i no-such-0",
	"plan --queries nowhere.toml",
	"key check nowhere",
	"key new /no-such-folder/key",
	"p4 switch -c nowhere.toml",
	"p4 tables -c nowhere.toml",
	"lab check nowhere.toml",
	"lab run nowhere.toml",
	"lab up nowhere.toml",
	"lab down nowhere.toml",
	"query path --dst nonsense",
	"query path --collector nonsense://x",
	"query path --timeout -1s",
	"query delay --from s1:p0",
	"query records --kind nonsense",
	"query path --watch 1ns",
	"query path --records /no-such-folder",
	"ctl --socket s --name n show ports",
	"ctl --address nonsense show ports",
	"ctl top --interval 1ns",
	"ctl top --count -1 --socket /no-such-socket",
	"ctl show ports --watch --interval 1ns",
	"ctl show paths --flow nonsense --socket /no-such-socket",
	"ctl show paths --limit -5 --socket /no-such-socket",
	"ctl --timeout -1s --socket /no-such-socket show ports",
	"ctl trace --count -1 --socket /no-such-socket",
	"ctl capture --count -1 --socket /no-such-socket",
	"bench paper no-such-figure",
	"bench paper",
	"bench paper pint-fig5 --all",
	"bench paper pint-fig5 --packets -1 --quick",
	"bench stage --rounds -1 l2",
	"bench stage no-such-stage",
	"bench pipeline --rounds -1",
	"bench pipeline --core 9999 --quick",
	"bench collect --rounds -1",
	"bench collect --quick --folder /no-such-folder",
	"bench scale --plot /no-such-folder/x.svg",
	"bench forward --rounds -1",
	"bench forward --only no-such-device",
	"bench forward --placement nope",
	"bench forward --tx no-such-0 --rx no-such-1",
	"bench compare a.json b.json",
	"man --out /dev/null/x",
}

// TestWrongArguments: a command line that cannot be ends with status 2, at each command: an unknown flag, an argument too
// many, a flag without its value or with one of another type, and what the commands themselves refuse.
func TestWrongArguments(t *testing.T) {
	expect := func(line ...string) {
		t.Helper()
		if status, _, stderr := weir(line...); status != statusUsage || stderr == "" {
			t.Errorf("weir %s: status %d, %s", strings.Join(line, " "), status, stderr)
		}
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		expect(append(path, "--no-such-flag")...)
		if !cmd.DisableFlagParsing && cmd.Args != nil && cmd.Args(cmd, make([]string, 9)) != nil {
			expect(append(path, strings.Fields("1 2 3 4 5 6 7 8 9")...)...)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "bool", "int", "int64", "uint64", "uint32", "float64", "duration":
				expect(append(path, "--"+f.Name+"=no-such-value")...)
			case "string":
				expect(append(path, "--"+f.Name)...)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand())
	for line, want := range map[string]string{
		"ctl capture -w x --duration -3s":     "--duration -3s: choose a length of time above 0, or leave it out",
		"ctl capture -w x --timeout 0":        "--timeout 0s: choose a length of time above 0, as 1m",
		"ctl trace --wait -1s --timeout -2s":  "--timeout -2s: choose a length of time above 0, as 1m\nweir: --wait -1s: choose a length of time above 0, as 5s",
		"query path --watch -1s --timeout 0s": "--timeout 0s: choose a length of time above 0, as 30s\nweir: --watch -1s: choose a length of time above 0, or leave it out",
		"query volume --last -1s --step -1s":  "--last -1s: choose a length of time above 0, or leave it out\nweir: --step -1s: choose",
		"ctl set acl add action=deny --at 0":  "--at 0: positions count from 1",
		"ctl set route remove --at -1 via=x":  "--at -1: positions count from 1",
		"ctl trace --count 0":                 "--count 0: choose 1 to 1000 packets",
		"ctl clear":                           "nothing says what to clear: write \"weir ctl clear acl\" or",
		"ctl set port change left":            "something is missing: write \"weir ctl set port change NAME KEY=VALUE...\"",
		"ctl --address a:1 show ports":        "--address and --cert and --key and --ca: they go together: give --ca and --cert and --key too",
		"ctl --socket /etc/passwd show ports": "/etc/passwd is no socket: name a switch's with --socket, or the switch with --name",
		"bench pipeline --slice 0":            "--slice 0s: choose a length of time above 0, as ",
	} {
		if status, _, stderr := weir(strings.Fields(line)...); status != statusUsage || !strings.Contains(stderr, want) {
			t.Errorf("weir %s: status %d, %s, want %s", line, status, stderr, want)
		}
	}
	for _, line := range wrongArguments {
		expect(strings.Fields(line)...)
	}
}

// TestUnwritten: where a disk is full the remedy is space and the status 1, whatever is written.
func TestUnwritten(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "/d/x", Err: unix.ENOSPC}
	for _, remedy := range []string{"", "name another"} {
		err := unwritten("capture", "/d/x", full, remedy)
		var errs bytes.Buffer
		if status := conclude(err, &errs); status != statusFailure || !strings.Contains(errs.String(), "no space left on device: free space in /d, or name a file on another disk\n") {
			t.Errorf("status %d: %s", status, &errs)
		}
	}
	if status := conclude(unwritten("capture", "/d/x", os.ErrPermission, "name another"), io.Discard); status != statusUsage {
		t.Errorf("status %d without permission", status)
	}
}
