package pipeline

// Stateful is a Module with state that packets made, and that the switch should not lose when another process takes it over
// (weir switch --takeover). What else a module knows is in its configuration, or begins anew.
type Stateful interface {
	// AppendState appends the state, while packets flow: what changes afterwards is lost. names are those of the ports by number.
	AppendState(dst []byte, names []string) ([]byte, error)
	// TakeState takes the state of another process's module, whose configuration and ports may be other ones: what does not fit is left
	// out. It is called before any packet. names are those of the other process's ports by number, and numbers those of this one's by name.
	TakeState(state []byte, names []string, numbers map[string]uint16) error
}
