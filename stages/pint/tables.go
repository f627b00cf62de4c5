package pint

import (
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// SourcePlan is the plan that sources use, as the stage reads it.
func (c *Config) SourcePlan() (*pintplan.Plan, error) {
	if c.Plan == "" {
		return pintplan.Default(), nil
	}
	return pintplan.Load(c.Plan)
}

// LivePlans are the plans that the stage understands, as it reads them: that of sources, then the next one.
func (c *Config) LivePlans() ([]*pintplan.Plan, error) { return c.loadPlans() }

// Utilisations are the estimates of the first worker, by port: nil if no plan asks for them. They
// may be read between batches alone.
func (m *Module) Utilisations() (all []*encode.Utilisation) {
	if len(m.stages) == 0 || !m.stages[0].needUse {
		return nil
	}
	for i := range m.stages[0].ports {
		all = append(all, m.stages[0].ports[i].use)
	}
	return all
}
