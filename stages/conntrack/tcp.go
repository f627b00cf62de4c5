package conntrack

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
)

// The states of a TCP connection, as Linux names them.
const (
	stateNone uint8 = iota
	stateSynSent
	stateSynReceived
	stateEstablished
	stateFinWait
	stateCloseWait
	stateLastAck
	stateTimeWait
	stateClosed
	stateSynSent2 // a SYN from both sides
	numStates

	ignored = numStates     // passes, and changes nothing yet: the receiver's answer says whether it was valid
	refused = numStates + 1 // invalid
)

var stateNames = [...]string{"none", "syn_sent", "syn_received", "established", "fin_wait", "close_wait", "last_ack", "time_wait", "closed", "syn_sent2"}

// The kinds of segments. A reset is one whatever else is set, and so on.
const (
	segmentSyn = iota
	segmentSynAck
	segmentFin
	segmentAck
	segmentReset
	segmentNone
	numSegments
)

// transitions are the state by direction, kind of segment and state before. The drawing has a column per state before, in the order
// of the constants, and a letter for the state behind: S syn_sent, R syn_received, E established, F fin_wait, C close_wait, L last_ack,
// T time_wait, X closed, 2 syn_sent2; "i" ignored and "-" refused. What each entry is, is what Linux decides
// (net/netfilter/nf_conntrack_proto_tcp.c).
var transitions = readTransitions([2][numSegments]string{
	{
		segmentSyn:    "SSiiiiiSS2",
		segmentSynAck: "--R------R",
		segmentFin:    "--FFLLLTX-",
		segmentAck:    "E-EECCTTX-",
		segmentReset:  "-XXXXXXXXX",
		segmentNone:   "----------",
	},
	{
		segmentSyn:    "-2-----S-2",
		segmentSynAck: "-RiiiiiiiR",
		segmentFin:    "--FFLLLTX-",
		segmentAck:    "-iRECCTTXi",
		segmentReset:  "-XXXXXXXXX",
		segmentNone:   "----------",
	},
})

func readTransitions(drawing [2][numSegments]string) (t [2][numSegments][numStates]uint8) {
	letters := map[byte]uint8{
		'S': stateSynSent, 'R': stateSynReceived, 'E': stateEstablished, 'F': stateFinWait, 'C': stateCloseWait, 'L': stateLastAck,
		'T': stateTimeWait, 'X': stateClosed, '2': stateSynSent2, 'i': ignored, '-': refused,
	}
	for dir := range drawing {
		for kind, row := range drawing[dir] {
			for state := range numStates {
				t[dir][kind][state] = letters[row[state]]
			}
		}
	}
	return t
}

// tcp is what is known of both sides of a connection: 60 bytes.
type tcp struct {
	sides [2]side // that which began it, and the other one

	// Of the last segment that was ignored or accepted, and of the last ACK: retransmissions are known by it.
	lastSeq, lastAck, lastEnd uint32
	lastWin                   uint16
	lastKind, lastDir         uint8
	retransmits               uint8
	// Of the last SYN that was ignored: what counts for its sender if the answer is a SYN-ACK.
	lastScale, lastFlags uint8
	_                    uint8
}

// side is one side of a connection (van Rooij, "Real Stateful TCP Packet Filtering in IP Filter", 2001).
type side struct {
	end    uint32 // the highest sequence number behind what it has sent
	maxEnd uint32 // the highest one that the other side permits
	maxWin uint32 // the largest window that it announced, at least 1; 0: nothing was seen of it
	maxAck uint32 // the highest acknowledgement that it sent, with sideAcked
	scale  uint8  // of its windows
	flags  uint8
	_      uint16
}

