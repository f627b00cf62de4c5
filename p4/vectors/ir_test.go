package vectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/bmv2/bmv2test"
)

// An interpreter of p4c's intermediate representation, for the programs of p4/tna: what p4test, the compiler without a target,
// has parsed, checked, inlined and simplified, in JSON. Externs do what those of TNA do. A register's action computes as a
// stateful ALU does, all of it from what the cell held.
//
//	p4test --toJSON ──> program ── gress ──> parser, control, deparser: values by their paths, "hdr.packet.ipv4.src"

// IRVariable names p4test. TNAVariable and CoreVariable are the folders of tna.p4 and core.p4, if it does not find them itself.
const (
	IRVariable   = "P4TEST"
	TNAVariable  = "TNA_INCLUDE"
	CoreVariable = "P4C_16_INCLUDE_PATH"
)

// node is one of the representation.
type node map[string]any

func (n node) kind() string { return n.text("Node_Type") }

func (n node) text(field string) string {
	s, _ := n[field].(string)
	return s
}

// irProgram is a compiled one. Nodes are by their numbers, and declarations by their names, in all or in a control.
type irProgram struct {
	ids   map[string]node
	types map[string]node
	parts map[string]node // parsers and controls
}

// irCompiler finds p4test. Without it the test is skipped, or fails where it was named, or a comparison was asked for.
func irCompiler(t *testing.T) string {
	t.Helper()
	compiler := os.Getenv(IRVariable)
	if compiler == "" {
		compiler = "p4test"
	}
	path, err := exec.LookPath(compiler)
	if err != nil && (os.Getenv(IRVariable) != "" || bmv2test.Required()) {
		t.Fatalf("%v: %s names p4test, the compiler of p4c without a target", err, IRVariable)
	} else if err != nil {
		t.Skipf("%v: %s names p4test, the compiler of p4c without a target", err, IRVariable)
	}
	return path
}

