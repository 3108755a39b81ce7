//go:build linux

package graph

import (
	"spillway/internal/graphdb"
	"spillway/internal/memproto"
	"spillway/machine"
	"spillway/servers"
)

// Costs is what queries cost on a modelled machine: compute in proportion to the edges that a query looks at. It finds out how many by
// answering the query.
type Costs struct {
	table  [graphdb.NumKinds]graphdb.Cost
	worker *graphdb.Worker
	answer []byte
}

var _ servers.Coster = (*Costs)(nil)

// NewCosts returns the costs of queries about g. It is for one goroutine.
func NewCosts(g *graphdb.Graph, table [graphdb.NumKinds]graphdb.Cost) *Costs {
	return &Costs{table: table, worker: graphdb.NewWorker(g)}
}

// Steps appends the compute of the query that cmd asks.
func (c *Costs) Steps(dst []machine.Step, cmd *memproto.Command) ([]machine.Step, error) {
	query, err := theQuery(cmd)
	if err == nil {
		c.answer, err = c.worker.Answer(&query, c.answer[:0])
	}
	if err != nil {
		return dst, err
	}
	return append(dst, machine.Step{Kind: machine.Compute, Duration: c.table[query.Kind].Of(c.worker.Work())}), nil
}
