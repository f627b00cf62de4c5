package forward

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// kernelDevice forwards without a process.
type kernelDevice struct {
	granted string
	undo    func() error
}

func (d kernelDevice) stop() (string, error) { return d.granted, d.undo() }

// startBridge puts both ports into a bridge.
func startBridge(r *rig, _ deviceOptions) (running, error) {
	if err := r.mid.AddBridge("br0", r.ports()...); err != nil {
		return nil, err
	}
	return kernelDevice{"kernel, NAPI with GRO", func() error { return r.mid.DeleteLink("br0") }}, nil
}

// startRedirect has each port's XDP program send everything out of the other port.
func startRedirect(r *rig, _ deviceOptions) (_ running, err error) {
	var closers []func() error
	stop := func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	for _, way := range [][2]string{{portA, portB}, {portB, portA}} {
		c, err := redirect(r, way[0], way[1])
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		closers = append(closers, c)
	}
	return kernelDevice{"native XDP", stop}, nil
}

// redirect attaches `return bpf_redirect(to, 0)`. The program lives as long as its link.
func redirect(r *rig, from, to string) (stop func() error, err error) {
	in, err := r.mid.Link(from)
	if err != nil {
		return nil, err
	}
	out, err := r.mid.Link(to)
	if err != nil {
		return nil, err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "redirect", Type: ebpf.XDP, License: "Dual MIT/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(out.Attrs().Index)),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("load the redirect program (needs CAP_BPF and CAP_NET_ADMIN): %w", err)
	}
	defer program.Close()
	var l link.Link
	err = r.mid.Do(func() error {
		l, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: in.Attrs().Index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("attach the redirect program to %s: %w", from, err)
	}
	return l.Close, nil
}
