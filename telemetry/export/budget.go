package export

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/telemetry/record"
)

// ByteRate is bytes per second, written as "1MB/s", "250kB/s" or "40000B/s"; 0 is "none": no bound.
type ByteRate int64

// The units of a ByteRate, largest first.
var rateUnits = []struct {
	name  string
	bytes ByteRate
}{{"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1}}

// MarshalText implements encoding.TextMarshaler.
func (r ByteRate) MarshalText() ([]byte, error) {
	if r == 0 {
		return []byte("none"), nil
	}
	for _, u := range rateUnits {
		if r%u.bytes == 0 {
			return fmt.Appendf(nil, "%d%s", r/u.bytes, u.name), nil
		}
	}
	return nil, nil // the last unit is 1
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *ByteRate) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*r = 0
		return nil
	}
	for _, u := range rateUnits {
		number, ok := strings.CutSuffix(string(text), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(n >= 0) || n*float64(u.bytes) > math.MaxInt64/2 {
			break
		}
		*r = ByteRate(n * float64(u.bytes))
		return nil
	}
	return fmt.Errorf("%q is no rate: write it as \"1MB/s\", \"250kB/s\" or \"40000B/s\", or \"none\" for no bound", text)
}

// Shaper is a source that can send less than all that it measured, and says in its records what it left out, so that answers have
// wider bounds. Both methods are called by the goroutine that calls Collect, between two calls.
type Shaper interface {
	// Demand is how many bytes of records per second the source would emit if it left nothing out, by what it measured last, 0: nothing yet;
	// and how many of these tell what is useful, beyond which little is gained.
	Demand() (all, useful float64)
	// Shape has the source emit about so many at most, from its next records on; +Inf: all.
	Shape(bytesPerSecond float64)
}

// budget bounds what an exporter sends. It belongs to the goroutine that polls.
//
// Once a second it divides the rate among the shapers. What a sample or a sketch of n bytes answers errs by about 1/sqrt(n),
// so against the d bytes of all that is useful by sqrt(d/n) times as much, and the sum of these over the sources is least, for a given sum of
// bytes, where n is in proportion to the cube root of d. No source gets more than its d while another has less; what one leaves is the others'.
//
// What the sources send all the same beyond the rate, over burstSeconds, is dropped and counted: of a source that cannot be shaped,
// and of one whose traffic changes faster than it is shaped.
type budget struct {
	rate    float64 // bytes per second; 0: no bound
	shapers []Shaper
	due     int64   // ns: when the rate is divided again
	last    int64   // ns: when tokens were added
	tokens  float64 // bytes
	sent    float64 // bytes of all since the last division
	shaped  float64 // of these, of shapers
	fixed   float64 // bytes per second of sources that are not shaped, smoothed
}

const (
	divideEvery  = 1e9 // ns
	burstSeconds = 8
	leastBurst   = 4 << 20 // bytes: a record of each kind
	// Usable is the part of the rate that is divided; the rest is for headers, and for what differs from the last second.
	Usable = 0.9
	// smoothing is the weight of the last second in what is not shaped.
	smoothing = 0.3
)

// set changes the rate.
func (b *budget) set(rate ByteRate) {
	if b.rate == float64(rate) {
		return
	}
	b.rate, b.due = float64(rate), 0
	b.tokens = b.burst()
	each := math.Inf(1)
	if rate != 0 && len(b.shapers) > 0 {
		each = Usable * b.rate / float64(len(b.shapers)) // until something was measured
	}
	for _, s := range b.shapers {
		s.Shape(each)
	}
}

// join takes a source in. Until it has measured something it gets what one of so many would get.
func (b *budget) join(s Shaper) {
	b.shapers = append(b.shapers, s)
	if b.rate != 0 {
		s.Shape(Usable * b.rate / float64(len(b.shapers)))
	}
}

// leave leaves the rate to the others.
func (b *budget) leave(s Shaper) {
	b.shapers = slices.DeleteFunc(b.shapers, func(o Shaper) bool { return o == s })
}

func (b *budget) burst() float64 { return max(burstSeconds*b.rate, leastBurst) }

// tick divides the rate, if a second has passed.
func (b *budget) tick(now int64) {
	if b.rate == 0 {
		return
	}
	if b.last == 0 || now < b.last {
		b.last, b.due = now, now+divideEvery // the first call, or the clock was set back
	}
	b.tokens = min(b.tokens+b.rate*float64(now-b.last)/1e9, b.burst())
	if now >= b.due {
		seconds := float64(now-b.due+divideEvery) / 1e9
		b.fixed += smoothing * ((b.sent-b.shaped)/seconds - b.fixed)
		b.sent, b.shaped, b.due = 0, 0, now+divideEvery
		b.divide()
	}
	b.last = now
}

// divide gives each shaper its share.
func (b *budget) divide() {
	demands := make([]Demand, len(b.shapers))
	known := false
	for i, s := range b.shapers {
		demands[i].All, demands[i].Useful = s.Demand()
		known = known || demands[i].All > 0
	}
	if !known {
		return
	}
	for i, share := range Divide(max(Usable*b.rate-b.fixed, Usable*b.rate/10), demands) {
		if demands[i].All > 0 {
			b.shapers[i].Shape(share)
		}
	}
}

// Demand is what Shaper.Demand returns.
type Demand struct{ All, Useful float64 }

// Divide divides so many bytes among demands of bytes, in proportion to the cube roots of what is useful, and none gets more than
// that unless all do. What is left then is divided in proportion to what they do not have; if that is enough for all,
// +Inf is the share of each.
func Divide(bytes float64, demands []Demand) []float64 {
	shares := make([]float64, len(demands))
	open, all, useful := make([]int, 0, len(demands)), 0.0, 0.0
	for i, d := range demands {
		all += d.All
		if useful += d.Useful; d.Useful > 0 {
			open = append(open, i)
		}
	}
	switch {
	case all <= bytes:
		for i := range shares {
			shares[i] = math.Inf(1)
		}
		return shares
	case useful <= bytes:
		for i, d := range demands {
			shares[i] = d.Useful + (bytes-useful)*(d.All-d.Useful)/(all-useful)
		}
		return shares
	}
	for len(open) > 0 {
		roots := 0.0
		for _, i := range open {
			roots += math.Cbrt(demands[i].Useful)
		}
		rest, left := bytes, open[:0]
		for _, i := range open {
			if share := bytes * math.Cbrt(demands[i].Useful) / roots; share >= demands[i].Useful {
				shares[i] = demands[i].Useful
				rest -= demands[i].Useful
			} else {
				shares[i] = share
				left = append(left, i)
			}
		}
		if rest == bytes { // none is content
			break
		}
		open, bytes = left, rest
	}
	return shares
}

// take pays for a record; false: it is beyond the budget. What a switch says of itself always passes.
func (b *budget) take(k record.Kind, bytes int, shaper bool) bool {
	if b.rate == 0 {
		return true
	}
	if k != record.Status && b.tokens < float64(bytes) {
		return false
	}
	b.tokens = max(b.tokens-float64(bytes), 0)
	b.sent += float64(bytes)
	if shaper {
		b.shaped += float64(bytes)
	}
	return true
}
