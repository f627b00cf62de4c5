// Package nic reads the settings of network interfaces, changes those that keep a switch from
// receiving what is on the wire, and puts them back.
//
//	Look ──> Interface: driver, features, channels, RSS, XDP ──> Config.wishes: what a port needs
//	                                                                │
//	Take: lock the ledger, adopt what a killed switch left ──> write a line ──> change the setting
//	                                                                │
//	Held.Release: put back what is still as we set it ──> remove the ledger
//
// A ledger is a file in [Folder] for each interface with changed settings. It is locked while its
// switch lives, so the lock tells the ledger of a running switch from that of a killed one. The next
// switch on the interface, or [Restore], takes the original values from it. A setting that is not as
// we left it any more was changed by the operator, and stays.
//
// An interface is that of the calling thread's network namespace. What was opened may then be used
// from any thread: sockets and the sysfs belong to the namespace in which they were made.
package nic
