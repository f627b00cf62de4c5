package transport

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Distribution is a distribution of flow sizes: linear between points.
type Distribution struct {
	bytes, share []float64 // share in 0..1, both without a decrease
}

// Workloads are the files of flow sizes, below the folder of shared data.
const (
	WebSearch = "WebSearch_distribution.txt" // Alizadeh et al., DCTCP
	Hadoop    = "FbHdp_distribution.txt"     // Roy et al., Facebook
)

// LoadDistribution reads a file of the folder flowsizes in data.
func LoadDistribution(data, name string) (*Distribution, error) {
	path := filepath.Join(data, "flowsizes", name)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("flow sizes: %w", err)
	}
	defer f.Close()
	d := &Distribution{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("flow sizes: %s:%d: %d words: want a size and a cumulative percentage", path, n, len(words))
		}
		size, err1 := strconv.ParseFloat(words[0], 64)
		percent, err2 := strconv.ParseFloat(words[1], 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("flow sizes: %s:%d: %q is no size and percentage", path, n, lines.Text())
		}
		d.bytes, d.share = append(d.bytes, size), append(d.share, percent/100)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("flow sizes: %s: %w", path, err)
	}
	if err := d.validate(); err != nil {
		return nil, fmt.Errorf("flow sizes: %s: %w", path, err)
	}
	return d, nil
}

func (d *Distribution) validate() error {
	n := len(d.bytes)
	switch {
	case n < 2 || n != len(d.share):
		return fmt.Errorf("%d sizes with %d shares: want as many, and two or more", n, len(d.share))
	case d.share[0] != 0 || d.share[n-1] != 1:
		return fmt.Errorf("shares from %v to %v: want 0 to 1", d.share[0], d.share[n-1])
	case !(d.bytes[0] >= 0) || !slices.IsSorted(d.bytes) || !slices.IsSorted(d.share) || d.bytes[n-1] < 1 || d.bytes[n-1] > 1<<40:
		return fmt.Errorf("sizes and shares must not decrease, and sizes lie in 0..2^40")
	case d.mean() < 1:
		return fmt.Errorf("a mean of %.3g bytes: want at least 1", d.mean())
	}
	return nil
}

// Quantile is the size that a share u of flows do not exceed, at least a byte.
func (d *Distribution) Quantile(u float64) float64 {
	i, _ := slices.BinarySearch(d.share, u)
	i = min(max(i, 1), len(d.share)-1)
	from, to := d.share[i-1], d.share[i]
	at := d.bytes[i]
	if to > from {
		at = d.bytes[i-1] + (d.bytes[i]-d.bytes[i-1])*(u-from)/(to-from)
	}
	return max(at, 1)
}

// mean is the mean size in bytes.
func (d *Distribution) mean() float64 {
	sum := 0.0
	for i := 1; i < len(d.bytes); i++ {
		sum += (d.bytes[i] + d.bytes[i-1]) / 2 * (d.share[i] - d.share[i-1])
	}
	return sum
}
