// Package grade compares what a lab's telemetry answers with what the lab itself knows: its file, what the loads sent and
// received, what relays did to packets, the switches' last reports, and the flows' paths by routes and links. It asks the
// same questions whether records in a folder or a collector answer them.
//
//	grade.go    questions, rows, the verdict
//	truth.go    what the lab knows
//	counts.go   frequency, heavy hitters, volume, entropy, cardinality
//	digests.go  path, latency, congestion, loops
//	delay.go    delay and loss over relays
//	ends.go     what measurement points at both ends of a link need equal
//	classes.go  delay and loss of classes of traffic, over several relays
package grade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/internal/plural"
	"github.com/weirswitch/weir/stages/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// Asker answers questions: a [query.Engine] over records, or the client of a collector.
type Asker interface {
	Ask(ctx context.Context, q *query.Question) (any, error)
}

// Check reports what is wrong with the configurations of a lab's switches, and what leaves no truth to compare with: switches whose flow hashes differ,
// and measurement points at the ends of a link that cannot be compared. All is reported at once.
func Check(c *lab.Config) error {
	switches, faults := labpath.Switches(c)
	if switches == nil {
		return faults
	}
	compared := []error{labpath.Common(c, switches), checkLinkEnds(c, switches, lab.KeysOf(faults)), checkIntervalBits(c, switches), checkEdges(c, switches)}
	return lab.InOrder(faults, lab.KeysOf(faults).Without(errors.Join(compared...)))
}

// Report is the outcome. It implements lab.Answers.
type Report struct {
	Good   bool    `json:"ok"`
	Rows   []Row   `json:"answers"`
	Delays []Delay `json:"delays,omitempty"`
	// Missing and Absent are what the answers say they lack, where packets passed.
	Missing []store.Missing `json:"missing,omitempty"`
	Absent  []query.Absent  `json:"absent,omitempty"`
}

// Row is an answer next to the truth.
type Row struct {
	Kind   query.Kind `json:"kind"`
	What   string     `json:"what"`
	Truth  string     `json:"truth"`
	Answer string     `json:"answer"`
	OK     bool       `json:"ok"`
	// NotJudged says why an answer that is not OK proves nothing; empty: it is a fault.
	NotJudged string `json:"not_judged,omitempty"`
	// Line of the lab file has the node, link or load that the row is about; 0: no one has.
	Line int `json:"line,omitempty"`
	// Numbers are the figures in Truth and Answer, by name.
	Numbers map[string]float64 `json:"numbers,omitempty"`
}

// OK implements lab.Answers.
func (r *Report) OK() bool { return r.Good }

