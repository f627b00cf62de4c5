package pipeline

import "os"

// Stateful is a Module with state that packets made, and that the switch should not lose when another process takes it over
// (weir switch --takeover). What else a module knows is in its configuration, or begins anew.
type Stateful interface {
	// AppendState appends the state, while packets flow: what changes afterwards is lost. names are those of the ports by number.
	AppendState(dst []byte, names []string) ([]byte, error)
	// TakeState takes the state of another process's module, whose configuration and ports may be other ones: what does not fit is left
	// out. It is called before any packet. names are those of the other process's ports by number, and numbers those of this one's by name.
	TakeState(state []byte, names []string, numbers map[string]uint16) error
}

// Handed is a Module with state of which another process must not miss a packet's change. It is small, or in memory that both have, so that its size costs no time in
// which nothing is forwarded. Env.Shared asks for such memory.
//
//	old process                             new process
//	Share, while packets flow         ──>   Take: maps the memory, and checks it
//	AppendRest, while workers rest    ──>   Enter: what is beside that memory
//	                                        Begin: it is this one's
//	Left
//
// Until Begin the new process's module only reads, and all of its errors leave the old one as it was.
type Handed interface {
	// Share returns what Take needs, and the memory, whose files stay the module's. It may be called while packets flow.
	Share() (state []byte, files []*os.File, err error)
	// Take takes the memory of another process's module. It is called before Stage. The files become the module's, also with an error, which has a sentence for
	// people: what of the configuration differs.
	Take(state []byte, files []*os.File) error
	// AppendRest appends what Enter needs. No worker is in a batch, from here to Left or until the old process goes on.
	AppendRest(dst []byte) ([]byte, error)
	// Enter checks the state of a module whose workers rest, after Stage and before any packet.
	Enter(state []byte) error
	// Begin makes the state this process's. It cannot fail.
	Begin()
	// Left gives the state up: what this process's stages do from then on has no effect on it.
	Left()
}
