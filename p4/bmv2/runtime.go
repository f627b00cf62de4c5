package bmv2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

// The Thrift services of simple_switch.
const (
	serviceStandard  = "standard"
	serviceMulticast = "simple_pre_lag"
	serviceSwitch    = "simple_switch"
)

// callTimeout bounds one call: to read a large register takes most of a second.
const callTimeout = 30 * time.Second

// runtime is a connection to a switch's Thrift server. Its methods may be called from
// several goroutines.
type runtime struct {
	mu      sync.Mutex
	conn    net.Conn
	clients map[string]thrift.TClient
}

func newRuntime(conn net.Conn) *runtime {
	config := &thrift.TConfiguration{SocketTimeout: callTimeout, TBinaryStrictRead: thrift.BoolPtr(true)}
	transport := thrift.NewTBufferedTransport(thrift.NewTSocketFromConnConf(conn, config), 1<<16)
	protocol := thrift.NewTBinaryProtocolConf(transport, config)
	r := &runtime{conn: conn, clients: map[string]thrift.TClient{}}
	for _, s := range []string{serviceStandard, serviceMulticast, serviceSwitch} {
		r.clients[s] = thrift.NewTStandardClient(protocol, thrift.NewTMultiplexedProtocol(protocol, s))
	}
	return r
}

func (r *runtime) close() error { return r.conn.Close() }

// call calls a method and returns its result, nil if it has none.
func (r *runtime) call(service, method string, args fields) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	result := reply{}
	if _, err := r.clients[service].Call(ctx, method, args, result); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	// Field 0 is the result and field 1 the exception, of which all have a code and nothing else.
	if ouch, ok := result[1].(reply); ok {
		code, _ := ouch[1].(int64)
		return nil, fmt.Errorf("%s: the switch refuses: %w", method, refusal(service, method, code))
	}
	return result[0], nil
}

// ErrFull says that a table has no room for one more entry.
var ErrFull = errors.New("the table is full")

// errorFull is the code of ErrFull among standard.thrift's TableOperationErrorCode, which tableRefusals are.
const errorFull = 1

var tableRefusals = []string{
	2: "there is no such entry", 3: "the entry has expired", 4: "it has no counters", 5: "it has no meters",
	6: "it has no ageing", 7: "there is no such table", 8: "there is no such action", 9: "the table is of another type",
	17: "the entry is there already", 18: "the key does not fit the table", 20: "the default action is constant",
	21: "the default entry is constant", 25: "the entries are constant", 26: "the action's parameters do not fit",
}

func refusal(service, method string, code int64) error {
	ofTable := service == serviceStandard && strings.HasPrefix(method, "bm_mt")
	switch {
	case ofTable && code == errorFull:
		return ErrFull
	case ofTable && code > 0 && code < int64(len(tableRefusals)) && tableRefusals[code] != "":
		return errors.New(tableRefusals[code])
	}
	return fmt.Errorf("error code %d of service %s", code, service)
}

// context 0 is all that simple_switch has.
var contextZero = field{1, int32(0)}

// addEntry adds an entry to a table and returns its handle.
func (r *runtime) addEntry(table string, match []fields, action string, params [][]byte, priority int32) (int32, error) {
	v, err := r.call(serviceStandard, "bm_mt_add_entry", fields{
		contextZero, {2, table}, {3, match}, {4, action}, {5, params}, {6, fields{{1, priority}}},
	})
	handle, _ := v.(int64)
	return int32(handle), err
}

func (r *runtime) deleteEntry(table string, handle int32) error {
	_, err := r.call(serviceStandard, "bm_mt_delete_entry", fields{contextZero, {2, table}, {3, handle}})
	return err
}

// setTTL makes the switch report when no packet has hit an entry for so many milliseconds; 0: never.
func (r *runtime) setTTL(table string, handle, milliseconds int32) error {
	_, err := r.call(serviceStandard, "bm_mt_set_entry_ttl", fields{contextZero, {2, table}, {3, handle}, {4, milliseconds}})
	return err
}

func (r *runtime) setDefault(table, action string, params [][]byte) error {
	_, err := r.call(serviceStandard, "bm_mt_set_default_action", fields{contextZero, {2, table}, {3, action}, {4, params}})
	return err
}

func (r *runtime) clearTable(table string) error {
	_, err := r.call(serviceStandard, "bm_mt_clear_entries", fields{contextZero, {2, table}, {3, false}})
	return err
}