const (
	sideScales     = 1 << iota // it offered window scaling
	sideSACK                   // it permits selective acknowledgements
	sideLiberal                // what it sends is not held to windows: its SYN was not seen
	sideAcked                  // maxAck is one
	sideUnanswered             // it sent data that are not acknowledged
	sideCloses                 // it closed first

	// In tcp.lastFlags alone.
	lastSimultaneous = 1 << 6 // a SYN came from both sides
	lastChallenge    = 1 << 7 // a SYN in last_ack: the answer may be a challenge (RFC 5961)
)

// maxAckWindow is how far an acknowledgement may lag, where windows are smaller.
const maxAckWindow = 66000

// maxRetransmits is from how many retransmissions on a connection lives shorter.
const maxRetransmits = 3

// segment is a TCP segment in numbers.
type segment struct {
	head     *header.TCP
	options  []byte
	seq, ack uint32
	end      uint32 // behind the data, SYN and FIN counted
	win      uint32
	flags    uint8
	kind     uint8
	fragment bool // more of its data come in other fragments
}

const (
	flagFIN = 1 << iota
	flagSYN
	flagRST
	flagPSH
	flagACK
	flagURG
)

// validFlags has a bit for each permitted combination of FIN, SYN, RST, ACK and URG, ACK and URG moved down by one.
var validFlags = func() (valid uint64) {
	for _, f := range []uint8{
		flagSYN, flagSYN | flagURG, flagSYN | flagACK, flagRST, flagRST | flagACK,
		flagFIN | flagACK, flagFIN | flagACK | flagURG, flagACK, flagACK | flagURG,
	} {
		valid |= 1 << f
	}
	return valid
}()

// readSegment reads a segment with so many bytes of data.
func readSegment(s *segment, h *header.TCP, options []byte, length uint32) (valid bool) {
	s.head, s.options = h, options
	s.flags = h.Flags()
	s.seq, s.ack, s.win = h.Seq(), h.Ack(), uint32(h.Window())
	s.end = s.seq + length + uint32(s.flags>>1&1) + uint32(s.flags&1)
	switch {
	case s.flags&flagRST != 0:
		s.kind = segmentReset
	case s.flags&(flagSYN|flagACK) == flagSYN|flagACK:
		s.kind = segmentSynAck
	case s.flags&flagSYN != 0:
		s.kind = segmentSyn
	case s.flags&flagFIN != 0:
		s.kind = segmentFin
	case s.flags&flagACK != 0:
		s.kind = segmentAck
	default:
		s.kind = segmentNone
	}
	return validFlags>>(s.flags&(flagFIN|flagSYN|flagRST|flagACK|flagURG))&1 != 0
}

func after(a, b uint32) bool  { return int32(b-a) < 0 }
func before(a, b uint32) bool { return int32(a-b) < 0 }

// begin notes the first segment of a connection, which is a SYN or, of one of which the SYN was not seen, an ACK.
func (c *tcp) begin(s *segment) {
	*c = tcp{lastKind: segmentNone}
	a := &c.sides[0]
	a.end, a.maxWin = s.end, max(s.win, 1)
	if s.kind == segmentSyn {
		a.maxEnd = a.end
		a.readOptions(s.options)
		return
	}
	a.maxEnd = a.end + a.maxWin
	a.flags = sideSACK | sideLiberal
	c.sides[1].flags = sideSACK | sideLiberal
}

// readOptions notes what a SYN offers.
func (a *side) readOptions(options []byte) {
	a.scale, a.flags = 0, 0
	for o := options; len(o) > 0; {
		switch o[0] {
		case 0:
			return
		case 1:
			o = o[1:]
			continue
		}
		if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
			return
		}
		switch {
		case o[0] == 4 && o[1] == 2:
			a.flags |= sideSACK
		case o[0] == 3 && o[1] == 3:
			a.scale = min(o[2], 14) // RFC 7323, 2.3
			a.flags |= sideScales
		}
		o = o[o[1]:]
	}
}

