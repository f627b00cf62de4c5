// Package buildinfo reads which build of Weir a program contains.
package buildinfo

import (
	"cmp"
	"runtime/debug"
)

// Module is Weir's module path.
const Module = "github.com/weirswitch/weir"

// release is the version of a released program, which its build sets (-ldflags -X).
var release string

// Info is what the Go tool noted in the binary. The revision is known only where the
// program was built in Weir's own checkout.
type Info struct {
	Version  string // of Weir's module; "(unknown)" without build information
	Revision string
	Time     string // of the revision
	Modified bool   // the checkout had changes
}

// Read returns the build of the running program.
func Read() Info {
	i := Info{Version: "(unknown)"}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return i
	}
	if build.Main.Path != Module { // a program that imports Weir
		for _, d := range build.Deps {
			if d.Path == Module {
				i.Version = d.Version
			}
		}
		return i
	}
	i.Version = cmp.Or(release, build.Main.Version)
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Revision = s.Value
		case "vcs.time":
			i.Time = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}
