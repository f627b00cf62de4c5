package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// The intervals at which a monitor's socket is looked for, and a migration's state is asked for.
const (
	dialPause  = 50 * time.Millisecond
	statePause = 50 * time.Millisecond
)

// Migrate moves a machine that has a Monitor to one that waits at its Incoming, while it runs. When it returns, the one stands still, and the
// other one waits for Continue.
func (m *Machine) Migrate(ctx context.Context, to *Machine) (state Migration, err error) {
	qmp, err := dialMonitor(ctx, m.Monitor)
	if err != nil {
		return state, err
	}
	defer qmp.conn.Close()
	if err := qmp.do("migrate", map[string]any{"uri": "unix:" + to.Incoming}, nil); err != nil {
		return state, err
	}
	for {
		if err := qmp.do("query-migrate", nil, &state); err != nil {
			return state, err
		}
		switch state.Status {
		case "completed":
			return state, nil
		case "failed", "cancelled":
			return state, fmt.Errorf("migrate: %s: %s", state.Status, state.Why)
		}
		select {
		case <-ctx.Done():
			return state, fmt.Errorf("migrate: %s: %w", state.Status, ctx.Err())
		case <-time.After(statePause):
		}
	}
}

// SaveMemory writes the memory of a guest that has a Socket to a file.
func (m *Machine) SaveMemory(ctx context.Context, file string) error {
	return m.do(ctx, "pmemsave", map[string]any{"val": 0, "size": guestMemory << 20, "filename": file})
}

// Continue has a machine run that waits.
func (m *Machine) Continue(ctx context.Context) error { return m.do(ctx, "cont", nil) }

// do carries out one command of QEMU's.
func (m *Machine) do(ctx context.Context, command string, arguments map[string]any) error {
	qmp, err := dialMonitor(ctx, m.Monitor)
	if err != nil {
		return err
	}
	defer qmp.conn.Close()
	return qmp.do(command, arguments, nil)
}

// Migration is what QEMU says of one.
type Migration struct {
	Status string
	Why    string `json:"error-desc"`
	// Times in milliseconds.
	Total    int `json:"total-time"`
	Downtime int
	RAM      struct {
		Transferred int // bytes
		Syncs       int `json:"dirty-sync-count"` // readings of the log of dirty pages
	}
}

// monitor is a connection to a QEMU by its protocol QMP.
type monitor struct {
	conn net.Conn
	in   *json.Decoder
}

// dialMonitor waits until QEMU listens.
func dialMonitor(ctx context.Context, path string) (*monitor, error) {
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			deadline, _ := ctx.Deadline()
			m := &monitor{conn, json.NewDecoder(conn)}
			var greeting struct{ QMP json.RawMessage }
			err := errors.Join(conn.SetDeadline(deadline), m.in.Decode(&greeting))
			if err == nil && greeting.QMP == nil {
				err = errors.New("no greeting of QMP")
			}
			if err == nil {
				err = m.do("qmp_capabilities", nil, nil)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", path, err), conn.Close())
			}
			return m, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(dialPause):
		}
	}
}

// do carries out a command, and puts its result into out.
func (m *monitor) do(command string, arguments map[string]any, out any) error {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(m.conn).Encode(request); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	for {
		var answer struct {
			Event  string
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		switch err := m.in.Decode(&answer); {
		case err != nil:
			return fmt.Errorf("%s: %w", command, err)
		case answer.Event != "":
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", command, answer.Error.Desc)
		case out == nil:
			return nil
		default:
			return json.Unmarshal(answer.Return, out)
		}
	}
}
