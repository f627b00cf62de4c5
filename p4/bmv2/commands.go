package bmv2

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commands are the runtime commands that `weir p4 tables` writes, in the words of
// BMv2's own command line, so that either can load them.
var commands = map[string]func(s *Switch, args []string) error{
	"table_add":            (*Switch).tableAdd,
	"table_set_default":    (*Switch).tableSetDefault,
	"table_clear":          (*Switch).tableClear,
	"register_write":       (*Switch).registerWrite,
	"register_reset":       (*Switch).registerReset,
	"set_crc32_parameters": (*Switch).setCRC32,
	"mc_mgrp_create":       (*Switch).groupCreate,
	"mc_node_create":       (*Switch).nodeCreate,
	"mc_node_associate":    (*Switch).nodeAssociate,
	"mirroring_add":        (*Switch).mirroringAdd,
}

// Load runs runtime commands, one per line. Empty lines and those that begin with # are
// nothing. The first command that fails ends it.
func (s *Switch) Load(text string) error {
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		run, ok := commands[words[0]]
		if !ok {
			return fmt.Errorf("line %d: unknown runtime command %q", i+1, words[0])
		}
		if err := run(s, words[1:]); err != nil {
			return fmt.Errorf("line %d: %s: %w", i+1, strings.TrimSpace(line), err)
		}
	}
	return nil
}

// AddEntry runs one command table_add and returns the entry's handle.
func (s *Switch) AddEntry(command string) (handle int32, err error) {
	words := strings.Fields(command)
	if len(words) == 0 || words[0] != "table_add" {
		return 0, fmt.Errorf("%q adds no entry: write table_add", command)
	}
	if handle, err = s.addEntry(words[1:]); err != nil {
		return 0, fmt.Errorf("%s: %w", command, err)
	}
	return handle, nil
}

// DeleteEntry deletes an entry by the handle that [Switch.AddEntry] gave.
func (s *Switch) DeleteEntry(table string, handle int32) error {
	t, err := resolve("table", table, s.program.tables)
	if err != nil {
		return err
	}
	return s.runtime.deleteEntry(t.name, handle)
}

// SetEntryTTL makes the switch report, by [Switch.Expired], when no packet has hit an entry for so long, from 1 ms to
// 24 days. The program's table has to have support_timeout.
func (s *Switch) SetEntryTTL(table string, handle int32, ttl time.Duration) error {
	t, err := resolve("table", table, s.program.tables)
	if err != nil {
		return err
	}
	if ms := ttl.Milliseconds(); ms < 1 || ms > math.MaxInt32 {
		return fmt.Errorf("an entry of table %s cannot live for %v: choose 1ms to 24 days", t.name, ttl)
	}
	return s.runtime.setTTL(t.name, handle, int32(ttl.Milliseconds()))
}

func (s *Switch) tableAdd(args []string) error {
	_, err := s.addEntry(args)
	return err
}

// addEntry: TABLE ACTION KEY... => PARAMETER... [PRIORITY]
func (s *Switch) addEntry(args []string) (int32, error) {
	t, a, rest, err := s.tableAction(args)
	if err != nil {
		return 0, err
	}
	priority := 0
	if t.priority {
		if len(rest) == 0 {
			return 0, errors.New("a priority is missing")
		}
		if priority, err = strconv.Atoi(rest[len(rest)-1]); err != nil {
			return 0, fmt.Errorf("priority: %w", err)
		}
		rest = rest[:len(rest)-1]
	}
	arrow := slices.Index(rest, "=>")
	if arrow < 0 {
		return 0, errors.New("there is no => behind the keys")
	}
	match, err := t.match(rest[:arrow])
	if err != nil {
		return 0, err
	}
	params, err := a.parameters(rest[arrow+1:])
	if err != nil {
		return 0, err
	}
	return s.runtime.addEntry(t.name, match, a.name, params, int32(priority))
}

// tableSetDefault: TABLE ACTION PARAMETER...
func (s *Switch) tableSetDefault(args []string) error {
	t, a, rest, err := s.tableAction(args)
	if err != nil {
		return err
	}
	params, err := a.parameters(rest)
	if err != nil {
		return err
	}
	return s.runtime.setDefault(t.name, a.name, params)
}

