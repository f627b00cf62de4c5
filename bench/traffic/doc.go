// Package traffic sends and receives marked packets at high rates.
package traffic
