package nic

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// RSS is how a device spreads packets over its receive queues.
type RSS struct {
	// Spread is the indirection table: "equal 4", or the queues of the hash values with how many follow
	// each other, as in "0*64 1*64".
	Spread string `json:"spread"`
	// Size is the table's, in entries; 0: the device has no table.
	Size int `json:"size"`
	// Function is the hash: "toeplitz", "xor", "crc32", or a number.
	Function string `json:"function"`
	Key      string `json:"key"` // hexadecimal
	// Transform is what the device does with a packet's fields before it hashes them:
	// "none", "symmetric-xor" or "symmetric-or-xor".
	Transform string `json:"transform"`
}

// rxfh is struct ethtool_rxfh: six words, then the table, then the key.
const rxfhWords = 6

const (
	noChange          = ^uint32(0) // ETH_RXFH_INDIR_NO_CHANGE
	transformNoChange = 0xff       // RXH_XFRM_NO_CHANGE, Linux 6.8
	functionToeplitz  = 1 << 0     // ETH_RSS_HASH_TOP
)

// The names of hash functions and of transforms by their numbers.
var (
	functions  = map[byte]string{functionToeplitz: "toeplitz", 1 << 1: "xor", 1 << 2: "crc32"}
	transforms = map[byte]string{0: "none", 1: symmetricXOR, 2: "symmetric-or-xor"}
)

// symmetricXOR is RXH_XFRM_SYM_XOR: both directions of a flow get the same hash value.
const symmetricXOR = "symmetric-xor"

// hashing is what the device does now, in numbers.
type hashing struct {
	table     []uint32
	key       []byte
	function  byte
	transform byte
}

// hashing reads it (ETHTOOL_GRSSH); the first call returns the lengths.
func (e ethtool) hashing(name string) (hashing, error) {
	request := make([]uint32, rxfhWords)
	request[0] = unix.ETHTOOL_GRSSH
	if err := e.words(name, request); err != nil {
		return hashing{}, err
	}
	entries, keyLength := request[2], request[3]
	request = make([]uint32, rxfhWords+entries+(keyLength+3)/4)
	request[0], request[2], request[3] = unix.ETHTOOL_GRSSH, entries, keyLength
	if err := e.words(name, request); err != nil {
		return hashing{}, err
	}
	flags := binary.NativeEndian.AppendUint32(nil, request[4])
	h := hashing{table: request[rxfhWords : rxfhWords+entries], function: flags[0], transform: flags[1]}
	for _, w := range request[rxfhWords+entries:] {
		h.key = binary.NativeEndian.AppendUint32(h.key, w)
	}
	h.key = h.key[:keyLength]
	return h, nil
}

// setHashing sets the table, unless entries is noChange, and the key unless it is empty (ETHTOOL_SRSSH). With 0 entries
// the driver makes its own table.
func (e ethtool) setHashing(name string, entries uint32, table []uint32, key []byte, transform byte) error {
	request := make([]uint32, rxfhWords, rxfhWords+len(table)+(len(key)+3)/4)
	request[0], request[2], request[3] = unix.ETHTOOL_SRSSH, entries, uint32(len(key))
	request[4] = binary.NativeEndian.Uint32([]byte{0, transform, 0, 0})
	request = append(request, table...)
	for padded := append(slices.Clone(key), 0, 0, 0); len(padded) >= 4; padded = padded[4:] {
		request = append(request, binary.NativeEndian.Uint32(padded))
	}
	err := e.words(name, request)
	if errors.Is(err, unix.EINVAL) && transform == transformNoChange {
		// Before Linux 6.8 this byte had to be 0.
		return e.setHashing(name, entries, table, key, 0)
	}
	return err
}

func (e ethtool) rss(name string) (RSS, error) {
	h, err := e.hashing(name)
	if err != nil {
		return RSS{}, err
	}
	if len(h.table)+len(h.key) == 0 {
		return RSS{}, errors.ErrUnsupported // as virtio_net answers for a device without
	}
	r := RSS{
		Spread: formatTable(h.table), Size: len(h.table), Key: hex.EncodeToString(h.key),
		Function: functions[h.function], Transform: transforms[h.transform],
	}
	if r.Function == "" {
		r.Function = strconv.Itoa(int(h.function))
	}
	if r.Transform == "" {
		r.Transform = strconv.Itoa(int(h.transform))
	}
	return r, nil
}

// equal returns the table that spreads over n queues in turn.
func equal(size, n int) []uint32 {
	t := make([]uint32, size)
	for i := range t {
		t[i] = uint32(i % n)
	}
	return t
}

// formatTable writes "equal 4" for the table that spreads over four queues in turn, else the runs of entries.
func formatTable(t []uint32) string {
	if len(t) == 0 {
		return ""
	}
	if n := int(slices.Max(t)) + 1; slices.Equal(t, equal(len(t), n)) {
		return equalText(n)
	}
	var runs []string
	for start, i := 0, 1; i <= len(t); i++ {
		if i == len(t) || t[i] != t[start] {
			runs = append(runs, fmt.Sprintf("%d*%d", t[start], i-start))
			start = i
		}
	}
	return strings.Join(runs, " ")
}

func equalText(n int) string { return fmt.Sprintf("equal %d", n) }

// parseTable is the inverse of formatTable for a table of size entries.
func parseTable(s string, size int) ([]uint32, error) {
	if n, ok := strings.CutPrefix(s, "equal "); ok {
		count, err := strconv.Atoi(n)
		if err != nil || count < 1 {
			return nil, fmt.Errorf("%q is no indirection table", s)
		}
		return equal(size, count), nil
	}
	var t []uint32
	for _, run := range strings.Fields(s) {
		queue, length, _ := strings.Cut(run, "*")
		q, err := strconv.ParseUint(queue, 10, 32)
		n, lengthErr := strconv.ParseUint(length, 10, 16)
		if err != nil || lengthErr != nil {
			return nil, fmt.Errorf("%q is no indirection table", s)
		}
		t = append(t, slices.Repeat([]uint32{uint32(q)}, int(n))...)
	}
	if len(t) != size {
		return nil, fmt.Errorf("the indirection table has %d entries now, and had %d", size, len(t))
	}
	return t, nil
}

// symmetricKey is the Toeplitz key that gives both directions of a flow the same hash value: its bits repeat
// every 16, so swapped addresses and ports add the same (Woo and Park, "Scalable TCP session monitoring with symmetric
// receive-side scaling", 2012).
func symmetricKey(length int) string { return strings.Repeat("6d5a", (length+1)/2)[:2*length] }
