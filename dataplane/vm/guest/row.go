package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/vm"
)

// testWait is far more than a test needs on an emulated processor, and flapWait than a link needs to go down and up: an emulated
// igb negotiates for two seconds.
const (
	testWait = 20 * time.Minute
	flapWait = 20 * time.Second
)

// running is a bed that is up, in a row.
type running struct {
	*network
	*bed
	row      *vm.Row
	switches []*switchProcess
	mode     string // of the first port, from the report at the end
}

// row runs a row's tests and reports each of them.
func (n *network) row(ctx context.Context, row vm.Row, report func(vm.Result)) {
	for i := range beds {
		var tests []vm.Test
		for _, test := range beds[i].tests {
			if slices.Contains(row.Tests, test) {
				tests = append(tests, test)
			}
		}
		if len(tests) > 0 {
			n.group(ctx, &running{network: n, bed: &beds[i], row: &row}, tests, report)
		}
	}
}

// group runs tests that share a bed. What is wrong when the switches end is wrong with the last test.
func (n *network) group(ctx context.Context, r *running, tests []vm.Test, report func(vm.Result)) {
	results := make([]vm.Result, len(tests))
	began := time.Now()
	startErr := r.start(ctx)
	for i, test := range tests {
		result := &results[i]
		*result = vm.Result{Row: r.row.Name, Test: test}
		err := startErr
		if err != nil && i > 0 && !errors.As(err, new(refusal)) {
			err = fmt.Errorf("as %s", tests[0])
		}
		if err == nil {
			fmt.Printf("guest: %s, %s\n", r.row.Name, test)
			result.Text, err = r.run(ctx, test)
		}
		judge(result, err)
		result.Seconds = time.Since(began).Seconds()
		began = time.Now()
	}
	stopErr := r.stop()
	if last := &results[len(results)-1]; last.Outcome == vm.OK {
		judge(last, stopErr)
	}
	for _, result := range results {
		result.Mode = r.mode
		report(result)
	}
}

// start makes the bed: links, the bridge or switches, and waits until packets pass.
func (r *running) start(ctx context.Context) error {
	if err := r.setTags(r.row); err != nil {
		return err
	}
	if err := r.setMTU(r.mtu, r.core); err != nil {
		return refusal{err.Error()} // the driver's
	}
	if err := r.up(); err != nil {
		return err
	}
	if r.row.Bridge {
		if err := r.ports.AddBridge("br0", "a", "b"); err != nil {
			return err
		}
		return r.settle(ctx)
	}
	if slices.Contains(r.tests, vm.Bond) {
		if err := r.makeBond(); err != nil {
			return err
		}
	}
	return r.startSwitches(ctx)
}

// startSwitches starts the bed's switches and waits until packets pass.
func (r *running) startSwitches(ctx context.Context) error {
	for _, f := range r.bed.switches {
		s, err := startSwitch(f.name, f.text(r.row, r.jumbo))
		if err != nil {
			return err
		}
		r.switches = append(r.switches, s)
	}
	if !slices.Contains(r.tests, vm.Bond) { // whose NICs are elsewhere
		if err := r.up(); err != nil { // drivers reset as XDP comes
			return err
		}
	}
	if slices.Contains(r.tests, vm.Overlay) { // waits for each of its tunnels itself
		return nil
	}
	return r.settle(ctx)
}

// settleTries is how often settle asks. A link may take seconds to come back after its driver was reset.
const settleTries = 100

// settle pings until there is an answer.
func (r *running) settle(ctx context.Context) error {
	from, to := r.ends()
	return r.settleBetween(ctx, from, to)
}

func (r *running) settleBetween(ctx context.Context, from, to lab.Stack) error {
	var last lab.Result
	for range settleTries {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		last = lab.Carry(try, lab.Traffic{Kind: lab.KindPing, Count: 1, Sizes: []int{64, 64}}, from, to)
		cancel()
		if last.OK() {
			return nil
		}
	}
	return fmt.Errorf("no answer to %d pings of 64 bytes: %s %s", settleTries, last.Fault, r.showPorts())
}

// ends are the stacks whose packets pass the bed untagged at the first host.
func (r *running) ends() (from, to lab.Stack) {
	pick := func(h *host) lab.Stack { return lab.Stack{Namespace: h.Namespace, Address: h.plain} }
	switch {
	case slices.Contains(r.tests, vm.Bond):
		return r.bondEnds()
	case slices.Contains(r.tests, vm.IRB):
		return r.taggedEnds()
	case slices.Contains(r.tests, vm.L2):
		pick = func(h *host) lab.Stack { return lab.Stack{Namespace: h.Namespace, Address: h.mixed} }
	case slices.Contains(r.tests, vm.L3):
		pick = func(h *host) lab.Stack { return lab.Stack{Namespace: h.Namespace, Address: h.far} }
	}
	return pick(&r.hosts[0]), pick(&r.hosts[1])
}

// showPorts is what the switches say of their ports, for a failure.
func (r *running) showPorts() string {
	var text strings.Builder
	for i := range r.switches {
		out, err := weir("ctl", "--socket", r.bed.switches[i].socket(), "show", "ports")
		fmt.Fprintf(&text, "%s", out)
		if err != nil {
			fmt.Fprintln(&text, err)
		}
	}
	return text.String()
}

// stop ends switches and the bridge, and joins what is wrong with their ends.
func (r *running) stop() error {
	var errs []error
	for i, s := range r.switches {
		report, err := s.stop()
		errs = append(errs, err)
		if err == nil && i == 0 {
			r.mode = report.Ports[0].Mode
		}
		if err != nil || r.plan.Logs {
			fmt.Printf("guest: the log of %s:\n%s%s\n", s.name, s.log.String(), s.out.String())
		}
	}
	r.switches = nil
	if slices.Contains(r.tests, vm.Bond) {
		errs = append(errs, r.undoBond())
	}
	if r.row.Bridge {
		errs = append(errs, r.ports.DeleteLink("br0"))
	}
	// Packets of several frames may need another mode.
	if want := r.row.Granted; !strings.HasPrefix(r.mode, want) && r.mode != "" && !r.jumbo {
		errs = append(errs, fmt.Errorf("the mode is %q, not %q", r.mode, want))
	}
	return errors.Join(errs...)
}

// judge turns the error of a test into its outcome.
func judge(result *vm.Result, err error) {
	var why refusal
	switch {
	case err == nil:
		result.Outcome = vm.OK
	case errors.As(err, &why):
		result.Outcome, result.Text = vm.Refused, why.text
	default:
		result.Outcome, result.Text = vm.Failed, err.Error()
	}
}
