package fabric

// threshold is how much of a switch's buffer one ingress may hold: a share of what is left,
// so that ingresses share the buffer and none takes all.
func (n *Network) threshold(s *switchState) int64 {
	return int64(pfcShare * float64(max(n.config.Buffer-s.headroom-s.used, 0)))
}

// leaveBuffer accounts for a packet that leaves a switch.
func (n *Network) leaveBuffer(node int32, p *Packet) {
	s, in := &n.switches[node], &n.links[p.in]
	s.used -= int64(p.Bytes)
	in.held -= int64(p.Bytes)
	// An ingress that holds nothing goes on in any case.
	if in.pausing && in.held <= max(n.threshold(s)-resumeBelow, 0) {
		in.pausing = false
		n.control(in.reverse, resume)
	}
}

// pfcBytes is the size of a control frame.
const pfcBytes = 64

// control sends a frame of PFC behind the packet that is being sent on a link, before all
// that wait, paused or not.
func (n *Network) control(at uint32, kind Kind) {
	i := n.take()
	n.packets[i] = Packet{Kind: kind, Bytes: pfcBytes}
	n.launch(at, max(n.now, n.links[at].freeAt), i)
}

// setPaused stops a link behind the packet that it is sending, or lets it go on.
func (n *Network) setPaused(at uint32, paused bool) Happening {
	l := &n.links[at]
	l.paused = paused
	if !paused && (n.isHost(l.from) || !l.queue.empty()) {
		n.await(at)
	}
	return Happening{What: Until}
}
