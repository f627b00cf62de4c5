package text_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/telemetry/view/text"
)

func TestTable(t *testing.T) {
	table := text.NewTable("NAME", ">NUMBER", "LAST")
	table.Row("é", 5, "")
	table.Row("longer", 123456789, "x")
	var b bytes.Buffer
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `
NAME       NUMBER  LAST
é               5
longer  123456789  x
`
	if diff := cmp.Diff(want[1:], b.String()); diff != "" {
		t.Error(diff)
	}
}
