package workloads

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"spillway/internal/dist"
)

// GraphQueries are the kinds of query that a GraphClass may ask, as a graph server knows them.
var GraphQueries = []string{"neighbours", "triangles", "two-hop", "path", "pagerank"}

// GraphClass is one kind of query about random vertices.
type GraphClass struct {
	Name     string
	Share    float64       // of all requests; the shares of all classes sum to 1
	SLO      time.Duration // latency limit, 0 for none; it has no influence on what is asked
	Query    string        // one of GraphQueries
	Accuracy float64       // of pagerank, 0 for the server's own
	Hops     int           // of path: at most so many edges; 0 for DefaultHops

	Popularity string // of the vertices that are asked about, one of dist.RankForms; empty for uniform
}

// DefaultHops bounds the paths of a GraphClass that does not say how long they may be. Nearly all vertices of a random graph with degrees
// that follow a power law are nearer to each other.
const DefaultHops = 6

// Graph is a workload of queries about a graph. It is not safe for concurrent use.
type Graph struct {
	upTo
	classes []GraphClass
	ranks   []dist.Ranks // by class
	labels  uint64
	key     []byte
}

var (
	_ Workload = (*Graph)(nil)
	_ Varying  = (*Graph)(nil)
)

// NewGraph returns the workload over classes, about the vertices of a graph that has so many, and labels from 0 to labels-1. The error names the
// class and what is wrong with it.
func NewGraph(classes []GraphClass, vertices, labels uint64) (*Graph, error) {
	g := &Graph{classes: classes, labels: labels}
	if len(classes) == 0 {
		return nil, fmt.Errorf("a workload of graph queries needs at least one class")
	}
	if vertices < 1 || labels < 1 {
		return nil, fmt.Errorf("a graph has at least one vertex and one label")
	}
	sum, shares := 0.0, make([]float64, len(classes))
	for i, c := range classes {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("class %q: %w", c.Name, err)
		}
		ranks, err := dist.ParseRanks(c.Popularity, vertices)
		if err != nil {
			return nil, fmt.Errorf("class %q: %w", c.Name, err)
		}
		g.ranks = append(g.ranks, ranks)
		sum += c.Share
		shares[i] = c.Share
	}
	if sum < 0.999999 || sum > 1.000001 {
		return nil, fmt.Errorf("the shares of the classes sum to %g, not 1", sum)
	}
	g.set(shares)
	return g, nil
}

func (c *GraphClass) check() error {
	known := false
	for _, q := range GraphQueries {
		known = known || c.Query == q
	}
	switch {
	case !(c.Share >= 0):
		return fmt.Errorf("share must not be negative")
	case !known:
		return fmt.Errorf("query %q: there are %v", c.Query, GraphQueries)
	case c.Accuracy != 0 && (c.Query != "pagerank" || !(c.Accuracy >= 1e-8 && c.Accuracy < 1)):
		return fmt.Errorf("accuracy is for pagerank, from 1e-8 to 1")
	case c.Hops != 0 && (c.Query != "path" || c.Hops < 1 || c.Hops > 64):
		return fmt.Errorf("hops is for path, from 1 to 64")
	}
	return nil
}

// letter returns what queries of the class begin with.
func (c *GraphClass) letter() byte {
	switch c.Query {
	case "two-hop":
		return '2'
	case "pagerank":
		return 'r'
	default:
		return c.Query[0]
	}
}

func (c *GraphClass) hops() int {
	if c.Hops == 0 {
		return DefaultHops
	}
	return c.Hops
}

// Vary has the shares of the classes change with time.
func (g *Graph) Vary(shares *Shares) error { return g.vary(shares) }

// Next draws a class and what its query is about, and spells the query as the key of a get (package graphdb reads it).
func (g *Graph) Next(rng *rand.Rand, op *Op) {
	class := g.pick(rng.Float64())
	c := &g.classes[class]
	ranks := g.ranks[class]
	a := ranks.Sample(rng)
	*op = Op{Kind: Get, Class: uint16(class), Ref: a}
	k := append(g.key[:0], c.letter(), '/')
	k = strconv.AppendUint(k, a, 10)
	switch c.Query {
	case "two-hop":
		k = strconv.AppendUint(append(k, '/'), rng.Uint64N(g.labels), 10)
	case "path":
		b := ranks.Sample(rng)
		op.Ref = dist.Mix(a ^ dist.Mix(b))
		k = strconv.AppendUint(append(k, '/'), b, 10)
		k = strconv.AppendInt(append(k, '/'), int64(c.hops()), 10)
	case "pagerank":
		if c.Accuracy > 0 {
			k = strconv.AppendFloat(append(k, '/'), c.Accuracy, 'g', -1, 64)
		}
	}
	g.key = k
	op.Key = k
}
