//go:build race

package embed

// raceDetector tells that accesses are watched.
const raceDetector = true
