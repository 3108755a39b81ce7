package credit_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/control/credit"
)

// A utility of one's own: throughput, but a drop costs as much as ten completions bring.
func ExampleUtility() {
	dearDrops := credit.UtilityFunc(func(e *credit.Experiment) float64 {
		return e.Rate(e.Out) - 10*e.Rate(e.Drops)
	})
	config, err := credit.DefaultSvalinn().For(500 * time.Microsecond) // the SLO
	if err != nil {
		fmt.Println(err)
		return
	}
	s := credit.NewSvalinn(config, 8, rand.New(rand.NewPCG(1, 2)), dearDrops)
	seen := credit.Experiment{Duration: 400 * time.Microsecond, In: 40, Out: 36, Drops: 4}
	fmt.Println(config.Budget, s.Size(), dearDrops.Of(&seen))
	// Output: 200µs 8 -10000
}
