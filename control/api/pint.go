package api

import queries "github.com/weirswitch/weir/telemetry/view/api"

// AddAnswer puts an answer into its place in the report; nil or of another kind: nowhere.
func (r *PintReport) AddAnswer(a *queries.Answer) {
	switch x := a.GetAnswer().(type) {
	case *queries.Answer_Path:
		r.Paths = x.Path
	case *queries.Answer_Latency:
		r.Latency = x.Latency
	case *queries.Answer_Congestion:
		r.Congestion = x.Congestion
	case *queries.Answer_Loops:
		r.Loops = x.Loops
	}
}
