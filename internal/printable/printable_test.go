package printable

import "testing"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":               "",
		"s1, Zürich":     "s1, Zürich",
		"two\nlines\r":   "two\uFFFDlines\uFFFD",
		"\x1b[31mred":    "\uFFFD[31mred",
		"no UTF-8: \xff": "no UTF-8: \uFFFD",
		"\u202ebackward": "\uFFFDbackward",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q is made %q, want %q", text, got, want)
		}
	}
}
