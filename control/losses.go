package control

import "github.com/weirswitch/weir/control/api"

// Losses are the packets of a port that were lost before a worker received them or after
// it sent them, by reason. All reasons are there, also those with zero packets.
func Losses(p *api.Port) map[string]uint64 {
	return map[string]uint64{
		"rx_ring_full": p.RxRingFull, "rx_no_frame": p.RxNoFrame, "rx_dropped": p.RxDropped,
		"rx_invalid": p.RxInvalid, "tx_invalid": p.TxInvalid,
		"link_tx_drops": p.LinkTxDrops, "link_rx_errors": p.LinkRxErrors,
		"tx_unsent": p.TxUnsent, "rx_too_long": p.RxTooLong, "rx_tag_lost": p.RxTagLost,
	}
}
