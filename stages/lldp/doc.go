// Package lldp is the stage that announces the switch to its neighbours and learns of them by LLDP (IEEE 802.1AB-2016).
//
//	           ┌──────────── worker ─────────────┐
//	batch ───> │ LLDP frame of a port? consumed ─│──> all other packets go on
//	           └───────────────│─────────────────┘
//	                  [ring per worker] ──> Run ──> neighbours of each port, with their time to live
//	worker 0, by the clock ──> Emit ──> a frame out of each port, which no other stage sees
//
// Effect on packets: frames of EtherType 0x88cc to 01:80:c2:00:00:0e, 03 or 00 without a tag end here, on ports that receive. On others they
// go on, and end at the bridge (link_local) or pass it.
//
// A frame is read beside the packet path (clause 9.2.7.7). Its first three TLVs must be chassis, port and time to live, or it is discarded; a
// TLV of wrong length, or beyond the frame's end, is discarded alone, and counted. A port has a bounded table of neighbours, by chassis and port; if
// it is full, a new one is not taken until one of them leaves or ages (9.2.7.7.5). Texts of neighbours are made printable.
//
// Sent are the mandatory TLVs, port description, system name, description and capabilities, management addresses, and the largest frame
// (802.3): on start, when a port comes up, four times in a row for a new neighbour, and each interval. A switch that ends says nothing: its
// neighbours forget it by its time to live. Agents for other groups than the nearest bridge, LLDP-MED and DCBX are not there.
//
// Config keys: interval, hold, neighbours, description, management, port. Drop reason: lldp_limited. Cost: one comparison per packet.
package lldp
