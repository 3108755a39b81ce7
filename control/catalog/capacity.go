package catalog

import (
	"spillway/control"
	"spillway/control/capacity"
)

// capacityRow is the edge's part of the two-level allocation.
func capacityRow() row {
	return define("capacity", "a rate for each class, granted from outside cycle by cycle; its baseline when no grant is in force",
		"two-level allocation: Mainardi, Bansal and Singh, arXiv 2608.07747",
		capacity.DefaultLimiter,
		func(c capacity.LimiterConfig, _ Env) (control.Stack, error) { return only(capacity.NewLimiter(c)), nil })
}
