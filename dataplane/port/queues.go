package port

import "errors"

// QueuesOf returns how many queues the port of a configuration will serve. It
// looks at the interface, in the network namespace of the calling thread, and
// opens and changes nothing.
func QueuesOf(c Config) (int, error) {
	if c.InSharedMemory() {
		return max(c.Queues, 1), nil
	}
	if Deviceless(c.Driver) {
		return 1, nil
	}
	if c.Driver == DriverTap {
		return tapQueues(&c), nil
	}
	l, err := findLink(c.Interface)
	if c.Optional && errors.As(err, new(missingInterface)) {
		return c.Queues, nil
	}
	if err != nil {
		return 0, err
	}
	defer l.close()
	return planQueues(l, &c)
}
