package main

import (
	"strings"
	"testing"
)

// selecting is an assembly file as a sound compiler writes it.
const selecting = `version:
  target: Tofino
parser ingress:
  start: start
  hdr_len_adj: 16
  states:
    start:
      *:
        load: { half : 12..13 }
        next: link
    link:
      match: [ half ]
      # - ingress::hdr.ethernet.type
      0x8100:
        shift: 14
        next: tag
      *:
        shift: 14
        next: end
    tag:
      match: [ ctr_neg, byte0 ]
      0b0*******1:
        next: end
      *:
        next: end
deparser ingress:
  dictionary:
    B0: B1(3)
stage 0 ingress:
    t:
      *:
        next: a
      *:
        next: b
`

func TestLostSelections(t *testing.T) {
	if err := lostSelections(selecting); err != nil {
		t.Errorf("states that select: %v", err)
	}
	// The fault, as it looks: no match, and no constants.
	lost := strings.NewReplacer("      match: [ half ]\n", "", "0x8100:", "*:").Replace(selecting)
	for _, text := range []string{lost, strings.ReplaceAll(lost, "\n", "\r\n")} {
		err := lostSelections(text)
		if err == nil || !strings.Contains(err.Error(), "1 parser states") || !strings.Contains(err.Error(), "(ingress link)") {
			t.Errorf("error %v, want one that names the state link of ingress alone", err)
		}
	}
	both := lost + strings.ReplaceAll(lost[strings.Index(lost, "parser"):], "parser ingress", "parser egress")
	if err := lostSelections(both); err == nil || !strings.Contains(err.Error(), "(ingress link, egress link)") {
		t.Errorf("error %v, want one that names a state of either parser", err)
	}
}

func TestErrorsAlone(t *testing.T) {
	const said = "x.bfa:1: warning: something\nx.bfa:2: error: No length for clot 1\nx.bfa:3: warning: here\nexit\n"
	if got, want := string(errorsAlone([]byte(said))), "x.bfa:2: error: No length for clot 1\nexit\n"; got != want {
		t.Errorf("%q is left, want %q", got, want)
	}
}
