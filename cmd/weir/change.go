package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/acl"
	"github.com/weirswitch/weir/stages/l2"
)

// inForce is a configuration and its text. It never changes.
type inForce struct {
	config *config.Config
	text   string
}

func newInForce(c *config.Config) (*inForce, error) {
	var text strings.Builder
	if err := c.Dump(&text); err != nil {
		return nil, err
	}
	return &inForce{c, text.String()}, nil
}

// Reload implements control.Switch.
func (s *liveSwitch) Reload(q *api.ReloadRequest) (*api.ChangeResponse, error) {
	return s.change(func(*config.Config) (*config.Config, error) {
		if q.Toml == "" {
			return config.Load(s.file)
		}
		c, err := config.Parse([]byte(q.Toml))
		if err != nil && q.File != "" {
			err = inFile(q.File, err)
		}
		return c, err
	})
}

// inFile names the client's file in the faults of its text.
func inFile(file string, err error) error {
	var named []error
	for _, e := range unjoin(err) {
		var fault config.Fault
		if errors.As(e, &fault) {
			fault.File = file
			e = fault
		}
		named = append(named, e)
	}
	return errors.Join(named...)
}

// Set implements control.Switch.
func (s *liveSwitch) Set(q *api.SetRequest) (*api.ChangeResponse, error) {
	return s.change(func(c *config.Config) (*config.Config, error) {
		return c.Edited(config.Edit{Stage: q.Stage, List: q.List, Remove: q.Remove, At: int(q.At), Fields: q.Fields, Match: q.Match})
	})
}

// change puts the configuration that next makes of the present one into force, or
// refuses it whole.
func (s *liveSwitch) change(next func(*config.Config) (*config.Config, error)) (*api.ChangeResponse, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	old := s.inForce.Load().config
	c, err := next(old)
	if err != nil {
		return nil, err
	}
	force, err := newInForce(c)
	if err != nil {
		return nil, err
	}
	if err := checkSending(c.Telemetry); err != nil {
		return nil, err
	}
	ports := &portChange{s: s, old: old, next: c}
	changes, commit, err := config.Prepare(old, c, s.chain, ports.open)
	if err == nil {
		err = ports.configure()
	}
	if err != nil {
		return nil, errors.Join(err, ports.abort())
	}
	ports.install()
	commit()
	ports.finish()
	if level, err := zapcore.ParseLevel(c.Log.Level); err == nil && level != s.level.Level() {
		s.level.SetLevel(level)
	}
	if !reflect.DeepEqual(old.Telemetry, c.Telemetry) {
		if err := s.export.send(c.Telemetry); err != nil {
			s.log.Error("records are not sent", zap.Error(err))
		}
	}
	s.inForce.Store(force)
	r := &api.ChangeResponse{}
	for _, x := range changes {
		r.Changes = append(r.Changes, &api.Change{Key: x.Key, Old: x.Old, New: x.New})
	}
	return r, nil
}

// reloadOnSignal makes SIGHUP do what "weir ctl reload" does.
func (s *liveSwitch) reloadOnSignal() (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range hangups {
			r, err := s.Reload(&api.ReloadRequest{})
			if err != nil {
				s.log.Error("the configuration stays as it is", zap.Error(err))
			}
			if server := s.server.Load(); server != nil {
				server.Changed("SIGHUP", r, err)
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-ended
	}
}

// Clear implements control.Switch.
func (s *liveSwitch) Clear(q *api.ClearRequest) (*api.ClearResponse, error) {
	if q.Table != "fdb" && (q.Port != "" || q.Vlan != 0) {
		return nil, fmt.Errorf("%s has neither ports nor VLANs to choose by: leave them out", q.Table)
	}
	switch q.Table {
	case "fdb":
		m, ok := moduleOf[*l2.Module](s.chain)
		if !ok {
			return nil, errors.New("this switch has no forwarding database: its graph has no stage l2")
		}
		n, err := s.flush(m, q)
		return &api.ClearResponse{Cleared: int64(n)}, err
	case "acl":
		m, ok := moduleOf[*acl.Module](s.chain)
		if !ok {
			return nil, errors.New("this switch has no access control list: its graph has no stage acl")
		}
		m.Clear()
		return &api.ClearResponse{Cleared: int64(len(m.Counters()))}, nil
	}
	return nil, fmt.Errorf("%q cannot be cleared: choose fdb or acl", q.Table)
}

func (s *liveSwitch) flush(m *l2.Module, q *api.ClearRequest) (int, error) {
	switch {
	case q.Port != "" && q.Vlan != 0:
		return 0, errors.New("choose by port or by VLAN, not by both")
	case q.Vlan > 4094:
		return 0, fmt.Errorf("VLAN %d does not exist: choose 1 to 4094", q.Vlan)
	case q.Vlan != 0:
		return m.FlushVLAN(uint16(q.Vlan)), nil
	case q.Port == "":
		return m.Flush(), nil
	}
	names := s.portNames()
	if i := slices.Index(names, q.Port); i >= 0 {
		return m.FlushPort(uint16(i)), nil
	}
	return 0, fmt.Errorf("there is no port %q: choose among %s", q.Port, strings.Join(names, ", "))
}

// portNames returns the names of the ports by number, also of those that went.
func (s *liveSwitch) portNames() []string { return *s.names.Load() }

// moduleOf finds the module of a type in a graph.
func moduleOf[M pipeline.Module](chain []pipeline.Named) (m M, ok bool) {
	for _, n := range chain {
		if m, ok := n.Module.(M); ok {
			return m, true
		}
	}
	return m, false
}
