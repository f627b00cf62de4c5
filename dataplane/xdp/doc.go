// Package xdp loads and attaches the XDP program that hands packets to AF_XDP sockets.
package xdp