func (s *Switch) tableAction(args []string) (*table, *action, []string, error) {
	if len(args) < 2 {
		return nil, nil, nil, errors.New("a table and an action are missing")
	}
	t, err := resolve("table", args[0], s.program.tables)
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := resolve("action of table "+t.name, args[1], t.actions)
	return t, a, args[2:], err
}

func (s *Switch) tableClear(args []string) error {
	if len(args) != 1 {
		return errors.New("name one table")
	}
	t, err := resolve("table", args[0], s.program.tables)
	if err != nil {
		return err
	}
	return s.runtime.clearTable(t.name)
}

// match reads the keys of an entry.
func (t *table) match(words []string) ([]fields, error) {
	if len(words) != len(t.keys) {
		return nil, fmt.Errorf("table %s has %d keys, and there are %d", t.name, len(t.keys), len(words))
	}
	list := make([]fields, len(words))
	for i, k := range t.keys {
		var err error
		if list[i], err = k.read(words[i]); err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
	}
	return list, nil
}

// The numbers of standard.thrift's BmMatchParamType; the field of a BmMatchParam that
// holds the key is one higher than the type's number plus one.
var matchTypes = map[string]int32{"exact": 0, "lpm": 1, "ternary": 2, "valid": 3, "range": 4}

// separators are between the two halves of a key.
var separators = map[string]string{"lpm": "/", "ternary": "&&&", "range": "->"}

// read makes a BmMatchParam of a key as it is written.
func (k key) read(word string) (fields, error) {
	number, ok := matchTypes[k.match]
	if !ok {
		return nil, fmt.Errorf("unknown kind of match %q", k.match)
	}
	var inner fields
	switch k.match {
	case "exact":
		v, err := parseValue(word, k.bits)
		if err != nil {
			return nil, err
		}
		inner = fields{{1, v}}
	case "valid":
		inner = fields{{1, word == "1" || word == "true"}}
	default:
		first, second, ok := strings.Cut(word, separators[k.match])
		if !ok {
			return nil, fmt.Errorf("%q: a match %s is written A%sB", word, k.match, separators[k.match])
		}
		a, err := parseValue(first, k.bits)
		if err != nil {
			return nil, err
		}
		if k.match == "lpm" {
			length, err := strconv.ParseUint(second, 10, 31)
			if err != nil || int(length) > k.bits {
				return nil, fmt.Errorf("%q: the prefix length is not 0 to %d", word, k.bits)
			}
			inner = fields{{1, a}, {2, int32(length)}}
			break
		}
		b, err := parseValue(second, k.bits)
		if err != nil {
			return nil, err
		}
		inner = fields{{1, a}, {2, b}}
	}
	return fields{{1, number}, {int16(number) + 2, inner}}, nil
}

func (a *action) parameters(words []string) ([][]byte, error) {
	if len(words) != len(a.bits) {
		return nil, fmt.Errorf("action %s has %d parameters, and there are %d", a.name, len(a.bits), len(words))
	}
	params := make([][]byte, len(words))
	for i, w := range words {
		var err error
		if params[i], err = parseValue(w, a.bits[i]); err != nil {
			return nil, fmt.Errorf("parameter %d: %w", i+1, err)
		}
	}
	return params, nil
}

// parseValue reads a number, a MAC address or an IP address of the given width, most
// significant byte first.
func parseValue(word string, bits int) ([]byte, error) {
	if bits == 48 && strings.Contains(word, ":") {
		mac, err := net.ParseMAC(word)
		if err != nil || len(mac) != 6 {
			return nil, fmt.Errorf("%q is no MAC address", word)
		}
		return mac, nil
	}
	if bits == 32 && strings.Contains(word, ".") || bits == 128 && strings.Contains(word, ":") {
		ip, err := netip.ParseAddr(word)
		if err != nil || ip.BitLen() != bits {
			return nil, fmt.Errorf("%q is no address of %d bits", word, bits)
		}
		return ip.AsSlice(), nil
	}
	n, ok := new(big.Int).SetString(word, 0)
	if !ok || n.Sign() < 0 || n.BitLen() > bits {
		return nil, fmt.Errorf("%q is no number of %d bits", word, bits)
	}
	return n.FillBytes(make([]byte, (bits+7)/8)), nil
}