// WriteText implements lab.Answers.
func (r *Report) WriteText(w io.Writer) error {
	t := text.NewTable("", "kind", "of", "truth", "answer")
	for _, row := range r.Rows {
		verdict, answer := "  FAIL", row.Answer
		switch {
		case row.OK:
			verdict = "  ok"
		case row.NotJudged != "":
			verdict, answer = "  -", answer+"; not judged: "+row.NotJudged
		default:
			answer += lab.InFile(row.Line)
		}
		t.Row(verdict, string(row.Kind), row.What, row.Truth, answer)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	var lines []string
	for _, m := range text.Missing(r.Missing) {
		lines = append(lines, "missing: "+m)
	}
	for _, line := range append(lines, text.Absent(r.Absent)...) {
		if _, err := fmt.Fprintln(w, "       "+line); err != nil {
			return err
		}
	}
	return nil
}

// Lab asks about a lab whose switches have ended. If the context ends, the report has what was answered, beside the error.
func Lab(ctx context.Context, e *lab.Evidence, asker Asker) (*Report, error) {
	paths, err := labpath.New(e.Config)
	if err != nil {
		return nil, err
	}
	return grade(ctx, e, paths, asker)
}

// Records answers from the folder of a lab's records.
func Records(ctx context.Context, e *lab.Evidence) (*Report, error) {
	paths, err := labpath.New(e.Config)
	if err != nil {
		return nil, err
	}
	engine := &query.Engine{Paths: paths, FlowSeed: paths.Seed, Names: paths.Names()}
	if engine.Store, err = store.Read(e.Records); err != nil {
		return nil, err
	}
	for _, ends := range e.Config.Cables() {
		engine.Links = append(engine.Links, query.Link{Ends: ends})
	}
	if engine.Plans, err = plans(paths); err != nil {
		return nil, err
	}
	report, err := grade(ctx, e, paths, engine)
	if c := engine.Store.Counts(); err == nil && c.Unreadable+c.Conflicts+c.Duplicates > 0 {
		report.Good = false
		report.Rows = append(report.Rows, Row{
			Kind: "records", What: "all", Truth: "each once",
			Answer: fmt.Sprintf("%d taken, %d duplicates, %d in conflict with others, %d unreadable", c.Records, c.Duplicates, c.Conflicts, c.Unreadable),
		})
	}
	return report, err
}

// plans are the plans of PINT in the switches' configurations, each once; none: the default plan.
func plans(paths *labpath.Paths) (list []*pintplan.Plan, err error) {
	var files []string
	for _, sw := range paths.Switches {
		c, ok := sw.Stages["pint"].(*pint.Config)
		if !ok {
			continue
		}
		for _, file := range []string{c.Plan, c.NextPlan} {
			if file == "" || slices.Contains(files, file) {
				continue
			}
			plan, err := pintplan.Load(file)
			if err != nil {
				return nil, err
			}
			files, list = append(files, file), append(list, plan)
		}
	}
	return list, nil
}

// grader asks the questions and collects the rows. When its context ends, the report has the rows so far.
type grader struct {
	ctx    context.Context
	asker  Asker
	lab    *lab.Evidence
	paths  *labpath.Paths
	truth  *truth
	report *Report
	// window is that of the generated flows. Epochs count whole, so what was sent less than an epoch before or behind is in it too: the quiet time
	// keeps other loads out.
	window query.Question
}

func grade(ctx context.Context, e *lab.Evidence, paths *labpath.Paths, asker Asker) (*Report, error) {
	known, err := newTruth(e.Truth)
	if err != nil {
		return nil, err
	}
	g := &grader{ctx: ctx, asker: asker, lab: e, paths: paths, truth: known, report: &Report{}}
	if !e.FlowsBegan.IsZero() {
		var tai unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_TAI, &tai); err != nil {
			return nil, err
		}
		ahead := tai.Nano() - time.Now().UnixNano()
		g.window = query.Question{Start: e.FlowsBegan.UnixNano() + ahead, End: e.FlowsEnded.UnixNano() + ahead}
	}
	if e.Collector != "" {
		if err := g.settle(); err != nil {
			return nil, err
		}
	}
	return g.report, g.askAll()
}

// askAll asks all questions. The report has what was answered, also when the context ends before the last one.
func (g *grader) askAll() error {
	for _, question := range []struct {
		kind   query.Kind
		ask    func() error
		stages string // one of which measures what is asked; empty: no stage is needed
	}{
		{query.KindNetwork, g.network, ""}, {query.KindPath, g.path, "pint"}, {query.KindLatency, g.latency, "pint"}, {query.KindCongestion, g.congestion, "pint"},
		{query.KindLoops, g.loops, "pint"}, {query.KindFrequency, g.frequency, "oblivious disketch"}, {query.KindHeavyHitters, g.heavyHitters, "oblivious disketch"},
		{query.KindVolume, g.volume, "oblivious"}, {query.KindEntropy, g.entropy, "disketch"}, {query.KindCardinality, g.cardinality, "oblivious"},
		{query.KindDelay, g.relays, "lds_egress"}, {query.KindDelay, g.classes, "lds_egress"},
	} {
		if g.lab.Step != nil && (question.stages == "" || slices.ContainsFunc(strings.Fields(question.stages), g.measures)) {
			g.lab.Step("asking: %s", question.kind)
		}
		err := question.ask()
		if stopped := g.ctx.Err(); stopped != nil {
			g.report.Good = false
			return fmt.Errorf("not all questions were asked: %w", stopped)
		}
		if err != nil { // one answer that fails leaves the others
			g.add(Row{Kind: question.kind, What: "all", Truth: "an answer", Answer: "failed: " + strings.ReplaceAll(err.Error(), "\n", "; ")})
		}
	}
	g.report.Good = !slices.ContainsFunc(g.report.Rows, func(r Row) bool { return !r.OK && r.NotJudged == "" })
	return nil
}

const (
	// settleWait bounds how long a collector may take to apply the last records: as long as switches may take to send what
	// a busy machine left in their spools. settleQuiet without a new record means that all are there: switches have sent
	// everything before they end, so the collector only reads on.
	settleWait  = 30 * time.Second
	settleQuiet = 400 * time.Millisecond
)

