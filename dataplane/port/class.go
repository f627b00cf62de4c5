package port

import (
	"strconv"
	"strings"

	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Class is a class of the packets that leave by a port, [[port.class]]. Packets of a class leave in their order.
type Class struct {
	// Name is the name of the class in metrics, unique at the port.
	Name string `toml:"name"`
	// DSCP are the code points of its IP packets, 0 to 63 each, or by name: "cs0" to "cs7", "af11" to "af43", "ef", "va", "le".
	DSCP []string `toml:"dscp"`
	// PCP are the priorities, 0 to 7, of its other packets, in the outer VLAN tag with which they leave, or of the one that was taken off.
	// Packets without have 0.
	PCP []int `toml:"pcp"`
	// Default has what is in no other class; without one, it is the last class that is listed.
	Default bool `toml:"default"`
	// Weight, 1 to 1000, is the share in bytes of what is left by strict classes, beside the other classes with weights. 0: the class
	// is strict. It goes before all that are listed after it, and before all with weights.
	Weight int `toml:"weight"`
	// RateBits bounds what the class sends, in bits per second of packets without FCS, shared by the port's queues; 0 is no bound.
	RateBits int64 `toml:"rate_bits"`
	// QueuePackets is how many packets of the class wait in each queue of the port, 1 to 65536; 0 is the port's queue_packets or, if
	// that is 0 too, 256. A packet of several frames counts for as many.
	QueuePackets int `toml:"queue_packets"`
	// QueueBytes bounds the bytes of these, too; 0 is no other bound.
	QueueBytes int64 `toml:"queue_bytes"`
}

const (
	maxWeight    = 1000
	classPackets = 256
)

// classPackets is how many packets of the i-th class wait.
func (c *Config) classPackets(i int) int {
	for _, n := range []int{c.Classes[i].QueuePackets, c.QueuePackets} {
		if n > 0 {
			return n
		}
	}
	return classPackets
}

// codePoints are the names of DSCPs: class selectors (RFC 2474), assured forwarding (RFC 2597), expedited forwarding (RFC 3246),
// voice admit (RFC 5865) and lower effort (RFC 8622).
var codePoints = func() map[string]int {
	names := map[string]int{"ef": 46, "va": 44, "le": 1}
	for n := range 8 {
		names["cs"+strconv.Itoa(n)] = 8 * n
	}
	for class := 1; class <= 4; class++ {
		for drop := 1; drop <= 3; drop++ {
			names["af"+strconv.Itoa(class)+strconv.Itoa(drop)] = 8*class + 2*drop
		}
	}
	return names
}()

func parseDSCP(word string) (dscp int, ok bool) {
	if dscp, ok = codePoints[strings.ToLower(word)]; ok {
		return dscp, true
	}
	dscp, err := strconv.Atoi(word)
	return dscp, err == nil && dscp >= 0 && dscp < 64
}

// validateClasses reports the faults of the classes of a port that may have some.
func (c *Config) validateClasses(fault func(string, ...any)) {
	if len(c.Classes) > packet.MaxClasses {
		fault("class: %d of them: a port has up to %d", len(c.Classes), packet.MaxClasses)
		return
	}
	names, dscps, pcps, defaults := map[string]int{}, map[int]int{}, map[int]int{}, -1
	for i := range c.Classes {
		k := &c.Classes[i]
		at := func(key, format string, args ...any) {
			fault("class[%d]."+key+": "+format, append([]any{i}, args...)...)
		}
		if !printable.IsName(k.Name) {
			at("name", "%q is not a name: use 1 to 32 letters, digits, '.', '_' and '-'", k.Name)
		} else if j, ok := names[k.Name]; ok {
			at("name", "class[%d] is called %q already: choose another name", j, k.Name)
		}
		names[k.Name] = i
		for _, word := range k.DSCP {
			dscp, ok := parseDSCP(word)
			if !ok {
				at("dscp", "%q is no code point: write 0 to 63, or a name as \"ef\", \"cs5\" or \"af41\"", word)
				continue
			}
			if j, twice := dscps[dscp]; twice {
				at("dscp", "class[%d] has %q already: a code point is of one class", j, word)
			}
			dscps[dscp] = i
		}
		for _, pcp := range k.PCP {
			if pcp < 0 || pcp > 7 {
				at("pcp", "%d is no priority: choose 0 to 7", pcp)
				continue
			}
			if j, twice := pcps[pcp]; twice {
				at("pcp", "class[%d] has %d already: a priority is of one class", j, pcp)
			}
			pcps[pcp] = i
		}
		if k.Default && defaults >= 0 {
			at("default", "class[%d] has what is in no other already: one class has", defaults)
		} else if k.Default {
			defaults = i
		}
		if k.Weight < 0 || k.Weight > maxWeight {
			at("weight", "%d: choose 1 to %d, or 0 for a strict class", k.Weight, maxWeight)
		}
		if k.RateBits != 0 && (k.RateBits < minRate || k.RateBits > maxRate) {
			at("rate_bits", "%d: choose %d to %d bits per second, or 0 for no bound", k.RateBits, minRate, int64(maxRate))
		}
		if k.QueuePackets < 0 || k.QueuePackets > maxQueuePackets {
			at("queue_packets", "%d: choose 1 to %d, or 0 for the port's", k.QueuePackets, maxQueuePackets)
		}
		if k.QueueBytes < 0 || k.QueueBytes != 0 && k.QueueBytes < minQueueBytes {
			at("queue_bytes", "%d: choose %d or more, or 0 for no other bound than queue_packets", k.QueueBytes, minQueueBytes)
		}
	}
}

// minQueueBytes has room for two packets, of the usual MTU: with less nothing would leave while another one waits.
const minQueueBytes = 3036
