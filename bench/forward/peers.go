package forward

// Peer is a rival that has to be installed.
type Peer struct {
	Device  string `json:"device"`  // its name in Devices
	Name    string `json:"name"`    // of the program
	Package string `json:"package"` // of Debian, that carries it
	Path    string `json:"path"`    // of the program; empty where it is not installed
	Version string `json:"version"`
}

// Installed reports whether the rival can be measured.
func (p Peer) Installed() bool { return p.Path != "" }

// Peers lists all rivals that have to be installed, and whether they are.
func Peers() (peers []Peer) {
	for _, d := range devices {
		if d.peer != nil {
			peers = append(peers, d.peer())
		}
	}
	return peers
}
