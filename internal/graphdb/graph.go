// Package graphdb is a property graph in memory and the questions that can be asked about it: neighbours, vertices two edges away, short
// paths, triangles, personalised PageRank. What they take is orders of magnitude apart, which is what an admission control by query class is
// made for. Servers answer with it, and a simulation finds out with it what an answer costs.
package graphdb

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxVertices bounds the vertices of a Graph: their numbers are 32 bits wide, and each costs nine bytes and every worker sixteen more.
const MaxVertices = 1 << 28

// Edge connects two vertices, both ways.
type Edge struct {
	From, To uint32
	Type     uint8
}

// Graph is an undirected property graph in compressed adjacency form: every vertex has a label, every edge a type. It never changes
// once it is built, so any number of workers may read it.
type Graph struct {
	first  []uint64 // vertex v's edges are edge numbers first[v] to first[v+1]
	to     []uint32 // the vertex at the other end, ascending for each vertex
	types  []uint8  // by edge number
	labels []uint8  // by vertex
}

// Build makes a graph of len(labels) vertices. Loops and repeated edges are left out; of edges that differ in type alone the one with
// the lowest type stays. An edge to a vertex that there is not is an error.
func Build(labels []uint8, edges []Edge) (*Graph, error) {
	n := len(labels)
	switch {
	case n == 0:
		return nil, errors.New("graph: no vertices")
	case n > MaxVertices:
		return nil, fmt.Errorf("graph: %d vertices, at most %d are supported", n, MaxVertices)
	case len(edges) > math.MaxInt32:
		return nil, fmt.Errorf("graph: %d edges, at most %d are supported", len(edges), math.MaxInt32)
	}
	first := make([]uint64, n+1)
	for _, e := range edges {
		if int(e.From) >= n || int(e.To) >= n {
			return nil, fmt.Errorf("graph: an edge from %d to %d, but the vertices are 0 to %d", e.From, e.To, n-1)
		}
		if e.From != e.To {
			first[e.From+1]++
			first[e.To+1]++
		}
	}
	for v := range n {
		first[v+1] += first[v]
	}
	type half struct {
		to   uint32
		kind uint8
	}
	halves := make([]half, first[n])
	next := slices.Clone(first[:n])
	for _, e := range edges {
		if e.From == e.To {
			continue
		}
		halves[next[e.From]] = half{e.To, e.Type}
		next[e.From]++
		halves[next[e.To]] = half{e.From, e.Type}
		next[e.To]++
	}
	g := &Graph{first: make([]uint64, n+1), labels: slices.Clone(labels)}
	for v := range n {
		list := halves[first[v]:first[v+1]]
		slices.SortFunc(list, func(a, b half) int {
			return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.kind, b.kind))
		})
		for i, h := range list {
			if i > 0 && h.to == list[i-1].to {
				continue
			}
			g.to, g.types = append(g.to, h.to), append(g.types, h.kind)
		}
		g.first[v+1] = uint64(len(g.to))
	}
	return g, nil
}

// Vertices returns how many vertices there are. They are numbered from 0.
func (g *Graph) Vertices() int { return len(g.labels) }

// Edges returns how many edges there are, each counted once.
func (g *Graph) Edges() int { return len(g.to) / 2 }

// Degree returns how many edges v has.
func (g *Graph) Degree(v uint32) int { return int(g.first[v+1] - g.first[v]) }

// Label returns the label of v.
func (g *Graph) Label(v uint32) uint8 { return g.labels[v] }

// neighbours returns the vertices next to v, ascending.
func (g *Graph) neighbours(v uint32) []uint32 { return g.to[g.first[v]:g.first[v+1]] }

// typesOf returns the types of v's edges, in the order of neighbours.
func (g *Graph) typesOf(v uint32) []uint8 { return g.types[g.first[v]:g.first[v+1]] }
