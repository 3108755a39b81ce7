//go:build linux

package dataframe

import (
	"fmt"

	"spillway/internal/frames"
	"spillway/internal/memproto"
	"spillway/machine"
	"spillway/servers"
	"spillway/workloads"
)

// Costs is what operations cost on a modelled machine, by a cost table.
type Costs struct {
	rows  int
	kinds [frames.NumKinds]workloads.FrameCost
}

var _ servers.Coster = (*Costs)(nil)

// NewCosts returns the costs of operations on a frame of so many rows from a table by name of operation. The error names an operation that the table lacks. bus
// says whether the machine has a memory bus.
func NewCosts(rows int, table map[string]workloads.FrameCost, bus bool) (*Costs, error) {
	c := &Costs{rows: rows}
	for k := range frames.NumKinds {
		cost, known := table[k.String()]
		switch {
		case !known:
			return nil, fmt.Errorf("there is no cost of the operation %s", k)
		case cost.MovedPerRow > 0 && !bus:
			return nil, fmt.Errorf("the operation %s moves bytes over a memory bus, and this machine has none", k)
		}
		c.kinds[k] = cost
	}
	return c, nil
}

// Steps appends the work of the operation that cmd asks for.
func (c *Costs) Steps(dst []machine.Step, cmd *memproto.Command) ([]machine.Step, error) {
	q, err := theQuery(cmd)
	if err == nil {
		err = q.Check(c.rows)
	}
	if err != nil {
		return dst, err
	}
	return c.kinds[q.Kind].Steps(dst, &q, c.rows), nil
}
