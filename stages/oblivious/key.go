package oblivious

import (
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// keyer makes the key of a packet's flow, as configured.
type keyer struct {
	src, dst         bool
	transport        bool // ports and protocol
	prefix4, prefix6 int
	whole            bool // the 5-tuple with whole addresses
	family           hash.Family
}

func newKeyer(c *Config, family hash.Family) keyer {
	return keyer{
		family: family,
		src:    c.Key != "dst", dst: c.Key != "src", transport: c.Key == "5-tuple",
		prefix4: c.Prefix4, prefix6: c.Prefix6,
		whole: c.Key == "5-tuple" && c.Prefix4 == 32 && c.Prefix6 == 128,
	}
}

// write is key into memory of the caller.
func (k *keyer) write(out *packet.FlowKey, data []byte, p *packet.Packet) {
	if !k.whole {
		*out = k.key(data, p)
	} else if !p.WriteKey(out, data) {
		*out = packet.FlowKey{}
	}
}

// key returns the key of a parsed packet; the zero key for other than IP.
func (k *keyer) key(data []byte, p *packet.Packet) packet.FlowKey {
	full, ok := p.Key(data)
	if !ok {
		return packet.FlowKey{}
	}
	out := packet.FlowKey{Version: full.Version}
	bits := k.prefix6
	if full.Version == 4 {
		bits = k.prefix4
	}
	if k.src {
		out.Src = prefix(full.Src, bits)
	}
	if k.dst {
		out.Dst = prefix(full.Dst, bits)
	}
	if k.transport {
		out.SrcPort, out.DstPort, out.Proto = full.SrcPort, full.DstPort, full.Proto
	}
	return out
}

// prefix clears all but the first bits of an address.
func prefix(a [16]byte, bits int) [16]byte {
	whole := bits / 8
	if whole < len(a) {
		a[whole] &= ^(0xff >> (bits % 8))
		clear(a[whole+1:])
	}
	return a
}

// flowSeed is the member of the hash family that distinguishes flows. It is
// the same everywhere; the sampler hashes what comes out under its own seed.
const flowSeed = 0x666c_6f77

// flowID is the id of an IP packet's flow for the sample of flows: all 64 bits
// of a hash of its key, which needs not be made where it is the whole 5-tuple.
func (k *keyer) flowID(data []byte, p *packet.Packet) uint64 {
	switch {
	case !k.whole:
		key := k.key(data, p)
		return keyID(k.family, &key)
	case p.Flags.Has(packet.FlagIPv4):
		a, b := p.KeyWords4(data)
		if k.family == hash.XX { // inlined: most packets of most networks
			return hash.Uint64x2(flowSeed, a, b)
		}
		return k.family.Uint64x2(flowSeed, a, b)
	}
	a, b, c, d, e := p.KeyWords6(data)
	return k.family.Uint64x5(flowSeed, a, b, c, d, e)
}

// keyID is the same of a key.
func keyID(family hash.Family, k *packet.FlowKey) uint64 {
	w, n := k.Words()
	if n == 2 {
		return family.Uint64x2(flowSeed, w[0], w[1])
	}
	return family.Uint64x5(flowSeed, w[0], w[1], w[2], w[3], w[4])
}

// sampleKey is the same key as samples have it.
func sampleKey(k packet.FlowKey) oblivious.Key { return oblivious.Key(k) }
