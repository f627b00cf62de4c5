package control

import (
	"fmt"
	"path/filepath"
)

// Config is where the API is served, [control].
type Config struct {
	// Socket is the path of the unix socket; default: DefaultSocket.
	Socket string `toml:"socket"`
}

// DefaultConfig leaves the socket to DefaultSocket, which needs a name.
func DefaultConfig() Config { return Config{} }

// DefaultSocket is the path of the control socket of the switch with a name.
func DefaultSocket(name string) string { return "/run/weir/" + name + ".sock" }

// maxPath is the size of sun_path (include/uapi/linux/un.h), less the zero byte.
const maxPath = 107

// Validate reports all faults, beginning with the key.
func (c *Config) Validate() error {
	switch {
	case !filepath.IsAbs(c.Socket):
		return fmt.Errorf("socket: %q is not an absolute path: begin it with a slash", c.Socket)
	case len(c.Socket) > maxPath:
		return fmt.Errorf("socket: the path has %d bytes, a unix socket's has at most %d: choose a shorter one", len(c.Socket), maxPath)
	case filepath.Clean(c.Socket) != c.Socket:
		return fmt.Errorf("socket: %q is not in its shortest form: write %q", c.Socket, filepath.Clean(c.Socket))
	}
	return nil
}
