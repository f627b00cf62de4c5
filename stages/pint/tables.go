package pint

import "github.com/weirswitch/weir/telemetry/pint"

// SourcePlan is the plan that sources use, as the stage reads it.
func (c *Config) SourcePlan() (*pint.Plan, error) {
	if c.Plan == "" {
		return pint.DefaultPlan(), nil
	}
	return pint.LoadPlan(c.Plan)
}
