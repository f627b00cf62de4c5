package paper

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/telemetry/hash"
)

// delays gives packets their one-way delays. All are functions of the seed, so
// that nothing is stored per packet. Those of different packets are
// independent of each other, however close in time, but for queueing's.
type delays interface {
	// of returns the delay of a packet in nanoseconds, which is sent at a time.
	of(seed uint64, flow uint32, id uint64, timeNs int64) int64
	// String describes the model for the source of a row.
	String() string
}

// Members of the hash family in these measurements.
const (
	delayPairSeed = 0x6c64_0100 + iota
	delaySampleSeed
	delayQueueSeed
	ldsLossSeed
	ldsProbeSeed
	ldsSampleSeed
	ldsClassSeed
	ldsNetworkSeed
)

// measuredDelays draws from measured latencies: a flow is a pair of hosts, and
// each of its packets one of the round-trip times measured between them, halved.
type measuredDelays struct {
	pairs [][latencySlices]int64
}

const latencySlices = 9

func (m *measuredDelays) of(seed uint64, flow uint32, id uint64, _ int64) int64 {
	pair := hash.Reduce(hash.Uint64x2(seed, delayPairSeed, uint64(flow)), uint64(len(m.pairs)))
	return m.pairs[pair][hash.Reduce(hash.Uint64x2(seed, delaySampleSeed, id), latencySlices)]
}

func (m *measuredDelays) String() string {
	return fmt.Sprintf("delays: PlanetLab RTT / 2, a flow is one of %d pairs, a packet one of its %d samples", len(m.pairs), latencySlices)
}

// readDelays reads the slices of the PlanetLab matrix, which are in
// milliseconds, and keeps the pairs that have a sample in each.
func readDelays(o Options) (*measuredDelays, error) {
	dir := o.Data
	if dir == "" {
		dir = netsim.DataDir()
	}
	var all [][latencySlices]int64
	for s := range latencySlices {
		file := filepath.Join(dir, "latency", fmt.Sprintf("PlanetLabData_%d.txt.gz", s+1))
		values, err := readMatrix(file)
		if err != nil {
			return nil, fmt.Errorf("measured latencies: %w; set WEIR_SHARED to the folder of the shared data", err)
		}
		if s == 0 {
			all = make([][latencySlices]int64, len(values))
		}
		if len(values) != len(all) {
			return nil, fmt.Errorf("measured latencies: %s has %d values, the first slice %d", file, len(values), len(all))
		}
		for i, ms := range values {
			all[i][s] = int64(ms * 1e6 / 2)
		}
	}
	m := &measuredDelays{}
	for _, pair := range all {
		whole := true
		for _, ns := range pair {
			whole = whole && ns > 0
		}
		if whole {
			m.pairs = append(m.pairs, pair)
		}
	}
	if len(m.pairs) == 0 {
		return nil, fmt.Errorf("measured latencies: no pair has a sample in all of %d slices", latencySlices)
	}
	return m, nil
}

// readMatrix reads numbers separated by white space from a compressed file.
func readMatrix(file string) ([]float64, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var values []float64
	words := bufio.NewScanner(z)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		v, err := strconv.ParseFloat(words.Text(), 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		values = append(values, v)
	}
	return values, words.Err()
}
