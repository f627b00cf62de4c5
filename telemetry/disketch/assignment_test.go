package disketch

import (
	"errors"
	"reflect"
	"testing"
)

func someAssignments() Assignments {
	return Assignments{Version: 1 << 60, Each: []SketchAssignment{
		{Sketch: 0, Epochs: 30, Assignment: Assignment{Log: 2, From: 1 << 33, Until: 1<<33 + 64}},
		{Sketch: 3, Epochs: 27, Assignment: Assignment{Log: 0, From: 5, Until: 6}},
	}}
}

func TestAssignments(t *testing.T) {
	a := someAssignments()
	b, err := a.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got Assignments
	if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got, a) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range b {
		if err := new(Assignments).UnmarshalBinary(b[:i]); !errors.Is(err, ErrAssignments) {
			t.Errorf("%d bytes of %d: %v", i, len(b), err)
		}
	}
	for name, wrong := range map[string]SketchAssignment{
		"too many subepochs": {Epochs: 30, Assignment: Assignment{Log: MaxLog + 1, From: 1, Until: 2}},
		"no epoch":           {Epochs: 30, Assignment: Assignment{From: 2, Until: 2}},
		"too long":           {Epochs: 30, Assignment: Assignment{From: 0, Until: longestAssignment + 1}},
		"no length":          {Epochs: 3, Assignment: Assignment{From: 0, Until: 1}},
	} {
		x := Assignments{Each: []SketchAssignment{wrong}}
		b, _ := x.AppendBinary(nil)
		if err := new(Assignments).UnmarshalBinary(b); !errors.Is(err, ErrAssignments) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzAssignments(f *testing.F) {
	a := someAssignments()
	b, _ := a.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Assignments
		if a.UnmarshalBinary(b) != nil {
			return
		}
		again, _ := a.AppendBinary(nil)
		var c Assignments
		if err := c.UnmarshalBinary(again); err != nil || !reflect.DeepEqual(a, c) {
			t.Fatalf("%+v becomes %+v, %v", a, c, err)
		}
	})
}
