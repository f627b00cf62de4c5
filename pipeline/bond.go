package pipeline

// Bond is what stages know of a bond: a port whose packets come and go by other ports, its members. The zero value is of a port that
// is none.
type Bond struct {
	Mode BondMode
	Hash BondHash
	// Fast asks the partner of a LACP bond for a LACPDU each second, rather than each 30 s.
	Fast bool
	// MinLinks is how many members must carry packets for the bond to be up; at least 1.
	MinLinks uint8
	// Primary is the port number, plus one, of the member that an active-backup bond prefers; 0: none.
	Primary uint16
	// SystemPriority is that of LACP (IEEE 802.1AX, 6.3.2): the lower one of two systems decides.
	SystemPriority uint16
}

// BondMode is how a bond uses its members.
type BondMode uint8

// The modes.
const (
	NoBond       BondMode = iota
	ActiveBackup          // one member at a time
	BalanceXOR            // all members that have a link, by flow
	LACP                  // all members that the partner's LACPDUs agree on, by flow
)

// String names the mode as a configuration does.
func (m BondMode) String() string {
	return [...]string{"", "active-backup", "balance-xor", "lacp"}[m]
}

// BondHash is of what a flow's member is chosen.
type BondHash uint8

// The hashes.
const (
	HashLayer34 BondHash = iota // the 5-tuple; of fragments the addresses and the protocol
	HashLayer23                 // the addresses of Ethernet and IP
	HashLayer2                  // those of Ethernet
)

// String names the hash as a configuration does.
func (h BondHash) String() string { return [...]string{"layer3+4", "layer2+3", "layer2"}[h] }
