package port

import (
	"fmt"
	"strings"
)

// room is how many bytes of a packet a frame holds.
func room(frameSize int) int { return frameSize - Headroom }

// CheckMTU refuses an MTU whose packets exceed what the port of a configuration can take with frames of a size.
func CheckMTU(c *Config, mtu, frameSize int) error {
	room := room(frameSize)
	if mtu+ethernetOverhead <= room || c.Driver == DriverXSK && c.Jumbo {
		return nil
	}
	is := "is"
	if c.Driver == DriverTap {
		is = "is to be"
	}
	return fmt.Errorf("the MTU of %s %s %d, but a frame holds a packet of %d bytes: %s", c.Interface, is, mtu, room, remedyMTU(c.Driver, mtu, room, "mtu = %d"))
}

// cutsMTU is Info.Error of a port whose MTU was set beyond what its frames hold, while it ran.
func cutsMTU(driver string, mtu, room int) string {
	return fmt.Sprintf("the MTU was set to %d, but a frame holds a packet of %d bytes: longer ones are dropped; %s", mtu, room, remedyMTU(driver, mtu, room, "the MTU to %d"))
}

// remedyMTU names what makes room for an MTU, larger frames only where they do. ofTap is how the MTU of a TAP interface is set.
func remedyMTU(driver string, mtu, room int, ofTap string) string {
	var ways []string
	if driver == DriverXSK {
		ways = append(ways, "jumbo = true")
	}
	if most := largeFrame - Headroom; room < most && mtu+ethernetOverhead <= most {
		ways = append(ways, fmt.Sprintf("dataplane.frame_size = %d", largeFrame))
	}
	lower := "the MTU to %d"
	if driver == DriverTap {
		lower = ofTap
	}
	ways = append(ways, fmt.Sprintf(lower, room-ethernetOverhead))
	if last := len(ways) - 1; last > 0 {
		return "set " + strings.Join(ways[:last], ", ") + " or " + ways[last]
	}
	return "set " + ways[0]
}