// irVersion is that of p4test.
func irVersion(t *testing.T) string {
	t.Helper()
	compiler, err := bmv2.Tools{Compiler: irCompiler(t)}.CompilerVersion(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return compiler
}

// loadProgram compiles a program of p4/tna.
func loadProgram(t *testing.T, name string, defines ...string) *irProgram {
	t.Helper()
	path := irCompiler(t)
	target := 1
	if name == "weir" {
		target = 2
	}
	out := filepath.Join(t.TempDir(), name+".json")
	// GlobalCopyPropagation of August 2026 takes what a table's action writes by an extern's method, as pint.p4 does with its filters,
	// for what was there before.
	args := []string{"--excludeMidendPasses", "GlobalCopyPropagation", "--toJSON", out, fmt.Sprintf("-D__TARGET_TOFINO__=%d", target)}
	for _, variable := range []string{TNAVariable, CoreVariable} {
		if dir := os.Getenv(variable); dir != "" {
			args = append(args, "-I", dir)
		}
	}
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	if text, err := exec.Command(path, append(args, filepath.Join("../tna", name+".p4"))...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var root map[string]any
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	p := &irProgram{ids: map[string]node{}, types: map[string]node{}, parts: map[string]node{}}
	p.number(root)
	for _, o := range p.list(root, "objects") {
		switch o.kind() {
		case "Type_Header", "Type_Struct":
			p.types[o.text("name")] = o
		case "P4Parser", "P4Control":
			p.parts[o.text("name")] = o
		}
	}
	return p
}

// number notes the nodes, which are written once.
func (p *irProgram) number(v any) {
	switch v := v.(type) {
	case map[string]any:
		if id, ok := v["Node_ID"].(json.Number); ok && v["Node_Type"] != nil {
			p.ids[id.String()] = v
		}
		for _, x := range v {
			p.number(x)
		}
	case []any:
		for _, x := range v {
			p.number(x)
		}
	}
}

// at is the node of a field; nil: there is none.
func (p *irProgram) at(n node, fields ...string) node {
	for _, f := range fields {
		m, ok := n[f].(map[string]any)
		if !ok {
			return nil
		}
		n = m
		if n["Node_Type"] == nil {
			if id, ok := n["Node_ID"].(json.Number); ok {
				n = p.ids[id.String()]
			}
		}
	}
	return n
}

// list are the nodes of a vector.
func (p *irProgram) list(n node, fields ...string) (all []node) {
	v, _ := p.at(n, fields...)["vec"].([]any)
	for _, x := range v {
		all = append(all, p.at(node{"x": x}, "x"))
	}
	return all
}

// number of a constant or of true and false.
func constant(n node) *big.Int {
	switch v := n["value"].(type) {
	case bool:
		return bit(v)
	case json.Number:
		if x, ok := new(big.Int).SetString(v.String(), 10); ok {
			return x
		}
	}
	panic(fmt.Sprintf("no number: %v", n))
}

func bit(b bool) *big.Int {
	if b {
		return big.NewInt(1)
	}
	return new(big.Int)
}

// annotated is the name of a declaration in the source.
func (p *irProgram) annotated(n node) string {
	for _, a := range p.list(n, "annotations") {
		if body, ok := a["body"].(map[string]any); ok && a.text("name") == "name" {
			for _, v := range p.list(body, "value") {
				return v.text("value")
			}
		}
	}
	return n.text("name")
}

// width is that of a type in bits.
func (p *irProgram) width(t node) int {
	switch t.kind() {
	case "Type_Bits":
		size, _ := t["size"].(json.Number).Int64()
		return int(size)
	case "Type_Boolean":
		return 1
	case "Type_Name":
		return p.width(p.types[p.at(t, "path").text("name")])
	case "Type_Struct", "Type_Header":
		sum := 0
		for _, f := range p.list(t, "fields") {
			sum += p.width(p.at(f, "type"))
		}
		return sum
	}
	panic("no width: " + t.kind())
}

// field is a number of known width.
type field struct {
	value *big.Int
	width int
}

// pack puts fields after each other.
func pack(fields []field) []byte {
	x, n := new(big.Int), 0
	for _, f := range fields {
		x.Or(x.Lsh(x, uint(f.width)), f.value)
		n += f.width
	}
	x.Lsh(x, uint(-n&7))
	return x.FillBytes(make([]byte, (n+7)/8))
}

// tableEntry is one that the control plane adds: a value and a mask for each key, nil: all bits.
type tableEntry struct {
	keys   [][2]*big.Int
	action string
	args   []uint64
}

// tofino is a program with its tables and registers, by their names in the source.
type tofino struct {
	*irProgram
	entries   map[string][]tableEntry
	defaults  map[string]tableEntry
	registers map[string][][]*big.Int // cells of one number, or of the fields of a struct
	counters  map[string]map[uint64]*[2]uint64
	direct    map[string]uint64        // of entries, by their action: packets
	filter    func(name string) uint64 // what a low-pass filter says: a model of it is the test's
	// Of the packet: bytes that the target counts, and copies.
	length  uint64
	mirrors [][]byte
}

func newTofino(p *irProgram) *tofino {
	return &tofino{
		irProgram: p, entries: map[string][]tableEntry{}, defaults: map[string]tableEntry{}, registers: map[string][][]*big.Int{},
		counters: map[string]map[uint64]*[2]uint64{}, direct: map[string]uint64{},
	}
}

// gress is one half of the pipeline, with a packet.
type gress struct {
	*tofino
	decls   map[string]node // of the part that runs
	values  map[string]*big.Int
	valid   map[string]bool
	in      []byte
	at      int // bits of the packet that are extracted
	out     []byte
	running string              // the action, by its name in the source
	pending map[string]*big.Int // assignments of a stateful ALU, which are not seen before its end
}

// errShort is what the parser says of a packet that ends within a header.
var errShort = errors.New("the packet ends within a header")

// run takes a packet through parser, control and deparser; given are values that the target sets. Its error is errShort.
func (f *tofino) run(name string, packet []byte, given map[string]uint64) (g *gress, err error) {
	g = &gress{tofino: f, values: map[string]*big.Int{}, valid: map[string]bool{}, in: packet}
	defer func() {
		if e := recover(); e == errShort {
			err = errShort
		} else if e != nil {
			panic(e)
		}
	}()
	parser := f.parts[name+"_parser"]
	g.declare(parser, "parserLocals")
	states := map[string]node{}
	for _, s := range f.list(parser, "states") {
		states[s.text("name")] = s
	}
	for state := "start"; state != "accept"; {
		if state == "reject" {
			return g, errShort
		}
		s := states[state]
		g.all(f.list(s, "components"))
		state = g.next(f.at(s, "selectExpression"))
	}
	for path, v := range given {
		g.values[path] = new(big.Int).SetUint64(v)
	}
	for _, part := range []string{name, name + "_deparser"} {
		g.declare(f.parts[part], "controlLocals")
		g.exec(f.at(f.parts[part], "body"))
	}
	g.out = append(g.out, packet[g.at/8:]...)
	return g, nil
}

func (g *gress) declare(part node, locals string) {
	g.decls = map[string]node{}
	for _, d := range g.list(part, locals) {
		g.decls[d.text("name")] = d
	}
}

// next is the name of the state that follows.
func (g *gress) next(e node) string {
	if e.kind() == "PathExpression" {
		return g.at2(e)
	}
	var keys []*big.Int
	for _, k := range g.list(e, "select", "components") {
		keys = append(keys, g.eval(k))
	}
	for _, c := range g.list(e, "selectCases") {
		set := g.irProgram.at(c, "keyset")
		sets := []node{set}
		if set.kind() == "ListExpression" {
			sets = g.list(set, "components")
		}
		if len(sets) == 1 && sets[0].kind() == "DefaultExpression" || g.match(keys, sets) {
			return g.at2(g.irProgram.at(c, "state"))
		}
	}
	panic(errShort)
}

func (g *gress) at2(path node) string { return g.irProgram.at(path, "path").text("name") }

// match compares keys with sets.
func (g *gress) match(keys []*big.Int, sets []node) bool {
	for i, s := range sets {
		switch s.kind() {
		case "DefaultExpression":
		case "Mask":
			mask := constant(g.irProgram.at(s, "right"))
			if new(big.Int).And(keys[i], mask).Cmp(new(big.Int).And(constant(g.irProgram.at(s, "left")), mask)) != 0 {
				return false
			}
		default:
			if keys[i].Cmp(constant(s)) != 0 {
				return false
			}
		}
	}
	return true
}

func (g *gress) all(statements []node) {
	for _, s := range statements {
		g.exec(s)
	}
}

func (g *gress) exec(s node) {
	switch s.kind() {
	case "BlockStatement":
		g.all(g.list(s, "components"))
	case "AssignmentStatement":
		g.assign(g.irProgram.at(s, "left"), g.irProgram.at(s, "right"))
	case "IfStatement":
		branch := "ifTrue"
		if g.eval(g.irProgram.at(s, "condition")).Sign() == 0 {
			branch = "ifFalse"
		}
		if b := g.irProgram.at(s, branch); b != nil {
			g.exec(b)
		}
	case "MethodCallStatement":
		g.call(g.irProgram.at(s, "methodCall"))
	case "EmptyStatement", "Declaration_Variable":
	default:
		panic("no statement: " + s.kind())
	}
}

// path is that of a value.
func (g *gress) path(e node) string {
	switch e.kind() {
	case "PathExpression":
		return g.at2(e)
	case "Member":
		return g.path(g.irProgram.at(e, "expr")) + "." + e.text("member")
	case "ArrayIndex":
		return fmt.Sprintf("%s[%v]", g.path(g.irProgram.at(e, "left")), constant(g.irProgram.at(e, "right")))
	}
	panic("no path: " + e.kind())
}

func (g *gress) read(path string) *big.Int {
	if v := g.values[path]; v != nil {
		return v
	}
	return new(big.Int)
}

// write of a stateful ALU waits for its end.
func (g *gress) write(path string, v *big.Int) {
	if g.pending != nil {
		g.pending[path] = v
		return
	}
	g.values[path] = v
}

func (g *gress) assign(left, right node) {
	t := g.irProgram.at(left, "type")
	if left.kind() != "Slice" && (t.kind() == "Type_Header" || t.kind() == "Type_Struct") {
		to := g.path(left)
		if right.kind() == "StructExpression" {
			for _, c := range g.list(right, "components") {
				g.write(to+"."+c.text("name"), g.eval(g.irProgram.at(c, "expression")))
			}
			return
		}
		from := g.path(right)
		g.valid[to] = g.valid[from]
		for _, f := range g.list(t, "fields") {
			g.write(to+"."+f.text("name"), g.read(from+"."+f.text("name")))
		}
		return
	}
	v := g.eval(right)
	if left.kind() == "Slice" {
		whole := g.irProgram.at(left, "e0")
		high, low := constant(g.irProgram.at(left, "e1")).Uint64(), constant(g.irProgram.at(left, "e2")).Uint64()
		mask := ones(int(high - low + 1))
		x := new(big.Int).AndNot(g.eval(whole), new(big.Int).Lsh(mask, uint(low)))
		g.write(g.path(whole), x.Or(x, new(big.Int).Lsh(v, uint(low))))
		return
	}
	g.write(g.path(left), v)
}

func ones(width int) *big.Int {
	x := new(big.Int).Lsh(big.NewInt(1), uint(width))
	return x.Sub(x, big.NewInt(1))
}

// eval computes an expression.
func (g *gress) eval(e node) *big.Int {
	side := func(name string) *big.Int { return g.eval(g.irProgram.at(e, name)) }
	cut := func(x *big.Int) *big.Int { return x.And(x, ones(g.width(g.irProgram.at(e, "type")))) }
	x := new(big.Int)
	switch e.kind() {
	case "Constant", "BoolLiteral":
		return constant(e)
	case "PathExpression", "ArrayIndex":
		return g.read(g.path(e))
	case "Member":
		if call := g.irProgram.at(e, "expr"); call.kind() == "MethodCallExpression" {
			hit := g.call(call).Sign() != 0
			return bit(hit == (e.text("member") == "hit"))
		}
		return g.read(g.path(e))
	case "MethodCallExpression":
		return g.call(e)
	case "Add":
		return cut(x.Add(side("left"), side("right")))
	case "Sub":
		return cut(x.Sub(side("left"), side("right")))
	case "SubSat":
		if x.Sub(side("left"), side("right")); x.Sign() < 0 {
			x.SetInt64(0)
		}
		return x
	case "BXor":
		return x.Xor(side("left"), side("right"))
	case "BAnd":
		return x.And(side("left"), side("right"))
	case "BOr":
		return x.Or(side("left"), side("right"))
	case "Cmpl":
		return cut(x.Xor(side("expr"), ones(g.width(g.irProgram.at(e, "type")))))
	case "LNot":
		return bit(side("expr").Sign() == 0)
	case "LAnd":
		return bit(side("left").Sign() != 0 && side("right").Sign() != 0)
	case "LOr":
		return bit(side("left").Sign() != 0 || side("right").Sign() != 0)
	case "Shl":
		return cut(x.Lsh(side("left"), uint(side("right").Uint64())))
	case "Shr":
		return x.Rsh(side("left"), uint(side("right").Uint64()))
	case "Concat":
		x.Lsh(side("left"), uint(g.width(g.irProgram.at(e, "right", "type"))))
		return x.Or(x, side("right"))
	case "Cast":
		return cut(x.Set(side("expr")))
	case "Slice":
		high, low := constant(g.irProgram.at(e, "e1")).Uint64(), constant(g.irProgram.at(e, "e2")).Uint64()
		x.Rsh(side("e0"), uint(low))
		return x.And(x, ones(int(high-low+1)))
	case "Equ":
		return bit(side("left").Cmp(side("right")) == 0)
	case "Neq":
		return bit(side("left").Cmp(side("right")) != 0)
	case "Grt":
		return bit(side("left").Cmp(side("right")) > 0)
	case "Geq":
		return bit(side("left").Cmp(side("right")) >= 0)
	case "Lss":
		return bit(side("left").Cmp(side("right")) < 0)
	case "Leq":
		return bit(side("left").Cmp(side("right")) <= 0)
	}
	panic("no expression: " + e.kind())
}

// call runs a method; what it returns is 0 where it returns nothing.
func (g *gress) call(e node) *big.Int {
	method := g.irProgram.at(e, "method")
	var args []node
	for _, a := range g.list(e, "arguments") {
		args = append(args, g.irProgram.at(a, "expression"))
	}
	if method.kind() == "PathExpression" {
		switch name := g.at2(method); name {
		case "max":
			a, b := g.eval(args[0]), g.eval(args[1])
			if a.Cmp(b) < 0 {
				return b
			}
			return a
		case "sizeInBytes":
			return big.NewInt(int64(g.width(g.irProgram.at(args[0], "type"))+7) / 8)
		default:
			g.action(name, nil, args)
			return new(big.Int)
		}
	}
	object := g.irProgram.at(method, "expr")
	switch name := method.text("member"); name {
	case "isValid":
		return bit(g.valid[g.path(object)])
	case "setValid":
		g.valid[g.path(object)] = true
	case "setInvalid":
		g.valid[g.path(object)] = false
	case "apply":
		return bit(g.table(g.decls[g.path(object)]))
	case "extract":
		g.extract(g.path(args[0]), g.irProgram.at(args[0], "type"))
	case "advance":
		g.take(int(g.eval(args[0]).Int64()))
	case "lookahead":
		at := g.at
		v := g.take(g.width(g.list(e, "typeArguments")[0]))
		g.at = at
		return v
	case "emit":
		if len(args) == 2 { // Mirror
			g.mirrors = append(g.mirrors, pack(g.fields(args[1])))
		} else if g.valid[g.path(args[0])] {
			g.out = append(g.out, pack(g.fields(args[0]))...)
		}
	case "get":
		return g.hash(g.decls[g.path(object)], pack(g.fields(args[0])))
	case "count":
		g.count(g.decls[g.path(object)], args)
	case "execute":
		if d := g.decls[g.path(object)]; g.extern(d) == "DirectLpf" {
			return new(big.Int).SetUint64(g.filter(g.annotated(d)))
		}
		return g.stateful(g.decls[g.path(object)], g.eval(args[0]).Uint64())
	default:
		panic("no method: " + name)
	}
	return new(big.Int)
}

// take takes bits out of the packet.
func (g *gress) take(bits int) *big.Int {
	if g.at+bits > 8*len(g.in) {
		panic(errShort)
	}
	from, to := g.at/8, (g.at+bits+7)/8
	x := new(big.Int).SetBytes(g.in[from:to])
	x.Rsh(x, uint(8*to-g.at-bits))
	g.at += bits
	return x.And(x, ones(bits))
}

func (g *gress) extract(path string, t node) {
	if t.kind() == "Type_Name" {
		t = g.types[g.irProgram.at(t, "path").text("name")]
	}
	g.valid[path] = true
	for _, f := range g.list(t, "fields") {
		g.values[path+"."+f.text("name")] = g.take(g.width(g.irProgram.at(f, "type")))
	}
	g.at = (g.at + 7) &^ 7 // the target fills up headers between ingress and egress
}

// fields are the parts of a list, a struct or a header.
func (g *gress) fields(e node) (all []field) {
	switch e.kind() {
	case "ListExpression":
		for _, c := range g.list(e, "components") {
			all = append(all, g.fields(c)...)
		}
		return all
	case "StructExpression":
		for _, c := range g.list(e, "components") {
			all = append(all, g.fields(g.irProgram.at(c, "expression"))...)
		}
		return all
	}
	t := g.irProgram.at(e, "type")
	if t.kind() == "Type_Name" {
		t = g.types[g.irProgram.at(t, "path").text("name")]
	}
	if t.kind() == "Type_Struct" || t.kind() == "Type_Header" {
		for _, f := range g.list(t, "fields") {
			all = append(all, field{g.read(g.path(e) + "." + f.text("name")), g.width(g.irProgram.at(f, "type"))})
		}
		return all
	}
	return []field{{g.eval(e), g.width(t)}}
}

// table applies a table, and says whether an entry matched.
func (g *gress) table(d node) bool {
	properties := map[string]node{}
	for _, p := range g.list(d, "properties", "properties") {
		properties[p.text("name")] = g.irProgram.at(p, "value")
	}
	var keys []*big.Int
	for _, k := range g.list(properties["key"], "keyElements") {
		keys = append(keys, g.eval(g.irProgram.at(k, "expression")))
	}
	for _, e := range g.list(properties["entries"], "entries") {
		if g.match(keys, g.list(e, "keys", "components")) {
			g.call(g.irProgram.at(e, "action"))
			return true
		}
	}
	name := g.annotated(d)
	for _, e := range g.entries[name] {
		same := true
		for i, k := range e.keys {
			x := keys[i]
			if k[1] != nil {
				x = new(big.Int).And(x, k[1])
			}
			same = same && x.Cmp(k[0]) == 0
		}
		if same {
			g.action(e.action, e.args, nil)
			return true
		}
	}
	if e, ok := g.defaults[name]; ok {
		g.action(e.action, e.args, nil)
	} else if e := g.irProgram.at(properties["default_action"], "expression"); e != nil {
		g.call(e)
	}
	return false
}

// action runs one by its name, here or in the source.
func (g *gress) action(name string, numbers []uint64, args []node) {
	d := g.decls[name]
	if d == nil {
		for _, x := range g.decls {
			if x.kind() == "P4Action" && g.annotated(x) == name {
				d = x
			}
		}
	}
	if d == nil {
		if strings.HasPrefix(name, "NoAction") {
			return
		}
		panic("no action " + name)
	}
	for i, p := range g.list(d, "parameters", "parameters") {
		var v *big.Int
		if args != nil {
			v = g.eval(args[i])
		} else {
			v = new(big.Int).SetUint64(numbers[i])
		}
		g.values[p.text("name")] = v
	}
	g.running = g.annotated(d)
	g.exec(g.irProgram.at(d, "body"))
}

// hash is a CRC by the algorithm, or the polynomial, of a declaration, or the message itself.
func (g *gress) hash(d node, message []byte) *big.Int {
	args := g.list(d, "arguments")
	polynomial, begin, end := uint32(0x04c11db7), ^uint32(0), ^uint32(0)
	switch algorithm := g.irProgram.at(args[0], "expression").text("member"); algorithm {
	case "IDENTITY":
		return new(big.Int).SetBytes(message)
	case "CRC32":
	case "CUSTOM":
		var c []*big.Int
		for _, a := range g.list(g.decls[g.at2(g.irProgram.at(args[1], "expression"))], "arguments") {
			c = append(c, constant(g.irProgram.at(a, "expression")))
		}
		if c[1].Sign() == 0 || c[2].Sign() != 0 || c[3].Sign() != 0 {
			panic("a CRC of another kind")
		}
		polynomial, begin, end = uint32(c[0].Uint64()), uint32(c[4].Uint64()), uint32(c[5].Uint64())
	default:
		panic("no hash: " + algorithm)
	}
	return new(big.Int).SetUint64(uint64(reflectedCRC(polynomial, begin, end, message)))
}

// reflectedCRC is one bit by bit.
func reflectedCRC(polynomial, begin, end uint32, message []byte) uint32 {
	reversed := uint32(0)
	for i := range 32 {
		reversed |= polynomial >> i & 1 << (31 - i)
	}
	for _, b := range message {
		begin ^= uint32(b)
		for range 8 {
			begin = begin>>1 ^ reversed&-(begin&1)
		}
	}
	return begin ^ end
}

// extern is the name of a declaration's type.
func (g *gress) extern(d node) string {
	t := g.irProgram.at(d, "type")
	if base := g.irProgram.at(t, "baseType"); base != nil {
		t = base
	}
	return g.at2(t)
}

func (g *gress) count(d node, args []node) {
	if g.extern(d) == "DirectCounter" {
		g.direct[g.running]++
		return
	}
	name, index := g.annotated(d), g.eval(args[0]).Uint64()
	if g.counters[name] == nil {
		g.counters[name] = map[uint64]*[2]uint64{}
	}
	c := g.counters[name][index]
	if c == nil {
		c = new([2]uint64)
		g.counters[name][index] = c
	}
	c[0]++
	c[1] += g.length
	if len(args) == 2 {
		c[1] -= g.eval(args[1]).Uint64()
	}
}

// register is the cells of one, as they begin.
func (g *gress) register(d node) (cells [][]*big.Int, fields []string) {
	fields = []string{""}
	t := g.list(d, "type", "arguments")[0]
	if t.kind() == "Type_Name" {
		fields = nil
		for _, f := range g.list(g.types[g.irProgram.at(t, "path").text("name")], "fields") {
			fields = append(fields, "."+f.text("name"))
		}
	}
	name := g.annotated(d)
	if g.registers[name] == nil {
		args := g.list(d, "arguments")
		for range constant(g.irProgram.at(args[0], "expression")).Uint64() {
			cell := make([]*big.Int, len(fields))
			for i := range cell {
				cell[i] = new(big.Int)
				if len(args) > 1 {
					cell[i] = constant(g.irProgram.at(args[1], "expression"))
				}
			}
			g.registers[name] = append(g.registers[name], cell)
		}
	}
	return g.registers[name], fields
}

// stateful runs a register's action on a cell.
func (g *gress) stateful(d node, index uint64) *big.Int {
	cells, fields := g.register(g.decls[g.at2(g.irProgram.at(g.list(d, "arguments")[0], "expression"))])
	apply := g.list(d, "initializer", "components")[0]
	var names []string
	for _, p := range g.list(apply, "type", "parameters", "parameters") {
		names = append(names, p.text("name"))
	}
	for i, f := range fields {
		g.values[names[0]+f] = cells[index][i]
	}
	g.pending = map[string]*big.Int{}
	g.exec(g.irProgram.at(apply, "body"))
	results := g.pending
	g.pending = nil
	// In the order of its statements a body must not do anything else.
	g.exec(g.irProgram.at(apply, "body"))
	for path, v := range results {
		if g.read(path).Cmp(v) != 0 {
			panic(fmt.Sprintf("%s: what a statement computes depends on the one before, which a stateful ALU has not", g.annotated(d)))
		}
	}
	cells[index] = slices.Clone(cells[index])
	for i, f := range fields {
		cells[index][i] = g.read(names[0] + f)
	}
	if len(names) > 1 {
		return g.read(names[1])
	}
	return new(big.Int)
}
