package node

import (
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirswitch/weir/pipeline"
)

// picky takes no assignment.
type picky struct{ pipeline.Module }

func (picky) Assign(int64, []byte) error { return errors.New("no assignment") }

// TestForgedAssignments: a switch that has another one sent what is no assignment does not fill its log.
func TestForgedAssignments(t *testing.T) {
	core, lines := observer.New(zapcore.WarnLevel)
	n := &Node{log: zap.New(core)}
	for range 10_000 {
		n.assign([]pipeline.Named{{Name: "picky", Module: picky{}}}, []byte(`{"stream":"WEIR","seq":7}`))
	}
	if lines.Len() != 1 || n.refusedAssignments != 10_000 {
		t.Errorf("%d lines, %d refused", lines.Len(), n.refusedAssignments)
	}
}
