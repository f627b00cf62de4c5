// Package freeport finds addresses for servers that tests start, end and start again.
package freeport