// highestSACK returns the highest right edge of a selective acknowledgement's blocks, at least sack.
func highestSACK(options []byte, sack uint32) uint32 {
	if len(options) == 12 && binary.BigEndian.Uint32(options) == 0x0101080a {
		return sack // a timestamp alone, as most segments have
	}
	for o := options; len(o) > 0; {
		switch o[0] {
		case 0:
			return sack
		case 1:
			o = o[1:]
			continue
		}
		if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
			return sack
		}
		if n := int(o[1]); o[0] == 5 && n >= 10 && (n-2)%8 == 0 {
			for at := 2; at < n; at += 8 {
				if right := binary.BigEndian.Uint32(o[at+4:]); after(right, sack) {
					sack = right
				}
			}
			return sack
		}
		o = o[o[1]:]
	}
	return sack
}

// verdict is what a connection's state says of a segment.
type verdict uint8

const (
	segmentPasses  verdict = iota // and the connection goes on
	segmentIgnored                // it passes, and changes nothing
	segmentInvalid
	segmentReopens // it passes as the first of a new connection: this one is over
	segmentEnds    // it passes, and the connection is over
)

// follow decides about a segment in a direction, 0 from the side that began, and moves the state.
func (e *entry) follow(s *segment, dir uint8, liberal bool) verdict {
	c := &e.tcp
	old := e.state
	next := transitions[dir&1][s.kind][old]
	switch next {
	case stateSynSent, ignored:
		if next == stateSynSent {
			if old < stateTimeWait {
				break
			}
			if (c.sides[0].flags|c.sides[1].flags)&sideCloses != 0 || c.lastDir == dir && c.lastKind == segmentReset {
				return segmentReopens
			}
		}
		if s.kind == segmentSynAck && c.lastKind == segmentSyn && c.lastDir != dir && s.ack == c.lastEnd {
			// The answer to a SYN that was ignored: both sides agree, so follow them.
			old, next = stateSynSent, stateSynReceived
			c.resume(dir)
			break
		}
		c.ignore(s, dir, old)
		return segmentIgnored
	case refused:
		return segmentInvalid
	case stateTimeWait:
		if old == stateLastAck && s.kind == segmentAck && c.lastDir != dir && c.lastKind == segmentSyn && c.lastFlags&lastChallenge != 0 {
			c.lastFlags &^= lastChallenge
			return segmentIgnored
		}
	case stateSynSent2:
		c.lastFlags |= lastSimultaneous
	case stateSynReceived:
		if dir == 1 && s.kind == segmentAck && c.lastFlags&lastSimultaneous != 0 {
			next = stateEstablished
		}
	case stateClosed:
		if s.kind != segmentReset {
			break
		}
		var checked bool
		if next, checked = e.reset(s, dir, old); next == refused {
			return segmentInvalid
		}
		if checked {
			return e.accept(s, dir, old, next)
		}
	}
	if out := c.inWindow(e.state, s, dir, liberal); out != segmentPasses {
		return out
	}
	return e.accept(s, dir, old, next)
}

// reset decides about a reset: the state behind it, and whether its window need not be checked. One whose number is not
// exactly the next one leaves an established connection as it is, as the receiver answers with a challenge (RFC 5961).
func (e *entry) reset(s *segment, dir, old uint8) (next uint8, checked bool) {
	c := &e.tcp
	next = stateClosed
	established := old == stateEstablished && e.flags&flagConfirmed != 0
	// What was acknowledged may be of an earlier connection where a SYN was let through.
	if other := &c.sides[dir&1^1]; other.flags&sideAcked != 0 && c.lastKind != segmentSyn {
		switch {
		case s.seq == 0 && !established, old >= stateFinWait && old != stateSynSent2:
			return next, false // of a connection that ends, the window decides
		case before(s.seq, other.maxAck):
			return refused, false
		case !established, s.seq == other.maxAck:
			return next, false
		case c.lastKind == segmentAck && c.lastDir == dir && s.seq == c.lastEnd:
			return next, false // the end of a train of data
		}
		next = old
	}
	ignoredBefore := e.flags&flagReplied != 0 && c.lastKind == segmentSyn ||
		e.flags&flagConfirmed == 0 && c.lastKind == segmentAck
	return next, ignoredBefore && s.ack == c.lastEnd
}

