package config

import (
	"strings"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages"
)

// restart is the remedy for what cannot change live.
const restart = "cannot change while the switch runs: restart it"

// Prepare gets the modules of a running switch ready for another configuration.
// commit puts what changed into force, stage by stage between two batches, and
// cannot fail. What cannot change while the switch runs is refused by full key,
// all at once; then nothing has changed. The log's level, which is no module's,
// is left to the caller.
func Prepare(old, next *Config, chain []pipeline.Named) (changes []Change, commit func(), err error) {
	changes = Diff(old, next)
	f := &faults{}
	touched := map[string]bool{}
	for _, c := range changes {
		stage, inStage := strings.CutPrefix(c.Key, "stages.")
		stage, _, _ = strings.Cut(stage, ".")
		kind, known := stages.Kinds[stage]
		switch {
		case c.Key == "log.level":
		case inStage && (old.Stages[stage] == nil || next.Stages[stage] == nil): // follows from switch.graph
		case !inStage || !known || kind.Prepare == nil:
			f.add(c.Key, restart)
		default:
			touched[stage] = true
		}
	}
	var commits []func()
	for _, n := range chain {
		if !touched[n.Name] {
			continue
		}
		commit, err := stages.Kinds[n.Name].Prepare(n.Module, next.Stages[n.Name])
		if err != nil {
			f.addAll("stages."+n.Name, err)
			continue
		}
		commits = append(commits, commit)
	}
	if len(f.list) != 0 {
		return changes, nil, f.err("")
	}
	return changes, func() {
		for _, commit := range commits {
			commit()
		}
	}, nil
}
