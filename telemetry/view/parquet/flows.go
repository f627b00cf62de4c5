package parquet

import (
	"github.com/weirswitch/weir/telemetry/query"
)

// flowColumns are a flow and the parts of its key; null: the key does not have the part.
type flowColumns struct {
	Flow      string  `parquet:"flow"`
	IPVersion *uint32 `parquet:"ip_version,optional"`
	Src       *string `parquet:"src,optional"`
	Dst       *string `parquet:"dst,optional"`
	SrcPort   *uint32 `parquet:"src_port,optional"`
	DstPort   *uint32 `parquet:"dst_port,optional"`
	Proto     *uint32 `parquet:"proto,optional"`
}

func columnsOf(k query.Key) flowColumns {
	c := flowColumns{Flow: query.FormatKey(k)}
	if k.Version == 0 {
		return c
	}
	version, src, dst := uint32(k.Version), k.SrcAddr().String(), k.DstAddr().String()
	c.IPVersion, c.Src, c.Dst = &version, &src, &dst
	if k.Proto != 0 || k.SrcPort != 0 || k.DstPort != 0 {
		srcPort, dstPort, proto := uint32(k.SrcPort), uint32(k.DstPort), uint32(k.Proto)
		c.SrcPort, c.DstPort, c.Proto = &srcPort, &dstPort, &proto
	}
	return c
}

// columnsOfText are those of a flow that an answer names by its text alone.
func columnsOfText(flow string) flowColumns {
	k, err := query.ParseKey(flow)
	if err != nil {
		return flowColumns{Flow: flow} // not IP
	}
	c := columnsOf(k)
	c.Flow = flow
	return c
}
