package mirror

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/weirswitch/weir/pipeline"
)

// The directions of a session.
const (
	In   = "in"   // packets that arrived at the ports
	Out  = "out"  // packets that leave by the ports
	Both = "both" // either; a packet between two of the ports is mirrored once
)

// minTruncate keeps the Ethernet header of a copy whole.
const minTruncate = 14

// maxTruncate is more than any packet has.
const maxTruncate = 1 << 20

// Config is the stage's section of the configuration, [stages.mirror].
type Config struct {
	Sessions []Session `toml:"session"`
}

// Session says what is copied where, [[stages.mirror.session]].
type Session struct {
	// Name is shown with the counters; default: the session's number, from 1.
	Name string `toml:"name"`
	// Ports are watched, with the VLAN subinterfaces on them; Direction is "in", "out" or "both", which is the default.
	Ports     []string `toml:"ports"`
	Direction string   `toml:"direction"`
	// To is the port that the copies leave by. It is none of Ports.
	To string `toml:"to"`
	// TruncateBytes cuts the copies to this length; 0: not.
	TruncateBytes int `toml:"truncate_bytes"`
	// OneIn mirrors every packet whose draw is one in so many; 0 and 1: all.
	OneIn int `toml:"one_in"`
}

// DefaultConfig mirrors nothing.
func DefaultConfig() Config { return Config{} }

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. Each begins with the key inside the stage's section.
func (c *Config) Validate(ports []string) error {
	_, err := c.compile(ports)
	return err
}

// session is a Session in numbers.
type session struct {
	name     string
	in, out  []bool // by port
	to       uint16
	truncate uint32 // 0: not
	below    uint32 // a 32-bit draw below it mirrors; 0: every packet is
	slot     int    // of its counters in every stage
}

func (c *Config) compile(ports []string) ([]session, error) {
	var errs []error
	var sessions []session
	names := map[string]int{}
	if len(c.Sessions) > MaxSessions {
		errs = append(errs, fmt.Errorf("session: %d sessions: %d at most", len(c.Sessions), MaxSessions))
	}
	for i := range c.Sessions {
		s := &c.Sessions[i]
		out := session{name: s.Name, in: make([]bool, len(ports)), out: make([]bool, len(ports)), truncate: uint32(s.TruncateBytes)}
		fail := func(key, format string, args ...any) {
			errs = append(errs, fmt.Errorf("session[%d]."+key+": "+format, append([]any{i}, args...)...))
		}
		if out.name == "" {
			out.name = strconv.Itoa(i + 1)
		}
		if before, ok := names[out.name]; ok {
			fail("name", "session[%d] is called %q already: choose another name", before, out.name)
		}
		names[out.name] = i
		if s.Direction != "" && s.Direction != In && s.Direction != Out && s.Direction != Both {
			fail("direction", "%q: choose %q, %q or %q", s.Direction, In, Out, Both)
		}
		if len(s.Ports) == 0 {
			fail("ports", "is missing: name the ports to watch")
		}
		for _, name := range s.Ports {
			p := slices.Index(ports, name)
			if p < 0 {
				fail("ports", "%w", pipeline.UndefinedPort(name))
				continue
			}
			out.in[p] = s.Direction != Out
			out.out[p] = s.Direction != In
		}
		to := slices.Index(ports, s.To)
		out.to = uint16(to)
		switch {
		case to < 0:
			fail("to", "%w", pipeline.UndefinedPort(s.To))
		case slices.Contains(s.Ports, s.To):
			fail("to", "port %q is watched itself: name another port", s.To)
		}
		if s.TruncateBytes != 0 && (s.TruncateBytes < minTruncate || s.TruncateBytes > maxTruncate) {
			fail("truncate_bytes", "%d: choose 0 for whole packets, or %d to %d", s.TruncateBytes, minTruncate, maxTruncate)
		}
		if s.OneIn < 0 || s.OneIn > 1<<24 {
			fail("one_in", "%d: choose 1 to %d, or 0 for every packet", s.OneIn, 1<<24)
		} else if s.OneIn > 1 {
			out.below = uint32(1<<32/uint64(s.OneIn)) + 1
		}
		sessions = append(sessions, out)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return sessions, nil
}
