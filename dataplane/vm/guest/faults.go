package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/vm"
)

// faults takes the links of both ports down and up in turn, and has their drivers reset, while the hosts send. Then packets
// pass again; that no frame is lost and none had two owners is found when the switch ends.
func (r *running) faults(ctx context.Context) (text string, err error) {
	load, err := r.startLoad(ctx)
	if err != nil {
		return "", err
	}
	text, faultErr := r.cause()
	if err := errors.Join(faultErr, load.stop()); err != nil {
		return "", err
	}
	if err := r.up(); err != nil {
		return "", err
	}
	if err := r.settle(ctx); err != nil {
		return "", err
	}
	from, to := r.ends()
	if err := ping(ctx, from, to, pingSizes...); err != nil {
		return "", err
	}
	return text, nil
}

// cause causes all faults, and returns how many of each kind.
func (r *running) cause() (text string, err error) {
	ports := []string{"a", "b"}
	every := max(1, r.row.Flaps/max(1, r.row.Resets))
	resets, kinds := 0, operatorFaults
	done := map[string]int{}
	for i := range r.row.Flaps {
		port := ports[i%len(ports)]
		if err := r.ports.SetDown(port); err != nil {
			return "", err
		}
		if err := r.ports.SetUp(port); err != nil {
			return "", err
		}
		if i%every != 0 || resets == r.row.Resets || r.plan.Veth { // which has nothing to reset
			continue
		}
		did := ""
		for did == "" {
			if len(kinds) == 0 {
				return "", fmt.Errorf("the driver of %s does not reset in any way", port)
			}
			kind := resets / len(ports) % len(kinds)
			if did, err = kinds[kind](ports[resets%len(ports)]); err != nil {
				return "", fmt.Errorf("reset %d of %s: %w", resets, ports[resets%len(ports)], err)
			}
			if did == "" {
				kinds = slices.Delete(slices.Clone(kinds), kind, kind+1)
			}
		}
		done[did]++
		resets++
	}
	text = fmt.Sprintf("%d flaps, %d resets", r.row.Flaps, resets)
	for _, did := range slices.Sorted(maps.Keys(done)) {
		text += fmt.Sprintf("; %s: %d", did, done[did])
	}
	return text, nil
}

// background is both hosts' generators, which send until they are stopped.
type background []*exec.Cmd

func (r *running) startLoad(ctx context.Context) (background, error) {
	var load background
	for i := range r.hosts {
		from, to := &r.hosts[i], &r.hosts[1-i]
		gen := exec.CommandContext(ctx, weirProgram, "gen", "--namespace", from.Name(), "-i", hostInterface, "--source", "packet",
			"--rate", genRate, "--size", "64,576,1518", "--src-mac", from.mac, "--dst-mac", to.mac)
		if err := gen.Start(); err != nil {
			return nil, errors.Join(err, load.stop())
		}
		load = append(load, gen)
	}
	for i := range r.hosts {
		if err := r.hosts[i].awaitPackets(); err != nil {
			return nil, errors.Join(err, load.stop())
		}
	}
	return load, nil
}

// flowing is how many packets of a load show that it runs.
const flowing = 100

// awaitPackets waits until packets arrive at a host.
func (h *host) awaitPackets() error {
	var first uint64
	for deadline := time.Now().Add(readyWait); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		c, err := h.Counters(hostInterface)
		if err != nil {
			return err
		}
		if first == 0 {
			first = c.RxPackets
		}
		if c.RxPackets-first >= flowing {
			return nil
		}
	}
	return fmt.Errorf("the load does not reach %s", h.Name())
}

func (b background) stop() error {
	var errs []error
	for _, gen := range b {
		_ = gen.Process.Signal(unix.SIGINT)
		errs = append(errs, gen.Wait())
	}
	return errors.Join(errs...)
}

// restart ends the switch in ways, after which the ports' settings are what they were before it came.
func (r *running) restart(ctx context.Context) error {
	if err := r.stop(); err != nil {
		return err
	}
	before, err := r.settings()
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name string
		end  func() error
	}{
		{"SIGTERM", r.stop},
		{"kill -9, a restart and SIGTERM", func() error {
			r.kill()
			return errors.Join(r.startSwitches(ctx), r.stop())
		}},
		{"kill -9 and weir nic restore", func() error {
			r.kill()
			_, err := weir("nic", "restore")
			return err
		}},
	} {
		if err := errors.Join(r.startSwitches(ctx), way.end()); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		after, err := r.settings()
		if err != nil {
			return err
		}
		if after != before {
			return fmt.Errorf("settings after %s:\n%s\nbefore:\n%s", way.name, after, before)
		}
	}
	return nil
}

// kill kills all switches.
func (r *running) kill() {
	for _, s := range r.switches {
		s.kill()
	}
	r.switches = nil
}

// settings are those of both ports' interfaces, once their links are up.
func (r *running) settings() (string, error) {
	if err := r.up(); err != nil {
		return "", err
	}
	var all strings.Builder
	for _, port := range []int{vm.PortA, vm.PortB} {
		out, err := weir("nic", "show", names[port], "--json")
		if err != nil {
			return "", err
		}
		all.Write(out)
	}
	return all.String(), nil
}
