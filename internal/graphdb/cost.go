package graphdb

import "time"

// Cost is the compute of queries of one kind, in nanoseconds: so much each, and so much for every edge that it looks at.
type Cost struct {
	PerQuery, PerEdge float64
}

// Of returns the compute of a query that looked at so many edges.
func (c Cost) Of(edges int) time.Duration {
	return time.Duration(c.PerQuery + c.PerEdge*float64(edges))
}

// MeasuredCosts are what the queries of each kind took on one core of a virtual machine (BenchmarkQueries, graph of DefaultShape, which
// fits in a large cache but not in a small one): provenance measured, and good for the proportions between the kinds rather than for
// any particular machine. Parsing the key and writing the answer are in PerQuery.
func MeasuredCosts() [NumKinds]Cost {
	return [NumKinds]Cost{
		Neighbours: {PerQuery: 200, PerEdge: 21},
		Triangles:  {PerQuery: 200, PerEdge: 1.8},
		TwoHop:     {PerQuery: 200, PerEdge: 4.4},
		Path:       {PerQuery: 200, PerEdge: 4},
		PageRank:   {PerQuery: 1000, PerEdge: 31},
	}
}
