package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirswitch/weir/dataplane/lab/relay"
)

// Relay is a namespace in which a process passes packets from one port to the other, late, and not all of them.
type Relay struct {
	Name string `toml:"name"`
	// Seed of the packets' delays and losses.
	Seed uint64 `toml:"seed"`
	// Classes of packets by destination port; those of none pass at once.
	Classes []relay.Class `toml:"class"`

	line int // of its table in the file, or of the link's

	// Of a relay that stands for a link with a delay, jitter, loss or rate, which the file does not have.
	link *Link
	rest *relay.Class
	rate uint64
}

// title describes the relay in a drawing.
func (r *Relay) title() string {
	if r.link == nil {
		return "relay"
	}
	var words []string
	if r.link.Delay != 0 {
		words = append(words, r.link.Delay.String())
	}
	if r.link.Jitter != 0 {
		words = append(words, "+-"+r.link.Jitter.String())
	}
	if r.link.Loss != 0 {
		words = append(words, fmt.Sprintf("loss %.4g %%", 100*r.link.Loss))
	}
	if r.link.Rate != 0 {
		words = append(words, r.link.Rate.String())
	}
	return strings.Join(words, " ")
}

// RelayCommand is the command of this program that runs a relay.
const RelayCommand = "lab-relay"

// RunRelay runs a relay by the contract of `weir switch -c FILE --report json`: it calls ready once, relays until ctx
// ends, and writes its report to out.
func RunRelay(ctx context.Context, file string, ready func() error, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	c := &relay.Config{}
	if err := json.Unmarshal(text, c); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var readyErr error
	report, err := relay.Run(ctx, c, func() { readyErr = ready() })
	if err == nil {
		err = readyErr
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(report)
}

// relayTruthName is the name of the file in which a relay leaves a [relay.Truth].
func relayTruthName(name string) string { return "relay-" + name + ".json" }

func (c *Config) validateRelays(f *faults) {
	for i := range c.Relays {
		r := &c.Relays[i]
		if n := len(c.portEnds(r.Name)); n != 2 {
			f.add("relay[%d]: %q has %d cables: give it two", i, r.Name, n)
		}
		for j := range r.Classes {
			if err := r.Classes[j].Validate(); err != nil {
				f.add("relay[%d].class[%d].%w", i, j, err)
			}
		}
	}
}

// jitters reports whether a relay may let packets overtake each other, and drops whether one may lose them.
func (c *Config) relaysChange() (jitters, drops bool) {
	for _, r := range c.Relays {
		for _, class := range r.Classes {
			jitters = jitters || class.Jitter > 0
			drops = drops || class.Drop > 0
		}
		if r.rest != nil {
			jitters = jitters || r.rest.Jitter > 0
			drops = drops || r.rest.Drop > 0 || r.rate > 0
		}
	}
	return jitters, drops
}

// startRelays starts all relays, which are ready before any switch is.
func (l *Lab) startRelays() error {
	for i := range l.config.Relays {
		r := &l.config.Relays[i]
		truth := filepath.Join(l.dir.path, relayTruthName(r.Name))
		if l.records != "" {
			truth = filepath.Join(l.records, relayTruthName(r.Name))
		}
		config := relay.Config{Name: r.Name, Seed: r.Seed, Classes: r.Classes, Rest: r.rest, RateBits: r.rate, Truth: truth}
		for _, end := range l.config.portEnds(r.Name) {
			config.Ports = append(config.Ports, end.name)
			if err := l.spaces[r.Name].SeparateFrames(end.name); err != nil {
				return err
			}
		}
		if err := writeJSON(configPath(l.dir.path, r.Name), config); err != nil {
			return err
		}
		p, err := startSwitch(l.spaces[r.Name], []string{"/proc/self/exe", RelayCommand}, l.dir.path, r.Name)
		if err != nil {
			return err
		}
		l.switches[r.Name] = p
		l.node(r.Name).Process = p.id
		if err := l.dir.save(l.state); err != nil {
			return err
		}
	}
	return nil
}

// relayTruths reads what the relays did, once they have ended.
func (l *Lab) relayTruths() (truths []relay.Truth, err error) {
	folder := l.dir.path
	if l.records != "" {
		folder = l.records
	}
	for _, r := range l.config.Relays {
		text, readErr := os.ReadFile(filepath.Join(folder, relayTruthName(r.Name)))
		var t relay.Truth
		if readErr == nil {
			readErr = json.Unmarshal(text, &t)
		}
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("read what relay %s did: %w", r.Name, readErr))
			continue
		}
		truths = append(truths, t)
	}
	return truths, err
}

// checkRelays holds what the loads lost against what the relays dropped.
func (a *Account) checkRelays(c *Config, results []Result, truths []relay.Truth) {
	if len(c.Relays) == 0 {
		return
	}
	lost, dropped := uint64(0), uint64(0)
	for i := range results {
		lost += results[i].Lost
	}
	links := slices.ContainsFunc(c.Relays, func(r Relay) bool { return r.link != nil })
	for i := range truths {
		dropped += truths[i].Dropped
	}
	if links {
		// A link drops what is of no load, too, and segments that TCP sends again.
		dropped += a.atCuts
		a.Checks = append(a.Checks, Check{
			What: "lost by the loads <= dropped by the links", Left: lost, Right: dropped, Terms: fmt.Sprint(dropped), AtMost: true, OK: lost <= dropped,
		})
		return
	}
	a.Checks = append(a.Checks, Check{
		What: "lost by the loads = dropped by the relays", Left: lost, Right: dropped, Terms: fmt.Sprint(dropped), OK: lost == dropped,
	})
}
