package control

import (
	"errors"
	"os"

	"github.com/weirswitch/weir/internal/safefile"
)

// CheckHere reports what keeps the control of a good configuration from being served on this machine as it is now, joined, each beginning
// with its full key. It makes no file and no folder. An address is not tried where this switch runs already: it has that one.
func (c *Config) CheckHere(running bool) error {
	_, groupErr := groupNumber(c.Group)
	_, tlsErr := loadTLS(c.TLS)
	if tlsErr == nil && !running {
		l, err := ListenTLS(c.TLS)
		if tlsErr = err; l != nil {
			tlsErr = l.Close()
		}
	}
	return errors.Join(groupErr, tlsErr, auditHere(c.Audit))
}

// auditHere opens the audit log if it is there; else it sees whether one could be made.
func auditHere(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, auditFlags, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, os.ErrNotExist):
		err = safefile.MayFill(path)
	}
	if err == nil {
		return nil
	}
	return auditFault(err)
}