// registerWrite: REGISTER INDEX VALUE. The value may have 64 bits, and may be written with a sign.
func (s *Switch) registerWrite(args []string) error {
	if len(args) != 3 {
		return errors.New("write a register, an index and a value")
	}
	index, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	value, err := parseSigned(args[2], 64)
	if err != nil {
		return err
	}
	return s.WriteRegister(args[0], index, value)
}

func (s *Switch) registerReset(args []string) error {
	if len(args) != 1 {
		return errors.New("name one register")
	}
	r, err := resolve("register", args[0], s.program.registers)
	if err != nil {
		return err
	}
	return s.runtime.resetRegister(r.Name)
}

// setCRC32: CALCULATION POLYNOMIAL INITIAL FINAL REFLECT_DATA REFLECT_REMAINDER
func (s *Switch) setCRC32(args []string) error {
	if len(args) != 6 {
		return errors.New("write a calculation, polynomial, initial remainder, final xor and two reflections")
	}
	if !s.program.custom[args[0]] {
		return fmt.Errorf("the program has no calculation %q with a custom CRC32", args[0])
	}
	var numbers [3]uint32
	for i := range numbers {
		v, err := strconv.ParseUint(strings.TrimPrefix(args[i+1], "0x"), 16, 32)
		if err != nil {
			return err
		}
		numbers[i] = uint32(v)
	}
	var reflect [2]bool
	for i := range reflect {
		var err error
		if reflect[i], err = strconv.ParseBool(args[i+4]); err != nil {
			return err
		}
	}
	return s.runtime.setCRC32(args[0], crcParameters{numbers[0], numbers[1], numbers[2], reflect[0], reflect[1]})
}

func (s *Switch) groupCreate(args []string) error {
	n, err := numbers(args, 1)
	if err != nil {
		return err
	}
	return s.runtime.createGroup(n[0])
}

// nodeCreate: RID PORT... The switch numbers nodes from 0, in order.
func (s *Switch) nodeCreate(args []string) error {
	if len(args) < 1 {
		return errors.New("write a replication id and ports")
	}
	n, err := numbers(args, len(args))
	if err != nil {
		return err
	}
	last := int32(0)
	for _, port := range n[1:] {
		if port < 0 || port > maxPort {
			return fmt.Errorf("port %d is not 0 to %d", port, maxPort)
		}
		last = max(last, port)
	}
	bitmap := []byte(strings.Repeat("0", int(last)+1))
	for _, port := range n[1:] {
		bitmap[last-port] = '1'
	}
	_, err = s.runtime.createNode(n[0], string(bitmap))
	return err
}

// maxPort is the highest port number of a 9 bit egress_spec; 511 is what drops.
const maxPort = 510

func (s *Switch) nodeAssociate(args []string) error {
	n, err := numbers(args, 2)
	if err != nil {
		return err
	}
	return s.runtime.associateNode(n[0], n[1])
}

func (s *Switch) mirroringAdd(args []string) error {
	n, err := numbers(args, 2)
	if err != nil {
		return err
	}
	return s.runtime.addMirror(n[0], n[1])
}

func numbers(args []string, want int) ([]int32, error) {
	if len(args) != want {
		return nil, fmt.Errorf("%d numbers are wanted, and there are %d", want, len(args))
	}
	list := make([]int32, len(args))
	for i, a := range args {
		v, err := strconv.ParseInt(a, 0, 32)
		if err != nil {
			return nil, err
		}
		list[i] = int32(v)
	}
	return list, nil
}

// parseSigned reads a number that may have a sign, as a two's complement of the given bits.
func parseSigned(word string, bits int) (uint64, error) {
	if v, err := strconv.ParseInt(word, 0, bits); err == nil {
		return uint64(v), nil
	}
	return strconv.ParseUint(word, 0, bits)
}
