package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/telemetry/view/text"
)

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
		t, row := vrfTable(slices.ContainsFunc(r.Routes, func(x *api.Route) bool { return x.Vrf != "" }), "PREFIX", "KIND", "VIA", "PORT")
		for _, x := range r.Routes {
			kind := strings.TrimSpace(x.Kind + " " + x.Origin)
			if len(x.Hops) == 0 {
				row(x.Vrf, x.Prefix, kind, "-", x.Port)
			}
			for i := 0; i < len(x.Hops); {
				n := i + 1 // a gateway's units of weight are adjacent
				for n < len(x.Hops) && x.Hops[n].Address == x.Hops[i].Address && x.Hops[n].Port == x.Hops[i].Port {
					n++
				}
				via := x.Hops[i].Address
				if n-i > 1 {
					via += fmt.Sprintf(" (weight %d)", n-i)
				}
				row(x.Vrf, x.Prefix, kind, via, x.Hops[i].Port)
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
		t, row := vrfTable(slices.ContainsFunc(r.Neighbours, func(x *api.Neighbour) bool { return x.Vrf != "" }), "ADDRESS", "PORT", "MAC", "STATE", ">WAITING")
		for _, x := range r.Neighbours {
			mac := x.Mac
			if mac == "" {
				mac = "-"
			}
			row(x.Vrf, x.Address, x.Port, mac, x.State, x.Waiting)
		}
		return t.Write(w)
	}, nil
}

func askBonds(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Bonds(ctx, &api.BondsRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error {
		t := text.NewTable("BOND", "MODE", "MEMBER", "LINK", "ACTIVE", "MUX", "ACTOR", "PARTNER", "STATE")
		for _, b := range r.Bonds {
			for _, m := range b.Members {
				mux, actor, partner, state := "-", "-", "-", "-"
				if l := m.Lacp; l != nil {
					mux, actor = l.MuxMachine, l.ActorState
					if l.PartnerSystem != "" {
						partner, state = fmt.Sprintf("%s key %d port %d", l.PartnerSystem, l.PartnerKey, l.PartnerPort), l.PartnerState
					}
				}
				t.Row(b.Name, b.Mode, m.Name, upOrDown(m.Link), yesOrNo(m.Active), mux, actor, partner, state)
			}
		}
		return t.Write(w)
	}, nil
}

func upOrDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func askLldp(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Lldp(ctx, &api.LldpRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error {
		t := text.NewTable("PORT", "SYSTEM", "CHASSIS", "THEIR PORT", "CAPABILITIES", "MANAGEMENT", ">TTL", ">AGE")
		list := func(all []string) string { return cmp.Or(strings.Join(all, ","), "-") }
		for _, x := range r.Neighbours {
			t.Row(x.Port, cmp.Or(x.SystemName, "-"), x.Chassis, x.PortId, list(x.Capabilities), list(x.Management),
				time.Duration(x.TtlNs), time.Duration(x.AgeNs).Truncate(time.Second))
		}
		return t.Write(w)
	}, nil
}

func askGroups(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Groups(ctx, &api.GroupsRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error { return printGroups(w, r) }, nil
}

// printGroups shows what is known of VLANs, and what ports want of groups.
func printGroups(w io.Writer, r *api.GroupsResponse) error {
	in := func(vlan uint32, domain string) string {
		if vlan == 0 {
			return cmp.Or(domain, "-")
		}
		return fmt.Sprint(vlan)
	}
	list := func(all []string) string { return cmp.Or(strings.Join(all, ","), "-") }
	left := func(ns int64) time.Duration { return time.Duration(ns).Truncate(time.Second) }
	t := text.NewTable("VLAN", "PROTOCOL", "SNOOPED", "QUERIER", "AT", ">VERSION", ">LEFT", "ROUTERS", "ALL GROUPS")
	for _, v := range r.Vlans {
		t.Row(in(v.Vlan, v.Domain), v.Protocol, yesOrNo(v.Active), cmp.Or(v.Querier, "-"), cmp.Or(v.QuerierPort, "-"), v.Version, left(v.LeftNs), list(v.Routers), list(v.AllGroups))
	}
	if err := t.Write(w); err != nil || len(r.Memberships) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t = text.NewTable("VLAN", "GROUP", "PORT", "SOURCES", ">VERSION", ">LEFT")
	for _, m := range r.Memberships {
		sources := list(m.Sources)
		switch {
		case m.Exclude && len(m.Sources) == 0:
			sources = "all"
		case m.Exclude:
			sources = "all but " + sources
		}
		t.Row(in(m.Vlan, m.Domain), m.Group, m.Port, sources, m.Version, left(m.LeftNs))
	}
	return t.Write(w)
}

// vrfTable is a table whose first column is the VRF, if there are any. row adds a row to it.
func vrfTable(vrfs bool, columns ...string) (t *text.Table, row func(vrf string, cells ...any)) {
	if !vrfs {
		t = text.NewTable(columns...)
		return t, func(_ string, cells ...any) { t.Row(cells...) }
	}
	t = text.NewTable(append([]string{"VRF"}, columns...)...)
	return t, func(vrf string, cells ...any) { t.Row(append([]any{cmp.Or(vrf, "-")}, cells...)...) }
}
