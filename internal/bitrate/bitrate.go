// Package bitrate reads rates as people write them: "10Gbps", "250 Mbit/s", "9600".
package bitrate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rate is in bits per second. As text it is a number and a unit, as in "100Mbps"; 0 is no rate.
type Rate uint64

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := Parse(string(text))
	if err == nil {
		*r = v
	}
	return err
}

// String writes a rate so that Parse reads it: "2.5Gbps".
func (r Rate) String() string {
	for _, u := range units {
		if v := float64(r) / u.factor; v >= 1 && u.factor > 1 {
			return strconv.FormatFloat(v, 'g', -1, 64) + u.name + "bps"
		}
	}
	return strconv.FormatUint(uint64(r), 10) + "bps"
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) {
	if r == 0 {
		return nil, nil
	}
	return []byte(r.String()), nil
}

var units = []struct {
	name   string
	factor float64
}{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}}

// Parse reads a rate: a number, and k, M, G or T with or without "bps", "bit/s", "bit" or "b/s" behind it. The case of k, M, G and T does not matter.
func Parse(text string) (Rate, error) {
	fail := func() (Rate, error) {
		return 0, fmt.Errorf("%q is not a rate: write bits per second, as in \"100Mbps\" or \"2.5Gbps\"", text)
	}
	rest := strings.ReplaceAll(text, " ", "")
	for _, unit := range []string{"bits/s", "bit/s", "bps", "b/s", "bit"} {
		if cut, ok := strings.CutSuffix(rest, unit); ok {
			rest = cut
			break
		}
	}
	factor := 1.0
	for _, u := range units[:4] {
		if n := len(rest) - 1; n >= 0 && strings.EqualFold(rest[n:], u.name) {
			rest, factor = rest[:n], u.factor
			break
		}
	}
	v, err := strconv.ParseFloat(rest, 64)
	if v *= factor; err != nil || !(v >= 0) || v > math.MaxInt64 {
		return fail()
	}
	return Rate(math.Round(v)), nil
}
