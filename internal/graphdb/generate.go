package graphdb

import (
	"errors"
	"math"
	"math/rand/v2"
	"sort"
)

// Shape says what graph Generate makes.
type Shape struct {
	Vertices int
	Degree   float64 // mean number of edges of a vertex, before repeated ones are left out
	Exponent float64 // of the power law of degrees, above 2: P(degree = k) ∝ k^−Exponent
	Labels   int     // 1 to 256, spread evenly
	Types    int     // 1 to 256, spread evenly
	Seed     uint64
}

// DefaultShape is a graph that fits in a few tens of megabytes and whose costliest queries take a thousand times as long as its
// cheapest. 2.3 is where the exponents of measured social networks lie.
func DefaultShape() Shape {
	return Shape{Vertices: 200_000, Degree: 16, Exponent: 2.3, Labels: 16, Types: 4, Seed: 1}
}

// Check says what is wrong with s, nil if nothing is.
func (s Shape) Check() error {
	switch {
	case s.Vertices < 2 || s.Vertices > MaxVertices:
		return errors.New("graph: vertices must be between 2 and 268435456")
	case !(s.Degree > 0) || s.Degree*float64(s.Vertices) > math.MaxInt32:
		return errors.New("graph: the mean degree must be above 0, and all edges together at most 2147483647")
	case !(s.Exponent > 2) || s.Exponent > 10:
		return errors.New("graph: the exponent of the degrees must be above 2, where the mean is finite, and at most 10")
	case s.Labels < 1 || s.Labels > 256 || s.Types < 1 || s.Types > 256:
		return errors.New("graph: labels and types are between 1 and 256")
	}
	return nil
}

// Generate makes a random graph whose degrees follow a power law: the model of Chung and Lu, in which both ends of every edge are drawn in
// proportion to weights w(i) ∝ (i+i0)^(−1/(Exponent−1)). i0 keeps the heaviest vertex's expected degree below √(edges), so that few
// of its edges are drawn twice. One Shape gives one graph.
func Generate(s Shape) (*Graph, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0x6a09e667f3bcc909))
	edges := int(s.Degree * float64(s.Vertices) / 2)
	upTo := weights(s, edges)
	// Heavy vertices must not be neighbours in memory by number, so the numbers are shuffled.
	name := rng.Perm(s.Vertices)
	draw := func() uint32 {
		u := rng.Float64() * upTo[len(upTo)-1]
		return uint32(name[min(sort.SearchFloat64s(upTo, u), s.Vertices-1)])
	}
	list := make([]Edge, edges)
	for i := range list {
		list[i] = Edge{From: draw(), To: draw(), Type: uint8(rng.IntN(s.Types))}
	}
	labels := make([]uint8, s.Vertices)
	for i := range labels {
		labels[i] = uint8(rng.IntN(s.Labels))
	}
	return Build(labels, list)
}

// weights returns the cumulative weights of the vertices.
func weights(s Shape, edges int) []float64 {
	power := 1 / (s.Exponent - 1)
	upTo := make([]float64, s.Vertices)
	for i0 := 1.0; ; i0 *= 1.5 {
		sum := 0.0
		for i := range upTo {
			sum += math.Pow(float64(i)+i0, -power)
			upTo[i] = sum
		}
		heaviest := 2 * float64(edges) * math.Pow(i0, -power) / sum
		if heaviest <= math.Sqrt(2*float64(edges)) || i0 > float64(s.Vertices) {
			return upTo
		}
	}
}
