package node

import (
	"fmt"
	"path"

	"go.uber.org/zap"
)

// Service is how a service manager supervises the process: the service ends with its main process, unless that passes the service on to another one.
type Service struct {
	// Name is the same for all processes of the service, and for no others, as the path of their control group.
	Name string
	// Successor is set where the process is not the service's main one, but takes the switch over from that, and is to be it then.
	Successor bool
	// PassOn has the manager supervise another process of the service in place of this one, and returns when it does. It is called once at most, when
	// that process forwards.
	PassOn func(process int) error
}

// admits refuses a process that takes the switch over and is not of the service, which would end without it.
func (s *Service) admits(process int, service string) error {
	if s == nil || service == s.Name {
		return nil
	}
	unit := path.Base(s.Name)
	return fmt.Errorf("process %d is not of the service %s, which would end with its main process: \"systemctl reload %s\" has a process of the service take the switch over", process, unit, unit)
}

// succeeds refuses to take over from a process that does not pass the service on.
func (s *Service) succeeds(process int, service string) error {
	if s == nil || !s.Successor || service == s.Name {
		return nil
	}
	unit := path.Base(s.Name)
	return fmt.Errorf("process %d does not pass the service %s on, which would end with it: \"systemctl restart %s\" starts this program", process, unit, unit)
}

// name is what the other process gets to know of the service.
func (s *Service) name() string {
	if s == nil {
		return ""
	}
	return s.Name
}

// passOn has the process that has taken the switch over supervised in place of this one. If that fails the service may end with this process, which has
// to end with an error then, so that the service is started again.
func (n *Node) passOn(process int) error {
	if n.options.Service == nil {
		return nil
	}
	err := n.options.Service.PassOn(process)
	if err != nil {
		err = fmt.Errorf("the service is not passed on to process %d, which has taken the switch over: %w", process, err)
		n.log.Error("the service may end with this process", zap.Error(err))
	}
	return err
}
