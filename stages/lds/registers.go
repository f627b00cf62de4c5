package lds

import (
	"slices"

	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
)

// What follows is for a module without workers, whose points are in the registers of a P4 target:
// who reads these makes points of them, and gives them to Emit.

// Ports are the numbers of the measured ports, in the order of the points.
func (m *Module) Ports() []int { return slices.Clone(m.plan.Load().ports) }

// NewPoint makes an empty point of the module's shape.
func (m *Module) NewPoint() *lds.Point {
	return newPoints([]lds.Config{m.sketchOf(m.plan.Load(), 0)})[0]
}

// IntervalBits is the base-2 logarithm of an interval in ns, and whether a shim's bit gives it.
func (m *Module) IntervalBits() (bits uint8, byShim bool) { return m.shift, m.bit }

// Emit makes the record of an interval of a measurement point, which is the port's by Ports.
func (m *Module) Emit(point int, p *lds.Point, missed uint64, emit record.Emit) {
	m.send(m.plan.Load().points()[point], point, p, missed, emit)
}