// ignore notes a segment that may be valid though the state says otherwise.
func (c *tcp) ignore(s *segment, dir, old uint8) {
	c.lastKind, c.lastDir = s.kind, dir
	c.lastSeq, c.lastEnd, c.lastWin = s.seq, s.end, uint16(s.win)
	if s.kind == segmentSyn && dir == 0 {
		var offer side
		offer.readOptions(s.options)
		c.lastFlags, c.lastScale = offer.flags, offer.scale
		if old == stateLastAck {
			c.lastFlags |= lastChallenge
		}
	}
	if old == stateSynSent && s.kind == segmentAck && dir == 1 {
		c.lastAck = s.ack
	}
}

// resume takes the state of both sides from the SYN that was ignored.
func (c *tcp) resume(dir uint8) {
	a := &c.sides[c.lastDir&1]
	a.end, a.maxEnd, a.maxWin = c.lastEnd, c.lastEnd, max(uint32(c.lastWin), 1)
	a.scale, a.flags = c.lastScale, c.lastFlags&^(lastChallenge|lastSimultaneous)
	c.lastFlags = 0
	c.sides[dir&1] = side{}
}

// open notes the SYN or SYN-ACK of a side.
func (a *side) open(other *side, s *segment, dir uint8) {
	a.end, a.maxEnd, a.maxWin = s.end, s.end, max(s.win, 1)
	a.readOptions(s.options)
	// RFC 7323, 2.2: windows are scaled if both sides offer it.
	if dir == 1 && (a.flags&sideScales == 0 || other.flags&sideScales == 0) {
		a.scale, other.scale = 0, 0
	}
}

