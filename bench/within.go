package bench

import "fmt"

// Within is the fault of a number of a configuration that is not within its bounds, nil: it is.
func Within(name string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("%s: %d is not between %d and %d", name, value, low, high)
	}
	return nil
}