func (r *runtime) registers(name string) ([]uint64, error) {
	v, err := r.call(serviceStandard, "bm_register_read_all", fields{contextZero, {2, name}})
	if err != nil {
		return nil, fmt.Errorf("read register %s: %w", name, err)
	}
	values, ok := v.([]uint64)
	if !ok {
		return nil, fmt.Errorf("read register %s: the switch gives no list", name)
	}
	return values, nil
}

func (r *runtime) writeRegister(name string, index int32, value uint64) error {
	_, err := r.call(serviceStandard, "bm_register_write", fields{contextZero, {2, name}, {3, index}, {4, int64(value)}})
	return err
}

func (r *runtime) resetRegister(name string) error {
	_, err := r.call(serviceStandard, "bm_register_reset", fields{contextZero, {2, name}})
	return err
}

func (r *runtime) counter(name string, index int32) (packets, bytes uint64, err error) {
	v, err := r.call(serviceStandard, "bm_counter_read", fields{contextZero, {2, name}, {3, index}})
	if err != nil {
		return 0, 0, err
	}
	value, _ := v.(reply)
	b, _ := value[1].(int64)
	p, _ := value[2].(int64)
	return uint64(p), uint64(b), nil
}

// crc32 are the parameters of a CRC that the program leaves open.
type crcParameters struct {
	polynomial, initial, final        uint32
	reflectedData, reflectedRemainder bool
}

func (r *runtime) setCRC32(calculation string, c crcParameters) error {
	_, err := r.call(serviceStandard, "bm_set_crc32_custom_parameters", fields{contextZero, {2, calculation}, {3, fields{
		{1, int32(c.polynomial)}, {2, int32(c.initial)}, {3, int32(c.final)}, {4, c.reflectedData}, {5, c.reflectedRemainder},
	}}})
	return err
}

func (r *runtime) createGroup(group int32) error {
	_, err := r.call(serviceMulticast, "bm_mc_mgrp_create", fields{contextZero, {2, group}})
	return err
}

// createNode makes a multicast node and returns its handle. ports is a string of zeros and ones, port 0 last.
func (r *runtime) createNode(rid int32, ports string) (int32, error) {
	v, err := r.call(serviceMulticast, "bm_mc_node_create", fields{contextZero, {2, rid}, {3, ports}, {4, ""}})
	handle, _ := v.(int64)
	return int32(handle), err
}

func (r *runtime) associateNode(group, node int32) error {
	_, err := r.call(serviceMulticast, "bm_mc_node_associate", fields{contextZero, {2, group}, {3, node}})
	return err
}

func (r *runtime) addMirror(session, port int32) error {
	_, err := r.call(serviceSwitch, "mirroring_session_add", fields{{1, session}, {2, fields{{1, port}}}})
	return err
}

// addPort opens an interface, without a file that its packets are written to.
func (r *runtime) addPort(port int32, name string) error {
	_, err := r.call(serviceStandard, "bm_dev_mgr_add_port", fields{{1, name}, {2, port}, {3, ""}})
	return err
}

func (r *runtime) setQueueDepths(packets int32) error {
	_, err := r.call(serviceSwitch, "set_all_egress_queue_depths", fields{{1, packets}})
	return err
}

// elapsed is the switch's clock: the time since it started, as packets see it in their timestamps.
func (r *runtime) elapsed() (time.Duration, error) {
	v, err := r.call(serviceSwitch, "get_time_elapsed_us", nil)
	us, _ := v.(int64)
	return time.Duration(us) * time.Microsecond, err
}

// noticesAddress is where the switch that answers sends its notifications.
func (r *runtime) noticesAddress() (string, error) {
	v, err := r.call(serviceStandard, "bm_mgmt_get_info", nil)
	info, _ := v.(reply)
	address, _ := info[3].(string)
	return address, err
}

// acknowledge confirms to the switch that a buffer of learned samples was taken in.
func (r *runtime) acknowledge(list int32, buffer int64) error {
	_, err := r.call(serviceStandard, "bm_learning_ack_buffer", fields{contextZero, {2, list}, {3, buffer}})
	return err
}

// setSamples makes the switch send so many samples at once; its own choice is to wait for more, up to a second.
func (r *runtime) setSamples(list, samples int32) error {
	_, err := r.call(serviceStandard, "bm_learning_set_buffer_size", fields{contextZero, {2, list}, {3, samples}})
	return err
}