// settle waits until a collector has applied the last records of all switches.
func (g *grader) settle() error {
	before, since := "", time.Now()
	for deadline := time.Now().Add(settleWait); time.Now().Before(deadline); {
		now := ""
		if n, err := ask[*query.Network](g, &query.Question{Kind: query.KindNetwork}); err == nil {
			for _, s := range n.Switches {
				now += fmt.Sprintln(s.Name, s.LastHeardNs, s.Statuses)
			}
		} else if !errors.Is(err, query.ErrNoRecords) {
			return fmt.Errorf("ask the collector: %w", err)
		}
		if now != before {
			before, since = now, time.Now()
		} else if now != "" && time.Since(since) > settleQuiet {
			return nil
		}
		select {
		case <-g.ctx.Done():
			return g.ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.New("the collector does not come to rest: look at its log with weir lab up")
}

// ask asks a question whose answer is of a known type.
func ask[A any](g *grader, q *query.Question) (a A, err error) {
	got, err := g.asker.Ask(g.ctx, q)
	if err != nil {
		return a, err
	}
	a, ok := got.(A)
	if !ok {
		return a, fmt.Errorf("the answer to %s is a %T", q.Kind, got)
	}
	return a, nil
}

// asking shows how many flows have been asked about: answered adds some; done ends it.
func (g *grader) asking(what string, flows int) (answered func(n int), done func()) {
	if g.lab.Begin == nil || flows == 0 {
		return func(int) {}, func() {}
	}
	m := g.lab.Begin(fmt.Sprintf("asking: %s, %d flows", what, flows), int64(flows))
	return func(n int) { m.Add(int64(n)) }, m.Done
}

// interrupted says that a row is of the first flows alone, as the context ended before the others were asked about; empty: it did not.
func (g *grader) interrupted(asked, flows int) string {
	if g.ctx.Err() == nil {
		return ""
	}
	return fmt.Sprintf("interrupted after %d of %s", asked, plural.Counted(flows, "flow"))
}

// ofFlows is a question about the window of the generated flows.
func (g *grader) ofFlows(kind query.Kind) *query.Question {
	q := g.window
	q.Kind, q.Confidence = kind, confidence
	return &q
}

// ofLoads are the kinds whose rows are about the generated flows, unless they name a switch or a link.
var ofLoads = map[query.Kind]bool{
	query.KindPath: true, query.KindLatency: true, query.KindCongestion: true, query.KindLoops: true, query.KindFrequency: true,
	query.KindHeavyHitters: true, query.KindVolume: true, query.KindEntropy: true, query.KindCardinality: true, query.KindDelay: true, query.KindLoss: true,
}

// add appends a row. What is right in spite of an excuse is right.
func (g *grader) add(r Row) {
	if r.OK {
		r.NotJudged = ""
	}
	if r.Line == 0 && ofLoads[r.Kind] {
		r.Line = g.lab.Config.FlowsLine()
	}
	g.report.Rows = append(g.report.Rows, r)
}

// unanswered adds a row for a question without an answer and returns other errors. Of a stage that measures without options
// an answer is required; of others the configuration decides whether their records answer the question.
func (g *grader) unanswered(kind query.Kind, what string, err error, required bool) error {
	if !errors.Is(err, query.ErrNoRecords) && !errors.Is(err, query.ErrUnknownFlow) {
		return err
	}
	r := Row{Kind: kind, What: what, Truth: "an answer", Answer: "none"}
	if !required {
		r.Truth, r.NotJudged = "", strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if byDigests[kind] && g.hasEdges() && strings.Contains(err.Error(), " of digests in the window") {
		r.NotJudged = "no packet with a digest came to a port of edge"
	}
	g.add(r)
	return nil
}

// byDigests are the kinds that digests answer.
var byDigests = map[query.Kind]bool{query.KindPath: true, query.KindLatency: true, query.KindCongestion: true, query.KindLoops: true}

// hasEdges reports whether packets get digests in the lab: a switch has the stage pint, and ports of edge.
func (g *grader) hasEdges() bool {
	return slices.ContainsFunc(g.paths.Switches, func(sw *config.Config) bool {
		c, ok := sw.Stages["pint"].(*pint.Config)
		return ok && slices.Contains(sw.Switch.Graph, "pint") && len(c.Edge) > 0
	})
}

// heldUp notes what an answer lacks. It returns why the gaps prove nothing against the system: packets passed a switch
// that had no room to count them, as the machine ran its exporter too late. Empty: no packet is missing.
func (g *grader) heldUp(b *query.Basis) (why string) {
	for _, m := range b.Missing {
		if m.Packets == 0 {
			continue
		}
		why = "the machine held a switch up, which did not count all packets"
		if !slices.Contains(g.report.Missing, m) {
			g.report.Missing = append(g.report.Missing, m)
		}
	}
	return why
}

// measures reports whether a switch of the lab has a stage.
func (g *grader) measures(stage string) bool {
	for _, sw := range g.paths.Switches {
		if slices.Contains(sw.Switch.Graph, stage) {
			return true
		}
	}
	return false
}
