package pipeline

import (
	"errors"
	"fmt"
)

// ErrNoPort is what a configuration says of a key that has no port's name.
var ErrNoPort = errors.New("is missing: write the name of a [[port]]")

// UndefinedPort is the fault of a key whose value names no port.
func UndefinedPort(name string) error {
	if name == "" {
		return ErrNoPort
	}
	return fmt.Errorf("port %q is not defined: define [[port]] name = %q or correct the name", name, name)
}
