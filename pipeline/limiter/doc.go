// Package limiter is the token bucket of everything that limits a rate, in packets
// or in bytes, for one worker or several.
package limiter
