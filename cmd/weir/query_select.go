package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/telemetry/query"
)

// querySelection is the flags that restrict a question to some flows.
type querySelection struct{ prefix, src, dst, proto, port string }

func (s *querySelection) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.prefix, "prefix", "", "only flows from or to addresses of this `PREFIX`")
	f.StringVar(&s.src, "src", "", "only flows from addresses of this `PREFIX`")
	f.StringVar(&s.dst, "dst", "", "only flows to addresses of this `PREFIX`")
	f.StringVar(&s.proto, "proto", "", "only flows of this `PROTOCOL`, as udp or 17")
	f.StringVar(&s.port, "port", "", "only flows from or to this port `NUMBER`")
}

// parse reads the flags, and reports all faults.
func (s *querySelection) parse() (*query.Selection, error) {
	out := &query.Selection{}
	var errs []error
	for _, p := range []struct {
		flag, text string
		to         *netip.Prefix
	}{{"prefix", s.prefix, &out.Prefix}, {"src", s.src, &out.Src}, {"dst", s.dst, &out.Dst}} {
		if p.text == "" {
			continue
		}
		var err error
		if *p.to, err = query.ParsePrefix(p.text); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", p.flag, err))
		}
	}
	if s.proto != "" {
		proto, err := query.ParseProto(s.proto)
		if err != nil {
			errs = append(errs, fmt.Errorf("--proto: %w", err))
		}
		out.Proto = &proto
	}
	if s.port != "" {
		n, err := strconv.ParseUint(s.port, 10, 16)
		if err != nil {
			errs = append(errs, fmt.Errorf("--port: %q is no number up to 65535", s.port))
		}
		port := uint16(n)
		out.Port = &port
	}
	return out, errors.Join(errs...)
}
