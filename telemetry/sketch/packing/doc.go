// Package packing is what the binary forms of records have in common: bytes that are compressed where that is less, and numbers of
// any width in bits. Forms say what they pack; the package knows none of them.
package packing
