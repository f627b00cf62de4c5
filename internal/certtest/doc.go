// Package certtest gives tests an authority that signs certificates, and the files that
// programs read.
package certtest
