package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/stages/acl"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// Acl implements control.Switch.
func (s *liveSwitch) Acl() (*api.AclResponse, bool) {
	m, ok := moduleOf[*acl.Module](s.chain)
	if !ok {
		return nil, false
	}
	// A change between the two would give rules the counts of others.
	s.changing.Lock()
	rules, counts := m.Config().Rules, m.Counters()
	s.changing.Unlock()
	r := &api.AclResponse{}
	for i, c := range counts {
		rule := &api.AclRule{Name: c.Name, Action: c.Action, Packets: c.Packets, Bytes: c.Bytes}
		if i < len(rules) {
			rule.Match = matchText(&rules[i])
		}
		r.Rules = append(r.Rules, rule)
	}
	return r, true
}

// matchText is what a rule matches, as in the configuration.
func matchText(r *acl.Rule) string {
	var parts []string
	if len(r.InPorts) != 0 {
		parts = append(parts, fmt.Sprintf("in_ports = %q", r.InPorts))
	}
	for _, f := range [][2]string{
		{"src_mac", r.SrcMAC}, {"dst_mac", r.DstMAC}, {"vlan", r.VLAN}, {"ethertype", r.EtherType}, {"src", r.Src}, {"dst", r.Dst},
		{"protocol", r.Protocol}, {"src_port", r.SrcPort}, {"dst_port", r.DstPort}, {"tcp_flags", r.TCPFlags},
	} {
		if f[1] != "" {
			parts = append(parts, fmt.Sprintf("%s = %q", f[0], f[1]))
		}
	}
	return strings.Join(parts, ", ")
}

// Routes implements control.Switch.
func (s *liveSwitch) Routes() (*api.RoutesResponse, bool) {
	m, ok := moduleOf[*l3.Module](s.chain)
	if !ok {
		return nil, false
	}
	names := s.portNames()
	r := &api.RoutesResponse{}
	for _, e := range m.Routes() {
		route := &api.Route{Prefix: e.Prefix.String(), Kind: e.Kind}
		for _, h := range e.Hops {
			route.Hops = append(route.Hops, &api.Hop{Address: h.Address.String(), Port: names[h.Port]})
		}
		if len(e.Hops) == 0 {
			route.Port = names[e.Port]
		}
		r.Routes = append(r.Routes, route)
	}
	return r, true
}

// Neighbours implements control.Switch.
func (s *liveSwitch) Neighbours() (*api.NeighboursResponse, bool) {
	m, ok := moduleOf[*l3.Module](s.chain)
	if !ok {
		return nil, false
	}
	names := s.portNames()
	r := &api.NeighboursResponse{}
	for _, e := range m.Neighbours() {
		r.Neighbours = append(r.Neighbours, &api.Neighbour{
			Address: e.Address.String(), Port: names[e.Port], Mac: e.MAC, State: e.State, Waiting: int64(e.Waiting),
		})
	}
	return r, true
}

func askAcl(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Acl(ctx, &api.AclRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error {
		t := text.NewTable(">RULE", "NAME", "ACTION", "MATCH", ">PACKETS", ">BYTES")
		for i, x := range r.Rules {
			number, match := fmt.Sprint(i+1), x.Match
			if i == len(r.Rules)-1 {
				number, match = "-", "what no rule decides"
			} else if match == "" {
				match = "everything"
			}
			t.Row(number, x.Name, x.Action, match, x.Packets, x.Bytes)
		}
		return t.Write(w)
	}, nil
}

func askRoutes(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Routes(ctx, &api.RoutesRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error {
		t := text.NewTable("PREFIX", "KIND", "VIA", "PORT")
		for _, x := range r.Routes {
			if len(x.Hops) == 0 {
				t.Row(x.Prefix, x.Kind, "-", x.Port)
			}
			for i := 0; i < len(x.Hops); {
				n := i + 1 // a gateway's units of weight stand side by side
				for n < len(x.Hops) && x.Hops[n].Address == x.Hops[i].Address && x.Hops[n].Port == x.Hops[i].Port {
					n++
				}
				via := x.Hops[i].Address
				if n-i > 1 {
					via += fmt.Sprintf(" (weight %d)", n-i)
				}
				t.Row(x.Prefix, x.Kind, via, x.Hops[i].Port)
				i = n
			}
		}
		return t.Write(w)
	}, nil
}

func askNeighbours(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Neighbours(ctx, &api.NeighboursRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error {
		t := text.NewTable("ADDRESS", "PORT", "MAC", "STATE", ">WAITING")
		for _, x := range r.Neighbours {
			mac := x.Mac
			if mac == "" {
				mac = "-"
			}
			t.Row(x.Address, x.Port, mac, x.State, x.Waiting)
		}
		return t.Write(w)
	}, nil
}
