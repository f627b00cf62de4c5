package main

import (
	"encoding"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/control/metrics"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/node"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/acl"
	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/mirror"
	"github.com/weirswitch/weir/stages/policer"
)

var update = flag.Bool("update", false, "write generated pages anew")

// TestReference compares docs/reference.md with what the code says: keys and their
// comments, metrics, drop reasons, calls.
func TestReference(t *testing.T) {
	const name = "../../docs/reference.md"
	r := &reference{comments: map[string]map[string]string{}}
	r.line("<!-- generated: go test ./cmd/weir -run TestReference -update -->")
	r.line("# Reference")
	r.line("")
	r.line("Every key of a switch's configuration and of a collector's, every metric, every drop reason, and every call of the API.")
	r.line("[`config/reference.toml`](../config/reference.toml) is a file with all keys of a switch. In a file `[name]` begins a table, and `[[name]]`")
	r.line("one element of a list of tables, which may be there several times. A duration is a number with its unit in quotes: `\"300ms\"`, `\"5m\"`.")
	r.keys(t)
	r.collectorKeys(t)
	r.metrics(t)
	r.reasons()
	r.calls()
	for i, line := range strings.Split(r.text.String(), "\n") {
		if word := ofGo.FindString(strings.Join(quoted.Split(line, -1), "")); word != "" && !strings.HasPrefix(line, "<!--") {
			t.Errorf("line %d has a word of Go's, %q: say it in the words of those who configure: %s", i+1, word, line)
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(r.text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != r.text.String() {
		t.Errorf("docs/reference.md is not what the code says: run go test ./cmd/weir -run TestReference -update (%v)", err)
	}
}

// ofGo are words that only those who read the source know: identifiers, and what the language has.
var ofGo = regexp.MustCompile(`\b[a-z]+\.[A-Z]\w+|\b[A-Z]+[a-z0-9]+[A-Z]\w*Config\b|\b(?:[A-Z][a-z]+){2,}\b|\b(?:nil|struct|goroutine|pointer|bool|uint64|int64)\b`)

// quoted are parts of a line that are names in files, and names that look like Go's and are others'.
var quoted = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|JetStream|DiSketch|UnivMon|TextFormat|QueryService")

// reference writes the page.
type reference struct {
	text     strings.Builder
	comments map[string]map[string]string // by package and "Type.Field"
}

func (r *reference) line(format string, args ...any) {
	if len(args) == 0 {
		r.text.WriteString(format + "\n")
		return
	}
	fmt.Fprintf(&r.text, format+"\n", args...)
}

// collectorKeys are those of weir collect.
func (r *reference) collectorKeys(t *testing.T) {
	r.line("\n## Configuration of a collector")
	r.line("\nThe file of `weir collect` ([collect.md](collect.md)). A change needs a restart. [`config/collect.toml`](../config/collect.toml) is a file with all keys.")
	v := reflect.ValueOf(config.DefaultCollect()).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		head := "[" + tagged(f) + "]"
		at := v.Field(i)
		if f.Type.Kind() == reflect.Slice {
			head, at = "["+head+"]", reflect.New(f.Type.Elem()).Elem()
		}
		r.table(t, head, at, false)
	}
}

// cell makes a text fit into a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

func (r *reference) keys(t *testing.T) {
	r.line("\n## Configuration")
	r.line("\nA change of a key marked *live* can be put into force by `weir ctl reload`; the others need a restart, but for those of a stage that comes with the reload.")
	c := config.Default()
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		tag := tagged(v.Type().Field(i))
		switch tag {
		case "":
		case "port":
			r.table(t, "[[port]]", reflect.ValueOf(port.DefaultConfig()), false)
		case "stages":
			for _, name := range stages.Names() {
				kind := stages.Kinds[name]
				r.table(t, "[stages."+name+"]", reflect.ValueOf(kind.Default()).Elem(), kind.Prepare != nil)
			}
		default:
			r.table(t, "["+tag+"]", v.Field(i), tag == "telemetry")
		}
	}
}

func tagged(f reflect.StructField) string {
	tag, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
	return strings.TrimSuffix(tag, "-")
}

// restartOnly are keys of live stages that cannot change; TestPrepareTableSize of
// package config and TestPrepare of stages/disketch and stages/lds see them refused. log.level and switch.graph are live without a stage.
var restartOnly = append([]string{
	"[telemetry] spool", "[telemetry] local_bytes", "[stages.l2] table_size", "[stages.conntrack] connections", "[stages.l3] ecmp", "[stages.sflow] collectors", "[stages.sflow] agent", "[stages.tunnel] table_size",
	"[[stages.tunnel.underlay]] port", "[[stages.tunnel.underlay]] addresses", "[[stages.tunnel.underlay]] gateways", "[[stages.tunnel.underlay]] mac", "[stages.disketch] epoch_bits", "[stages.disketch] seed", "[stages.disketch] host_ports",
}, slices.Concat(fixedFragmentKeys(), fixedPointKeys())...)

// fixedFragmentKeys are those of a fragment but for its target.
func fixedFragmentKeys() (keys []string) {
	for f := range reflect.TypeFor[disketch.Fragment]().Fields() {
		if key := tagged(f); key != "target" {
			keys = append(keys, "[[stages.disketch.fragment]] "+key)
		}
	}
	return keys
}

// fixedPointKeys are those that both ends of a measurement of LDS have in common.
func fixedPointKeys() (keys []string) {
	for _, stage := range []string{"[stages.lds_ingress] ", "[stages.lds_egress] "} {
		for _, key := range []string{"edge_bits", "rows", "virtual", "banks", "samples", "lost_flows", "interval_bits", "interval_bit", "seed"} {
			keys = append(keys, stage+key)
		}
	}
	return keys
}

// table writes the keys of a table, and then the tables in it.
func (r *reference) table(t *testing.T, head string, v reflect.Value, live bool) {
	type inner struct {
		head string
		v    reflect.Value
	}
	var rows []string
	var tables []inner
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := tagged(f)
		if key == "" {
			continue
		}
		name := strings.Trim(head, "[]") + "." + key
		elem := f.Type
		if elem.Kind() == reflect.Slice {
			elem = elem.Elem()
		}
		switch {
		case elem.Kind() == reflect.Struct && f.Type.Kind() == reflect.Slice:
			tables = append(tables, inner{"[[" + name + "]]", reflect.New(elem).Elem()})
			continue
		case elem.Kind() == reflect.Struct:
			tables = append(tables, inner{"[" + name + "]", v.Field(i)})
			continue
		}
		comment := withKeys(r.comment(t, v.Type(), f.Name), f.Name, v.Type())
		if comment == "" {
			t.Errorf("%s.%s, key %s, has no comment", v.Type(), f.Name, name)
		}
		when := ""
		if live && !slices.Contains(restartOnly, head+" "+key) || name == "log.level" || name == "switch.graph" {
			when = "live"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", key, kindName(f.Type), defaultText(v.Field(i)), when, meaning(comment, f.Name)))
	}
	r.line("\n### `%s`", head)
	if doc := strings.Join(strings.Fields(withKeys(r.comment(t, v.Type(), ""), "", v.Type())), " "); doc != "" {
		r.line("\n%s", tableMeaning(doc, v.Type().Name(), head))
	}
	if rows != nil {
		r.line("\n| key | type | default | live | meaning |\n|---|---|---|---|---|\n%s", strings.Join(rows, "\n"))
	}
	for _, x := range tables {
		r.table(t, x.head, x.v, live)
	}
}

// meaning is a field's comment as one of its key: "Poll is how ..." is "How ...".
func meaning(comment, field string) string {
	if rest, ok := strings.CutPrefix(comment, field+" "); ok {
		comment = capital(strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are "))
	}
	return cell(comment)
}

// tableMeaning is a type's comment as one of its table: "Rule is one rule, [[stages.acl.rule]]." is "One rule."
func tableMeaning(doc, name, head string) string {
	doc = strings.NewReplacer(", "+head, "", " "+head, "", "stage's section of the configuration", "stage's table").Replace(doc)
	if rest, ok := strings.CutPrefix(doc, name+" "); ok {
		doc = capital(strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are "))
	}
	return doc
}

func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// withKeys gives a comment the keys of the fields that it names, but for the one that it begins with.
func withKeys(comment, field string, of reflect.Type) string {
	head := ""
	if rest, ok := strings.CutPrefix(comment, field+" "); ok && field != "" {
		head, comment = field+" ", rest
	}
	for i := range of.NumField() {
		if f := of.Field(i); tagged(f) != "" {
			comment = regexp.MustCompile(`\b`+f.Name+`\b`).ReplaceAllString(comment, "`"+tagged(f)+"`")
		}
	}
	return head + comment
}

func kindName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string"
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return "list of " + kindName(t.Elem())
	case t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	return "integer"
}

func defaultText(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Slice && v.Len() == 0, v.Kind() == reflect.Array && v.IsZero():
		return "`[]`"
	case v.Type().Implements(reflect.TypeFor[encoding.TextMarshaler]()): // as --dump writes it
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("`%q`", text)
	case v.Kind() == reflect.String, v.Type() == reflect.TypeFor[time.Duration]():
		return fmt.Sprintf("`%q`", v.Interface())
	}
	return fmt.Sprintf("`%v`", v.Interface())
}

// comment finds the comment of a type's field, or of the type.
func (r *reference) comment(t *testing.T, of reflect.Type, field string) string {
	t.Helper()
	dir, ok := strings.CutPrefix(of.PkgPath(), "github.com/weirswitch/weir/")
	if !ok {
		t.Fatalf("%s is none of ours", of)
	}
	if r.comments[dir] == nil {
		r.comments[dir] = commentsOf(t, filepath.Join("../..", dir))
	}
	return r.comments[dir][of.Name()+"."+field]
}

func commentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	comments := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				return true
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.TypeSpec)
				comments[s.Name.Name+"."] = d.Doc.Text()
				if structure, ok := s.Type.(*ast.StructType); ok {
					fieldComments(comments, s.Name.Name, structure)
				}
			}
			return true
		})
	}
	return comments
}

