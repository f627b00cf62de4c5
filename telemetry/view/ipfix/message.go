package ipfix

import "encoding/binary"

// The sizes of the format, in bytes, and its numbers (RFC 7011, section 3).
const (
	version       = 10
	messageHeader = 16
	setHeader     = 4
	templateSet   = 2
)

// packer packs records into messages of a session and an observation domain. A message:
//
//	0         2        4        8         12       16
//	| version | length | export | sequence | domain | sets ...
//
// and a set: id(16) length(16) records.
type packer struct {
	domain   uint32
	sequence uint32 // data records of the session so far, modulo 2^32
	limit    int    // bytes of a message at most
	// emit takes a whole message with the number of data records in it; it does not keep it.
	emit func(message []byte, records int) error

	message []byte
	set     int    // where the open set begins; 0: none
	setID   uint16 // of it
	records int    // data records in the message
	record  []byte // the one in work
}

// templates packs all templates.
func (p *packer) templates(export uint32) error {
	for t := range templates {
		if !t.used() {
			continue
		}
		p.record = t.appendTemplate(p.record[:0])
		if err := p.add(export, templateSet); err != nil {
			return err
		}
	}
	return nil
}

// flow packs a flow's record; false: there is no record of such a flow.
func (p *packer) flow(export uint32, f *Flow, w *Window) (bool, error) {
	t, ok := templateOf(f)
	if !ok {
		return false, nil
	}
	p.record = t.append(p.record[:0], f, w)
	return true, p.add(export, t.id())
}

// add puts the record in work into a set, of the message in work if there is room.
func (p *packer) add(export uint32, set uint16) error {
	need := len(p.record)
	if p.set == 0 || p.setID != set {
		need += setHeader
	}
	if len(p.message)+need > p.limit {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if len(p.message) == 0 {
		p.message = binary.BigEndian.AppendUint16(p.message, version)
		p.message = append(p.message, 0, 0) // length
		p.message = binary.BigEndian.AppendUint32(p.message, export)
		p.message = binary.BigEndian.AppendUint32(p.message, p.sequence)
		p.message = binary.BigEndian.AppendUint32(p.message, p.domain)
	}
	if p.set == 0 || p.setID != set {
		p.closeSet()
		p.set, p.setID = len(p.message), set
		p.message = binary.BigEndian.AppendUint16(p.message, set)
		p.message = append(p.message, 0, 0)
	}
	p.message = append(p.message, p.record...)
	if set != templateSet {
		p.records++
	}
	return nil
}

func (p *packer) closeSet() {
	if p.set != 0 {
		binary.BigEndian.PutUint16(p.message[p.set+2:], uint16(len(p.message)-p.set))
		p.set = 0
	}
}

// flush emits the message in work. Its records count in the sequence also if it was lost: that is how
// a collector notices.
func (p *packer) flush() error {
	if len(p.message) == 0 {
		return nil
	}
	p.closeSet()
	binary.BigEndian.PutUint16(p.message[2:], uint16(len(p.message)))
	err := p.emit(p.message, p.records)
	p.sequence += uint32(p.records)
	p.message, p.records = p.message[:0], 0
	return err
}

// drop forgets the message in work.
func (p *packer) drop() { p.message, p.records, p.set = p.message[:0], 0, 0 }