// inWindow checks a segment against the windows, and moves them.
func (c *tcp) inWindow(state uint8, s *segment, dir uint8, liberal bool) verdict {
	sender, receiver := &c.sides[dir&1], &c.sides[dir&1^1]
	seq, end, ack, sack, win := s.seq, s.end, s.ack, s.ack, s.win
	if receiver.flags&sideSACK != 0 && len(s.options) != 0 {
		sack = highestSACK(s.options, sack)
	}
	syn, acks := s.flags&flagSYN != 0, s.flags&flagACK != 0
	switch {
	case sender.maxWin == 0 && syn:
		sender.open(receiver, s, dir)
		if !acks {
			return segmentPasses // both sides opened
		}
	case sender.maxWin == 0:
		// The connection was under way before. What the segment says must do.
		sender.end = end
		sender.maxWin = max(win<<sender.scale, 1)
		sender.maxEnd = end + sender.maxWin
		if receiver.maxWin == 0 {
			receiver.end, receiver.maxEnd = sack, sack
		} else if sack == receiver.end+1 {
			receiver.end++ // the answer to a keepalive, probably
		}
	case syn && after(end, sender.end) && (state == stateSynSent || state == stateSynReceived):
		// RFC 9293, 3.4.3: a side that begins again does so with larger numbers.
		sender.open(receiver, s, dir)
		if dir == 1 && !acks {
			return segmentPasses
		}
	}
	if !acks || s.flags&flagRST != 0 && ack == 0 {
		ack, sack = receiver.end, receiver.end
	}
	if s.flags&flagRST != 0 && seq == 0 && state == stateSynSent {
		seq, end = sender.end, sender.end // the answer to a SYN
	}
	liberal = liberal || sender.flags&sideLiberal != 0
	lag := max(sender.maxWin, maxAckWindow)
	switch {
	case !before(seq, sender.maxEnd+1):
		// Above what the receiver permits.
		over := end - sender.maxEnd + 1
		if receiver.maxWin != 0 && after(end, sender.end-receiver.maxWin-1) && over <= receiver.maxWin &&
			before(sack, receiver.end+1) && after(sack, receiver.end-lag-1) {
			// No more than a window: some hosts send so, and the other side may acknowledge it.
			sender.end = end
			sender.flags |= sideUnanswered
			if !liberal {
				return segmentIgnored
			}
			return segmentPasses
		}
		return outOfWindow(liberal)
	case !before(sack, receiver.end+1): // data that were not seen
		return outOfWindow(liberal)
	case receiver.maxWin != 0 && !after(end, sender.end-receiver.maxWin-1): // data that were acknowledged long ago
		return outOfWindow(liberal)
	case !after(sack, receiver.end-lag-1): // late
		if !liberal {
			return segmentIgnored
		}
		return segmentPasses
	}
	if s.fragment && s.flags&flagRST == 0 {
		// It is in the windows. How much data the other fragments have is not known, so none can be held from here on.
		sender.flags |= sideLiberal
		receiver.flags |= sideLiberal
	}
	if !syn {
		win <<= sender.scale
	}
	sender.maxWin = max(sender.maxWin, win+(sack-ack))
	if after(end, sender.end) {
		sender.end = end
		sender.flags |= sideUnanswered
	}
	if acks {
		if sender.flags&sideAcked == 0 || after(ack, sender.maxAck) {
			sender.maxAck = ack
		}
		sender.flags |= sideAcked
	}
	if receiver.maxWin != 0 && after(end, sender.maxEnd) {
		receiver.maxWin += end - sender.maxEnd
	}
	if after(sack+win, receiver.maxEnd-1) {
		receiver.maxEnd = sack + max(win, 1)
	}
	if ack == receiver.end {
		receiver.flags &^= sideUnanswered
	}
	if s.kind == segmentAck {
		if c.lastDir == dir && c.lastSeq == seq && c.lastAck == ack && c.lastEnd == end && c.lastWin == uint16(s.win) {
			c.retransmits = min(c.retransmits+1, 200)
		} else {
			c.lastDir, c.lastSeq, c.lastAck, c.lastEnd, c.lastWin = dir, seq, ack, end, uint16(s.win)
			c.retransmits = 0
		}
	}
	return segmentPasses
}

func outOfWindow(liberal bool) verdict {
	if liberal {
		return segmentPasses
	}
	return segmentInvalid
}

// accept moves the state by a segment that passes.
func (e *entry) accept(s *segment, dir, old, next uint8) verdict {
	c := &e.tcp
	c.lastKind, c.lastDir = s.kind, dir
	e.state = next
	if old != next && next == stateFinWait {
		c.sides[dir&1].flags |= sideCloses
	}
	if e.flags&flagReplied == 0 && s.kind == segmentReset {
		return segmentEnds // the only answer, or the sender's own: there was no connection
	}
	return segmentPasses
}

// lifetime returns how long a connection lives behind a segment that passed, in ticks, and whether it is prolonged at all.
func (e *entry) lifetime(s *segment, old uint8, v *settings) (ticks uint32, renewed bool) {
	c := &e.tcp
	ticks = v.timeouts[e.state]
	switch {
	case c.retransmits >= maxRetransmits, c.lastWin == 0:
		ticks = min(ticks, v.timeouts[timeoutRetransmits])
	case s.kind == segmentReset:
		ticks = v.timeouts[stateClosed]
	case (c.sides[0].flags|c.sides[1].flags)&sideUnanswered != 0:
		ticks = min(ticks, v.timeouts[timeoutUnanswered])
	}
	if e.flags&flagReplied == 0 {
		if s.kind == segmentSyn && old == stateSynSent {
			return 0, false // repeating a SYN without an answer does not prolong it
		}
		if e.state == stateEstablished {
			ticks = min(ticks, v.timeouts[timeoutUnanswered]) // its SYN was not seen, and no answer
		}
	}
	return ticks, true
}