// fieldComments reads the comments above or after fields. Fields that follow one
// another without comments share the one above: "Src and Dst are ...".
func fieldComments(comments map[string]string, name string, s *ast.StructType) {
	above := ""
	for _, f := range s.Fields.List {
		text := strings.TrimSpace(f.Doc.Text() + " " + f.Comment.Text())
		if text == "" {
			text = above
		}
		above = text
		for _, id := range f.Names {
			comments[name+"."+id.Name] = text
		}
	}
}

// oneOfAll is a report with one of everything.
type oneOfAll struct{ metrics []*api.Metric }

func (o oneOfAll) Report() *api.ReportResponse {
	return &api.ReportResponse{
		Ports:   []*api.Port{{Settings: []*api.Setting{{}}, Refused: []*api.RefusedSetting{{}}, Fallbacks: []string{""}, Classes: []*api.PortClass{{}}, Faults: map[string]uint64{"index": 1}, Dropped: map[string]uint64{"no_port": 1}, Copies: &api.Fate{Dropped: map[string]uint64{"no_port": 1}}}},
		Stages:  []*api.Stage{{}},
		Workers: []*api.Worker{{}}, Metrics: o.metrics,
	}
}

func (r *reference) metrics(t *testing.T) {
	env := pipeline.Env{Name: "s1", ID: 1, Workers: 1, Ports: []pipeline.Port{{Name: "p0", MaxFrame: 1514}, {Name: "p1", MaxFrame: 1514}}}
	// Some stages count by elements, so they get one.
	configs := map[string]any{
		"acl":     &acl.Config{Default: "permit", Rules: []acl.Rule{{Action: "deny"}}},
		"policer": &policer.Config{Ports: []policer.Port{{Port: "p0", RateBits: 1e6}}},
		"mirror":  &mirror.Config{Sessions: []mirror.Session{{Ports: []string{"p0"}, To: "p1"}}},
	}
	var chain []pipeline.Named
	for _, name := range stages.Names() {
		c := configs[name]
		if c == nil {
			c = stages.Kinds[name].Default()
		}
		m, err := stages.Kinds[name].New(c, env)
		if err != nil {
			t.Logf("stage %s has no default: %v", name, err)
			continue
		}
		m.Stage(0)
		chain = append(chain, pipeline.Named{Name: name, Module: m})
	}
	all := node.StageMetrics(chain)
	all = append(all, node.RecordMetrics(&api.Records{Kinds: []*api.RecordKind{{Drops: []*api.RecordDrop{{}}}}}, 0)...)
	all = append(all, node.TakeoverMetrics(0, 0)...)
	all = append(all, control.Counters{}.Metrics()...)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(oneOfAll{all}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	r.line("\n## Metrics")
	r.line("\nServed at `/metrics` where `control.metrics` says, next to those of the Go runtime and the process.\n`weir ctl show telemetry` shows a stage's own counters, `weir_STAGE_...`, too.\n")
	r.line("| metric | type | labels | meaning |\n|---|---|---|---|")
	for _, f := range families {
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		r.line("| `%s` | %s | %s | %s |", f.GetName(), map[dto.MetricType]string{dto.MetricType_COUNTER: "counter", dto.MetricType_GAUGE: "gauge"}[f.GetType()], strings.Join(labels, ", "), cell(f.GetHelp()))
	}
}

func (r *reference) reasons() {
	r.line("\n## Drop reasons\n\nreceived = forwarded + dropped, by these reasons + consumed.\n\n| reason | the packet was dropped because |\n|---|---|")
	help := map[string]string{}
	for _, x := range packet.Reasons() {
		help[x.String()] = x.Help()
	}
	for _, name := range slices.Sorted(maps.Keys(help)) {
		r.line("| `%s` | %s |", name, cell(help[name]))
	}
}

// calls lists the API. The comments are those of the schema.
func (r *reference) calls() {
	text, err := os.ReadFile("../../control/api/weir.proto")
	if err != nil {
		r.line("%v", err)
		return
	}
	call := regexp.MustCompile(`(?m)((?:^  // .*\n)*)^  rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\)`)
	comments := map[string]string{}
	for _, m := range call.FindAllStringSubmatch(string(text), -1) {
		comments[m[2]] = cell(strings.ReplaceAll(m[1], "  //", ""))
	}
	r.line("\n## Calls\n\nThe API ([`control/api/weir.proto`](../control/api/weir.proto)) speaks Connect and gRPC-Web over HTTP/1.1.\n\n| call | role | what it does |\n|---|---|---|")
	services := api.File_weir_proto.Services()
	for i := range services.Len() {
		s := services.Get(i)
		role := map[protoreflect.Name]string{"Switch": "reader", "Admin": "admin"}[s.Name()]
		for j := range s.Methods().Len() {
			name := s.Methods().Get(j).Name()
			r.line("| `/%s/%s` | %s | %s |", s.FullName(), name, role, comments[string(name)])
		}
	}
}
