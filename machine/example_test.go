package machine_test

import (
	"fmt"
	"time"

	"spillway/machine"
)

// What an ideal control could serve where cores are short for one kind of request and the memory bus for the other, and what the best control with one
// queue for both could: there each kind gets through in the proportion in which it comes.
func ExampleOptimum() {
	spec := machine.Spec{Cores: 4, Bus: machine.Bus{Total: 10e9, PerCore: 5e9}}
	demands := []machine.Demand{
		{Offered: 120_000, Core: 50 * time.Microsecond},
		{Offered: 40_000, Bytes: 1_000_000},
	}
	fmt.Printf("%.0f\n", machine.Optimum(spec, demands))
	fmt.Printf("%.0f\n", machine.Ceiling(spec, demands))
	// Output:
	// [80000 10000]
	// [30000 10000]
}
