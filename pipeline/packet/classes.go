package packet

// MaxClasses is how many classes an output port has at most.
const MaxClasses = 8

// noClass is the class of a DSCP that no class has named.
const noClass = 0xff

// Classifier chooses the class of a packet at an output port: by its DSCP (RFC 2474, section 3) if it is an IP packet whose DSCP
// was assigned, else by the priority of its outer VLAN tag (PCP, IEEE 802.1Q), which is 0 of a packet without. The
// zero value is of no use; NewClassifier makes one. It is not changed while packets flow.
type Classifier struct {
	dscp [64]uint8
	pcp  [8]uint8
}

// NewClassifier returns a classifier that gives each packet the same class, below MaxClasses.
func NewClassifier(class uint8) *Classifier {
	c := &Classifier{}
	for i := range c.dscp {
		c.dscp[i] = noClass
	}
	for i := range c.pcp {
		c.pcp[i] = class
	}
	return c
}

// DSCP gives packets with a DSCP, 0 to 63, a class below MaxClasses.
func (c *Classifier) DSCP(dscp int, class uint8) { c.dscp[dscp] = class }

// PCP gives other packets with a priority, 0 to 7, a class below MaxClasses.
func (c *Classifier) PCP(pcp int, class uint8) { c.pcp[pcp] = class }

// Class returns the class of a packet that the parser has seen, or that has no metadata. mem is the pool's memory.
func (c *Classifier) Class(mem []byte, p *Packet) uint8 {
	if p.Flags&FlagIP != 0 {
		// The traffic class is the second byte of IPv4, and of IPv6 what is behind the version's 4 bits.
		h := mem[p.Addr+uint64(p.L3):][:2]
		field := h[1]
		if p.Flags&FlagIPv6 != 0 {
			field = h[0]<<4 | h[1]>>4
		}
		if class := c.dscp[field>>2]; class != noClass {
			return class
		}
	}
	return c.pcp[p.VLAN>>13]
}

// Lines are what waits at an output port with classes, by class.
type Lines struct {
	*Classifier
	// Depth is how many frames wait in front of a packet that joins a class now: those of its class, and those that the device has
	// of all classes. Wait is how long it will wait for these, as far as what left of late says.
	Depth [MaxClasses]uint32
	Wait  [MaxClasses]Wait
	// Room is how many frames a class holds at most.
	Room [MaxClasses]uint32
}
