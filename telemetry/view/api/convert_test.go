package api

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirswitch/weir/telemetry/query"
)

// TestAnswersSurvive converts each type of answer, filled with random values, to a message, to
// bytes and back, and loses nothing.
func TestAnswersSurvive(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, kind := range answerTypes {
		for range 60 {
			want := kind.empty()
			randomise(r, reflect.ValueOf(want).Elem(), 0)
			m, err := NewAnswer(want)
			if err != nil {
				t.Fatalf("%s: %v", kind.field, err)
			}
			got, err := overWire(t, m).Value()
			if err != nil {
				t.Fatalf("%s: %v", kind.field, err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s, -want +got:\n%s", kind.field, diff)
			}
		}
	}
}

// overWire sends a message in bytes and in JSON; both must say the same.
func overWire(t *testing.T, m *Answer) *Answer {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	binary := new(Answer)
	if err := proto.Unmarshal(b, binary); err != nil {
		t.Fatal(err)
	}
	text, err := codec{"json"}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatalf("no JSON: %s", text)
	}
	fromJSON := new(Answer)
	if err := (codec{"json"}).Unmarshal(text, fromJSON); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(binary, fromJSON) {
		t.Fatalf("the answer in bytes and in JSON differ:\n%v\n%v", binary, fromJSON)
	}
	return binary
}

// TestQuestionsSurvive does the same with questions.
func TestQuestionsSurvive(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 1000 {
		want := new(query.Question)
		randomise(r, reflect.ValueOf(want).Elem(), 0)
		m, err := NewQuestion(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Value()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
}

// randomise gives a value random content: extremes, nothing and something between. What JSON
// does not have stays as it is.
func randomise(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				randomise(r, v.Field(i), depth+1)
			}
		}
		if n, ok := v.Addr().Interface().(*query.Network); ok {
			n.Basis.Switches = 0 // the list hides it in JSON
		}
	case reflect.Array:
		for i := range v.Len() {
			randomise(r, v.Index(i), depth+1)
		}
	case reflect.Pointer:
		if r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			randomise(r, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if n := r.IntN(4); n > 0 && depth < 8 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				randomise(r, v.Index(i), depth+1)
			}
		}
	case reflect.String:
		v.SetString([]string{"", "s1", "10.0.0.1:1 > 10.0.0.2:2 udp", "<&>\"\\\n\u2028é\U0001f600", strings.Repeat("x", 300)}[r.IntN(5)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, math.MaxInt64, math.MinInt64, int64(r.Uint64())}[r.IntN(6)])
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		most := uint64(math.MaxUint64) >> (64 - v.Type().Bits())
		v.SetUint([]uint64{0, 1, most, r.Uint64() & most}[r.IntN(4)])
	case reflect.Float64:
		x := math.Float64frombits(r.Uint64())
		if math.IsNaN(x) || math.IsInf(x, 0) {
			x = 0.1
		}
		v.SetFloat([]float64{0, 1, -1, math.MaxFloat64, math.SmallestNonzeroFloat64, 1 << 53, x}[r.IntN(7)])
	default:
		panic("the schema knows no " + v.Type().String())
	}
}

// TestSchemaHasEachField compares the schema with package query's types, both ways.
func TestSchemaHasEachField(t *testing.T) {
	compareFields(t, reflect.TypeFor[query.Question](), new(Question).ProtoReflect().Descriptor())
	oneof := new(Answer).ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
	fields := map[string]bool{"none": true}
	for _, kind := range answerTypes {
		fields[kind.field] = true
		compareFields(t, reflect.TypeOf(kind.empty()).Elem(), oneof.ByName(protoreflect.Name(kind.field)).Message())
	}
	for i := range oneof.Len() {
		if name := string(oneof.Get(i).Name()); !fields[name] {
			t.Errorf("Answer's %s is of no type of answer", name)
		}
	}
}

// jsonField is a field as JSON has it.
type jsonField struct {
	of       reflect.Type
	optional bool // JSON may leave it out
}

// jsonFields lists a type's fields, with those of what it embeds.
func jsonFields(of reflect.Type, into map[string]jsonField) map[string]jsonField {
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			jsonFields(f.Type, into)
		default:
			into[name] = jsonField{f.Type, options == "omitempty" || f.Type.Kind() == reflect.Pointer}
		}
	}
	return into
}

func compareFields(t *testing.T, of reflect.Type, m protoreflect.MessageDescriptor) {
	t.Helper()
	want := jsonFields(of, map[string]jsonField{})
	question := m.Name() == "Question" // its zero values stand for nothing
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		field, ok := want[string(f.Name())]
		if !ok {
			t.Errorf("%s has no field for the schema's %s", of, f.FullName())
			continue
		}
		delete(want, string(f.Name()))
		typ := field.of
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if f.IsList() != (typ.Kind() == reflect.Slice || typ.Kind() == reflect.Array) {
			t.Errorf("%s: a list on one side alone", f.FullName())
			continue
		}
		if f.IsList() {
			typ = typ.Elem()
		}
		if f.Message() != nil {
			compareFields(t, typ, f.Message())
		} else if !question && !f.IsList() && f.HasOptionalKeyword() != field.optional {
			t.Errorf("%s: optional here %t, there %t", f.FullName(), f.HasOptionalKeyword(), field.optional)
		}
		if !slices.Contains(protoKinds[typ.Kind()], f.Kind()) {
			t.Errorf("%s is a %s, %s has %s", f.FullName(), f.Kind(), of, typ)
		}
	}
	for name := range want {
		t.Errorf("the schema's %s lacks %s of %s", m.Name(), name, of)
	}
}

// protoKinds are the schema's kinds that hold all values of Go's.
var protoKinds = map[reflect.Kind][]protoreflect.Kind{
	reflect.String: {protoreflect.StringKind}, reflect.Bool: {protoreflect.BoolKind}, reflect.Float64: {protoreflect.DoubleKind},
	reflect.Int: {protoreflect.Int64Kind}, reflect.Int64: {protoreflect.Int64Kind},
	reflect.Uint8: {protoreflect.Uint32Kind}, reflect.Uint16: {protoreflect.Uint32Kind}, reflect.Uint32: {protoreflect.Uint32Kind},
	reflect.Uint64: {protoreflect.Uint64Kind}, reflect.Struct: {protoreflect.MessageKind},
}

// TestNotConverted: what has no form in JSON is an error, and so is what nobody knows.
func TestNotConverted(t *testing.T) {
	nan := math.NaN()
	for name, answer := range map[string]any{
		"NaN":          &query.Volume{Packets: query.Bounded{Value: nan}},
		"infinity":     &query.Cardinality{Flows: query.Bounded{High: math.Inf(1)}},
		"another type": &query.Basis{},
		"nothing":      nil,
	} {
		if a, err := NewAnswer(answer); err == nil {
			t.Errorf("%s became %v", name, a)
		}
	}
	if _, err := NewQuestion(&query.Question{Theta: nan}); err == nil {
		t.Error("a question with NaN was converted")
	}
	for name, m := range map[string]*Question{
		"no question": nil, "theta": {Theta: nan}, "quantiles": {Quantiles: []float64{math.Inf(-1)}}, "sketch": {Sketch: 1 << 16},
	} {
		if _, err := m.Value(); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(name, "no ")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := new(Answer).Value(); err == nil {
		t.Error("an empty answer has a value")
	}
}
