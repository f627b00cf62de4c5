package node

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/acl"
	"github.com/weirswitch/weir/stages/l2"
)

// inForce is a configuration and its text. It never changes.
type inForce struct {
	config   *config.Config
	text     string
	warnings []string // of its stages
}

func newInForce(c *config.Config) (*inForce, error) {
	var text strings.Builder
	if err := c.Dump(&text); err != nil {
		return nil, err
	}
	return &inForce{c, text.String(), c.StageWarnings()}, nil
}

// Reload puts the text of a file into force, or without one the configuration's own file
// as it is now.
func (n *Node) Reload(q *api.ReloadRequest) (*api.ChangeResponse, error) {
	return n.Change(func(*config.Config) (*config.Config, error) {
		if q.Toml == "" {
			if n.options.File == "" {
				return nil, errors.New("this switch was not started from a file: name one to reload")
			}
			return config.Load(n.options.File)
		}
		return config.ParseAs(q.File, []byte(q.Toml))
	})
}

// Set adds, removes or changes one element of a list of the configuration.
func (n *Node) Set(q *api.SetRequest) (*api.ChangeResponse, error) {
	return n.Change(func(c *config.Config) (*config.Config, error) {
		return c.Edited(config.Edit{Stage: q.Stage, List: q.List, Remove: q.Remove, At: int(q.At), Fields: q.Fields, Match: q.Match})
	})
}

// Change puts the configuration that next makes of the present one into force while packets
// flow, or refuses it whole: the error joins all faults by key, and nothing has changed then.
// next must not write into the present one. Changes run one at a time; ports change only
// while the node runs.
func (n *Node) Change(next func(now *config.Config) (*config.Config, error)) (*api.ChangeResponse, error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	before := n.inForce.Load()
	old := before.config
	c, err := next(old)
	if err != nil {
		return nil, err
	}
	force, err := newInForce(c)
	if err != nil {
		return nil, err
	}
	if err := c.Telemetry.CheckSending(); err != nil {
		return nil, err
	}
	ports := &portChange{n: n, old: old, next: c}
	prepared, err := config.Prepare(old, c, n.chain(), func() (_ []pipeline.Port, err error) {
		err = n.space.Do(ports.open)
		return ports.ports, err
	})
	var graph *graphChange
	if err == nil {
		graph, err = n.changeGraph(prepared.Graph, c)
	}
	if err == nil {
		err = ports.configure()
	}
	if err != nil {
		return nil, errors.Join(err, graph.abort(), ports.abort())
	}
	ports.install()
	prepared.Commit()
	graphErr := graph.install()
	ports.finish()
	n.followBonds()
	if err := n.sw.FollowGraph(); err != nil {
		n.log.Error("a port does not receive what the graph needs", zap.Error(err))
	}
	n.kernel.Look()
	if level, err := zapcore.ParseLevel(c.Log.Level); err == nil && n.options.Level != nil {
		n.options.Level.SetLevel(level)
	}
	if !reflect.DeepEqual(old.Telemetry, c.Telemetry) {
		if err := n.path.Configure(c.Telemetry); err != nil {
			n.log.Error("records are not sent", zap.Error(err))
		}
	}
	if graphErr != nil { // all but the graph is in force
		if force, err = newInForce(graph.without(old)); err == nil {
			n.inForce.Store(force)
		}
		return nil, errors.Join(graphErr, err)
	}
	n.inForce.Store(force)
	select { // another domain may leave a routed interface another MTU
	case n.portsChanged <- struct{}{}:
	default:
	}
	r := &api.ChangeResponse{}
	for _, x := range prepared.Changes {
		r.Changes = append(r.Changes, &api.Change{Key: x.Key, Old: x.Old, New: x.New})
	}
	for _, text := range force.warnings {
		if !slices.Contains(before.warnings, text) {
			n.log.Warn(text)
			r.Warnings = append(r.Warnings, text)
		}
	}
	return r, nil
}

// ReloadFile is a Reload of the configuration's own file that no call of the API asked
// for. cause, such as "SIGHUP", is in the audit log; a refusal is in the log too.
func (n *Node) ReloadFile(cause string) error {
	r, err := n.Reload(&api.ReloadRequest{})
	if err != nil {
		n.log.Error("the configuration stays as it is", zap.Error(err))
	}
	if server := n.server.Load(); server != nil {
		server.Changed(cause, r, err)
	}
	return err
}

// Clear forgets learned stations (fdb), or the counts of rules (acl).
func (n *Node) Clear(q *api.ClearRequest) (*api.ClearResponse, error) {
	if q.Table != "fdb" && (q.Port != "" || q.Vlan != 0 || q.Domain != "") {
		return nil, fmt.Errorf("%s has neither ports nor VLANs to choose by: leave them out", q.Table)
	}
	switch q.Table {
	case "fdb":
		m, ok := moduleOf[*l2.Module](n.chain())
		if !ok {
			return nil, errors.New("this switch has no forwarding database: its graph has no stage l2")
		}
		cleared, err := n.flush(m, q)
		return &api.ClearResponse{Cleared: int64(cleared)}, err
	case "acl":
		m, ok := moduleOf[*acl.Module](n.chain())
		if !ok {
			return nil, errors.New("this switch has no access control list: its graph has no stage acl")
		}
		m.Clear()
		return &api.ClearResponse{Cleared: int64(len(m.Counters()))}, nil
	}
	return nil, fmt.Errorf("%q cannot be cleared: choose fdb or acl", q.Table)
}

func (n *Node) flush(m *l2.Module, q *api.ClearRequest) (int, error) {
	switch {
	case q.Port != "" && q.Vlan != 0 || q.Domain != "" && (q.Port != "" || q.Vlan != 0):
		return 0, errors.New("choose by port, by VLAN or by domain, not by two of them")
	case q.Domain != "":
		if cleared, ok := m.FlushDomain(q.Domain); ok {
			return cleared, nil
		}
		return 0, fmt.Errorf("there is no domain %q: weir ctl show fdb shows those with stations", q.Domain)
	case q.Vlan > 4094:
		return 0, fmt.Errorf("VLAN %d does not exist: choose 1 to 4094", q.Vlan)
	case q.Vlan != 0:
		return m.FlushVLAN(uint16(q.Vlan)), nil
	case q.Port == "":
		return m.Flush(), nil
	}
	names := n.portNames()
	if i := slices.Index(names, q.Port); i >= 0 {
		return m.FlushPort(uint16(i)), nil
	}
	return 0, fmt.Errorf("there is no port %q: choose among %s", q.Port, strings.Join(names, ", "))
}

// portNames returns the names of the ports by number, also of those that went.
func (n *Node) portNames() []string { return *n.names.Load() }
