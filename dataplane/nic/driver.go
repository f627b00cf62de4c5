package nic

import "errors"

// Driver asks the driver of an interface, of the namespace of the thread that opened it. It may be used
// from any thread.
type Driver struct{ ethtool }

// OpenDriver opens a socket for questions; Close ends that.
func OpenDriver() (*Driver, error) {
	e, err := openEthtool()
	return &Driver{e}, err
}

// Name returns the driver's name, empty where the kernel does not tell.
func (d *Driver) Name(name string) string {
	i, err := d.driver(name)
	if err != nil {
		return ""
	}
	return text(i.Driver[:])
}

// BufferUnit is by how many bytes a driver counts its receive buffers in zero-copy mode, 0 for single bytes. What
// remains of a frame behind the last whole unit is not used, and a packet that is longer arrives cut into several
// (igb) or not at all (82599 of ixgbe): SRRCTL.BSIZEPKT in igb_setup_srrctl, igc_configure_rx_ring and
// ixgbe_configure_srrctl. The kernel has no question for it.
func BufferUnit(driver string) int { return drivers[driver].bufferUnit }

// ForgetsXDP reports whether a driver drops the XDP program whenever it stops its device: when the link is set down, at another
// MTU or ring size, and at a reset. The kernel does not see it and reports the program as attached, while packets pass it by
// (vmxnet3_rq_cleanup_all in drivers/net/vmxnet3/vmxnet3_drv.c, as of Linux 7.3).
func ForgetsXDP(driver string) bool { return drivers[driver].forgetsXDP }

// GenericOnly is why the XDP program of a port must not run in a driver that takes it; empty if it may.
func GenericOnly(driver string) string { return drivers[driver].genericOnly }

// Queues returns the number of receive queues. Interfaces whose drivers do not say it have those that
// rtnetlink tells.
func (d *Driver) Queues(name string) (int, error) {
	c, err := d.channels(name)
	if err == nil && c.receive() == 0 {
		err = errors.ErrUnsupported
	}
	return c.receive(), err
}

// Speed returns the link's speed in bits per second. The error is errors.ErrUnsupported where the driver does not know
// it, or that of the kernel.
func (d *Driver) Speed(name string) (uint64, error) { return d.speed(name) }

// Speed is the speed of an interface's link in bits per second, in the namespace of the calling thread. The errors
// are those of Driver.Speed.
func Speed(name string) (uint64, error) {
	d, err := OpenDriver()
	if err != nil {
		return 0, err
	}
	defer d.Close()
	return d.Speed(name)
}

// SetQueues gives an interface of the calling thread's namespace n receive queues, for good.
func SetQueues(name string, n int) error {
	d, err := open(name)
	if err != nil {
		return err
	}
	c, err := d.channels(d.name)
	if err == nil {
		err = d.setChannels(d.name, c.serving(n))
	}
	return errors.Join(err, d.close())
}

// Close closes the socket.
func (d *Driver) Close() error { return d.close() }
