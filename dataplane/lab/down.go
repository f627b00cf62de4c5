package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/process"
)

// Down takes the lab down that this process has brought up, and returns how its
// switches ended. Nothing remains, also when it returns an error about a part of it.
func (l *Lab) Down() ([]SwitchEnd, error) {
	ends, err := l.stopSwitches()
	return ends, errors.Join(err, l.stopCollector(), l.remove())
}

// stopSwitches ends all switches. They are asked at the same time, so that a lab with many
// takes no longer than its slowest.
func (l *Lab) stopSwitches() ([]SwitchEnd, error) {
	return stopAll(l.state, l.dir.path, func(n *nodeState) (Exit, error) {
		if p := l.switches[n.Name]; p != nil {
			return p.stop()
		}
		return stopProcess(n.Process)
	})
}

func (l *Lab) remove() error {
	for _, conn := range l.silent {
		_ = conn.Close()
	}
	for _, ns := range l.spaces {
		ns.Close()
	}
	return errors.Join(stopRest(l.state, l.dir.path, func(n *nodeState) (Exit, error) { return stopProcess(n.Process) }), removeAll(l.state, l.dir))
}

// Down takes down the lab of that name, whichever process has made it and whatever
// became of that process. The error is [ErrNotUp] if there is none, and [ErrBusy] while
// another process holds it.
func Down(name string) ([]SwitchEnd, error) {
	if !labName.MatchString(name) {
		return nil, fmt.Errorf("lab %q: this is no name of a lab", name)
	}
	dir, err := lockRunDirectory(name)
	if err != nil {
		return nil, err
	}
	s, err := loadState(name)
	if err != nil {
		dir.unlock()
		return nil, err
	}
	stop := func(n *nodeState) (Exit, error) { return stopProcess(n.Process) }
	ends, err := stopAll(s, dir.path, stop)
	return ends, errors.Join(err, stopRest(s, dir.path, stop), removeAll(s, dir))
}

// stopAll stops every switch of a lab by the given function, and collects their reports.
func stopAll(s *state, dir string, stop func(*nodeState) (Exit, error)) ([]SwitchEnd, error) {
	var ends []SwitchEnd
	var nodes []*nodeState
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.reports() && n.Process != (process.ID{}) {
			ends, nodes = append(ends, SwitchEnd{Name: n.Name}), append(nodes, n)
		}
	}
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			end := &ends[i]
			if end.Exit, errs[i] = stop(n); errs[i] != nil {
				errs[i] = fmt.Errorf("stop switch %s: %w", n.Name, errs[i])
			}
			var err error
			if end.Report, err = readReport(outputPath(dir, n.Name)); err != nil {
				end.Report, end.Fault = nil, err.Error()
			}
			if !end.Exit.Clean || end.Report == nil {
				end.Log = tail(logPath(dir, n.Name))
			}
		})
	}
	all.Wait()
	return ends, errors.Join(errs...)
}

// stopRest stops the processes of a lab other than the switches, after these, and any process that the state has missed.
func stopRest(s *state, dir string, stop func(*nodeState) (Exit, error)) error {
	var errs []error
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.runs() && !n.reports() && n.Process != (process.ID{}) {
			if _, err := stop(n); err != nil {
				errs = append(errs, fmt.Errorf("stop the %s: %w", n.Name, err))
			}
		}
	}
	for _, id := range orphans(dir) {
		if _, err := stopProcess(id); err != nil {
			errs = append(errs, fmt.Errorf("stop a process that the state does not name: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeAll removes a lab's namespaces, and then, if nothing is left, its run directory.
func removeAll(s *state, dir *runDirectory) error {
	var errs []error
	for _, n := range slices.Backward(s.Nodes) {
		if n.Namespace == "" {
			continue
		}
		if err := netns.Delete(n.Namespace); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		dir.unlock() // what is left can still be taken down later
		return err
	}
	return dir.remove()
}
