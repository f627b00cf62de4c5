package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirswitch/weir/telemetry/query"
)

// answerType joins a type of query's answers and its field of Answer.
type answerType struct {
	field string
	is    func(answer any) bool
	empty func() any
}

func answerOf[A any](field string) answerType {
	return answerType{field, func(answer any) bool { _, ok := answer.(*A); return ok }, func() any { return new(A) }}
}

// answerTypes are all types that query.Engine.Ask answers with.
var answerTypes = []answerType{
	answerOf[query.Volume]("volume"),
	answerOf[query.Frequency]("frequency"),
	answerOf[query.HeavyHitters]("heavy_hitters"),
	answerOf[query.Entropy]("entropy"),
	answerOf[query.Cardinality]("cardinality"),
	answerOf[query.Between]("between"),
	answerOf[query.Target]("target"),
	answerOf[query.PathAnswer]("path"),
	answerOf[query.LatencyAnswer]("latency"),
	answerOf[query.CongestionAnswer]("congestion"),
	answerOf[query.LoopsAnswer]("loops"),
	answerOf[query.Series]("series"),
	answerOf[query.Network]("network"),
}

// NewAnswer makes a message of an answer of query.Engine.Ask.
func NewAnswer(answer any) (*Answer, error) {
	for _, t := range answerTypes {
		if !t.is(answer) {
			continue
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return nil, fmt.Errorf("convert the answer: %w", err)
		}
		m := new(Answer)
		f := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(t.field))
		if err := decode(text, m.ProtoReflect().Mutable(f).Message().Interface()); err != nil {
			return nil, fmt.Errorf("convert the answer: %w", err)
		}
		return m, nil
	}
	return nil, fmt.Errorf("the schema has no answer of type %T", answer)
}

// Value makes an answer of package query of the message: *query.Volume and others. What
// Answer's none says is an error with its code; see [CodeOf].
func (a *Answer) Value() (any, error) {
	if none := a.GetNone(); none != nil {
		return nil, none.err()
	}
	r := a.ProtoReflect()
	f := r.WhichOneof(r.Descriptor().Oneofs().Get(0))
	if f == nil {
		return nil, errors.New("the answer is of a kind that this program does not know: it is older than the collector")
	}
	text, err := JSON(r.Get(f).Message().Interface())
	if err != nil {
		return nil, fmt.Errorf("convert the answer: %w", err)
	}
	for _, t := range answerTypes {
		if t.field == string(f.Name()) {
			answer := t.empty()
			return answer, strict(text, answer)
		}
	}
	return nil, fmt.Errorf("the answer's %s has no type in package query", f.Name())
}

// NewQuestion makes a message of a question.
func NewQuestion(q *query.Question) (*Question, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("the question cannot be sent: %w", err) // a number is NaN or infinite
	}
	m := new(Question)
	return m, decode(text, m)
}

// Value makes a question of package query of the message. It is not validated.
func (q *Question) Value() (*query.Question, error) {
	if q == nil {
		return nil, errors.New("question: there is none: send one, as {\"question\": {\"kind\": \"volume\"}}")
	}
	text, err := JSON(q)
	if err != nil {
		return nil, err
	}
	out := new(query.Question)
	if err := strict(text, out); err != nil {
		if wide := (*json.UnmarshalTypeError)(nil); errors.As(err, &wide) {
			return nil, fmt.Errorf("%s: %s is too large for it", wide.Field, strings.TrimPrefix(wide.Value, "number "))
		}
		return nil, err
	}
	return out, nil
}

// decode reads JSON into a message, and refuses fields that it does not have.
func decode(text []byte, m proto.Message) error {
	if err := protojson.Unmarshal(text, m); err != nil {
		return plain(err)
	}
	return nil
}

// strict reads JSON into a value of package query, as strictly.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// plain takes out of protojson's errors what changes from build to build.
func plain(err error) error {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return errors.New(strings.TrimPrefix(text, "proto: "))
}
