package lab

import (
	"os"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// Status is what there is of a lab.
type Status struct {
	Name  string    `json:"name"`
	File  string    `json:"file"`
	Began time.Time `json:"began"`
	// Up: all of it was made. Without it, the lab is being made or its making has crashed.
	Up bool `json:"up"`
	// Ended: the switches were ended, as the run is over of which the collector is still there (weir lab run --linger).
	Ended bool `json:"ended,omitempty"`
	// Healthy: up, every namespace is there and every switch runs, or has ended with its run.
	Healthy bool `json:"healthy"`
	// Creator is the pid of the process that makes or runs the lab, if it still does; else 0.
	Creator int `json:"creator,omitempty"`
	// Page is the URL of the collector's page; empty without a collector.
	Page  string       `json:"page,omitempty"`
	Nodes []NodeStatus `json:"nodes"`
}

// NodeStatus is one node of a [Status].
type NodeStatus struct {
	Name      string                    `json:"name"`
	Kind      string                    `json:"kind"`
	Namespace string                    `json:"namespace"`
	Exists    bool                      `json:"exists"`            // the namespace does
	PID       int                       `json:"pid,omitempty"`     // of the switch
	Running   bool                      `json:"running,omitempty"` // the switch does
	Ended     bool                      `json:"ended,omitempty"`   // the switch has, with its run
	Socket    string                    `json:"socket,omitempty"`  // for weir ctl
	Log       string                    `json:"log,omitempty"`
	Counters  map[string]netns.Counters `json:"counters,omitempty"` // the kernel's, by interface
}

// Inspect looks at a lab without changing it. The error is [ErrNotUp] if there is none.
func Inspect(name string) (*Status, error) {
	s, err := loadState(name)
	if err != nil {
		return nil, err
	}
	st := &Status{Name: s.Name, File: s.File, Began: s.Began, Up: s.Up, Ended: s.Ended, Healthy: s.Up, Page: s.pageURL()}
	if s.Creator.Alive() {
		st.Creator = s.Creator.PID
	}
	dir := directoryOf(name)
	for _, n := range s.Nodes {
		node := NodeStatus{Name: n.Name, Kind: n.Kind, Namespace: n.Namespace}
		if n.Namespace == "" {
			node.Exists = true
		} else if ns, err := netns.Open(n.Namespace); err == nil {
			node.Exists, node.Counters = true, allCounters(ns)
			ns.Close()
		}
		st.Healthy = st.Healthy && node.Exists
		if n.runs() {
			node.PID, node.Running = n.Process.PID, n.Process.Alive()
			node.Ended = s.Ended && n.reports() && !node.Running
			st.Healthy = st.Healthy && (node.Running || node.Ended)
			node.Log = logPath(dir, n.Name)
			if socket := socketPath(dir, n.Name); fileExists(socket) {
				node.Socket = socket
			}
		}
		st.Nodes = append(st.Nodes, node)
	}
	return st, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// allCounters reads the counters of every interface but the loopback.
func allCounters(ns *netns.Namespace) map[string]netns.Counters {
	links, err := ns.Netlink().LinkList()
	if err != nil {
		return nil
	}
	counters := map[string]netns.Counters{}
	for _, link := range links {
		name := link.Attrs().Name
		if name == "lo" {
			continue
		}
		if c, err := ns.Counters(name); err == nil {
			counters[name] = c
		}
	}
	return counters
}
