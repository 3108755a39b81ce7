package graphdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/internal/graphdb"
)

// plain is a graph as a table: edge[a][b] is the type of an edge plus one, 0 for none. What follows works it out the long way.
type plain struct {
	labels []uint8
	edge   [][]int
}

func drawPlain(t *rapid.T) (p plain, list []graphdb.Edge) {
	n := rapid.IntRange(1, 12).Draw(t, "vertices")
	p.labels = rapid.SliceOfN(rapid.Uint8Max(2), n, n).Draw(t, "labels")
	p.edge = make([][]int, n)
	for i := range p.edge {
		p.edge[i] = make([]int, n)
	}
	for range rapid.IntRange(0, 30).Draw(t, "edges") {
		e := graphdb.Edge{
			From: uint32(rapid.IntRange(0, n-1).Draw(t, "from")), To: uint32(rapid.IntRange(0, n-1).Draw(t, "to")),
			Type: rapid.Uint8Max(2).Draw(t, "type"),
		}
		list = append(list, e)
		if e.From == e.To {
			continue
		}
		if old := p.edge[e.From][e.To]; old == 0 || int(e.Type)+1 < old {
			p.edge[e.From][e.To], p.edge[e.To][e.From] = int(e.Type)+1, int(e.Type)+1
		}
	}
	return p, list
}

// hops returns the length of a shortest path between every two vertices (Floyd and Warshall), -1 for none.
func (p *plain) hops() [][]int {
	const far = 1 << 20
	n := len(p.labels)
	d := make([][]int, n)
	for a := range d {
		d[a] = make([]int, n)
		for b := range d[a] {
			switch {
			case a == b:
			case p.edge[a][b] > 0:
				d[a][b] = 1
			default:
				d[a][b] = far
			}
		}
	}
	for k := range n {
		for a := range n {
			for b := range n {
				d[a][b] = min(d[a][b], d[a][k]+d[k][b])
			}
		}
	}
	for a := range d {
		for b := range d[a] {
			if d[a][b] >= far {
				d[a][b] = -1
			}
		}
	}
	return d
}

// TestAgainstBruteForce asks every query about every vertex of small graphs, on one worker, which must not remember anything.
func TestAgainstBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, list := drawPlain(t)
		g, err := graphdb.Build(p.labels, list)
		if err != nil {
			t.Fatal(err)
		}
		w, hops, n := graphdb.NewWorker(g), p.hops(), len(p.labels)
		for v := range n {
			for kind := -1; kind <= 2; kind++ {
				want := []uint32{}
				for u := range n {
					if e := p.edge[v][u]; e > 0 && (kind == graphdb.AnyType || e == kind+1) {
						want = append(want, uint32(u))
					}
				}
				got, count := w.Neighbours(uint32(v), kind, n, []uint32{})
				if !slices.Equal(got, want) || count != len(want) {
					t.Fatalf("neighbours of %d by type %d: %v (%d), want %v", v, kind, got, count, want)
				}
			}
			triangles := 0
			for a := range n {
				for b := range a {
					if p.edge[v][a] > 0 && p.edge[v][b] > 0 && p.edge[a][b] > 0 {
						triangles++
					}
				}
			}
			if got := w.Triangles(uint32(v)); got != triangles {
				t.Fatalf("%d triangles at %d, want %d", got, v, triangles)
			}
			for label := range uint8(3) {
				want := 0
				for u := range n {
					if hops[v][u] == 2 && p.labels[u] == label {
						want++
					}
				}
				if got := w.TwoHop(uint32(v), label); got != want {
					t.Fatalf("%d vertices labelled %d two hops from %d, want %d", got, label, v, want)
				}
			}
			for u := range n {
				for _, most := range []int{1, 2, 3, n} {
					want := hops[v][u]
					if want > most {
						want = -1
					}
					if got := w.Path(uint32(v), uint32(u), most); got != want {
						t.Fatalf("path from %d to %d within %d: %d, want %d", v, u, most, got, want)
					}
				}
			}
			checkRanks(t, w, g, &p, v)
		}
	})
}

// checkRanks holds the push against power iteration: it is too low, by at most accuracy times the degree.
func checkRanks(t *rapid.T, w *graphdb.Worker, g *graphdb.Graph, p *plain, v int) {
	const restart, accuracy = 0.15, 1e-4
	n := len(p.labels)
	exact := make([]float64, n)
	walk := make([]float64, n) // where a walk that has not ended yet is
	walk[v] = 1
	for range 400 {
		next := make([]float64, n)
		for u, mass := range walk {
			degree := g.Degree(uint32(u))
			if degree == 0 {
				exact[u] += mass
				continue
			}
			exact[u] += restart * mass
			for x := range n {
				if p.edge[u][x] > 0 {
					next[x] += (1 - restart) * mass / float64(degree)
				}
			}
		}
		walk = next
	}
	got := make([]float64, n)
	last := math.Inf(1)
	for _, r := range w.PageRank(uint32(v), restart, accuracy, n) {
		if got[r.Vertex] = r.Rank; r.Rank > last {
			t.Fatalf("ranks from %d are not in order", v)
		}
		last = r.Rank
	}
	for u := range n {
		if gap := exact[u] - got[u]; gap < -1e-9 || gap > accuracy*float64(g.Degree(uint32(u)))+1e-9 {
			t.Fatalf("rank of %d from %d: %g, exactly %g", u, v, got[u], exact[u])
		}
	}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	shape := graphdb.DefaultShape()
	shape.Vertices = 20_000
	g, err := graphdb.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	again, err := graphdb.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	if mean := 2 * float64(g.Edges()) / float64(g.Vertices()); mean < 0.85*shape.Degree || mean > shape.Degree {
		t.Errorf("mean degree %.2f, want somewhat below %g", mean, shape.Degree)
	}
	degrees := make([]int, g.Vertices())
	for v := range degrees {
		degrees[v] = g.Degree(uint32(v))
		if again.Degree(uint32(v)) != degrees[v] || again.Label(uint32(v)) != g.Label(uint32(v)) {
			t.Fatal("one shape gives two graphs")
		}
	}
	slices.Sort(degrees)
	slices.Reverse(degrees)
	// The tail above a degree where it is long enough: Hill's estimate of the exponent.
	const tail = 1000
	sum := 0.0
	for _, d := range degrees[:tail] {
		sum += math.Log(float64(d) / float64(degrees[tail]))
	}
	if exponent := 1 + tail/sum; math.Abs(exponent-shape.Exponent) > 0.4 {
		t.Errorf("the degrees follow a power law of exponent %.2f, want about %g", exponent, shape.Exponent)
	}
	// Queries of different kinds must be orders of magnitude apart in what they look at.
	w := graphdb.NewWorker(g)
	rng := rand.New(rand.NewPCG(1, 2))
	var near, rank int
	for range 200 {
		v := uint32(rng.IntN(g.Vertices()))
		w.Neighbours(v, graphdb.AnyType, 10, nil)
		near += w.Work()
		w.PageRank(v, 0.15, 1e-5, 10)
		rank += w.Work()
	}
	if rank < 100*near {
		t.Errorf("PageRank looks at %d edges, neighbours at %d: no orders of magnitude apart", rank, near)
	}
}

func TestShapesAreChecked(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*graphdb.Shape){
		func(s *graphdb.Shape) { s.Vertices = 1 },
		func(s *graphdb.Shape) { s.Degree = math.NaN() },
		func(s *graphdb.Shape) { s.Degree = 1e9 },
		func(s *graphdb.Shape) { s.Exponent = 2 },
		func(s *graphdb.Shape) { s.Labels = 0 },
		func(s *graphdb.Shape) { s.Types = 257 },
	} {
		s := graphdb.DefaultShape()
		change(&s)
		if _, err := graphdb.Generate(s); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	g, err := graphdb.Load(strings.NewReader("# comment\n% another\n\n0 1\n1\t2 7\n2,0\r\nv 2 9\n4 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	if g.Vertices() != 5 || g.Edges() != 3 || g.Label(2) != 9 || g.Degree(4) != 0 {
		t.Errorf("%d vertices, %d edges, label %d", g.Vertices(), g.Edges(), g.Label(2))
	}
	got, _ := graphdb.NewWorker(g).Neighbours(1, 7, 10, nil)
	if diff := cmp.Diff([]uint32{2}, got); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"":             "no edges",
		"0 1\n0":       "line 2",
		"0 1 2 3":      "line 1",
		"0 -1":         "line 1",
		"0 x":          `"x"`,
		"0 999999999":  "number of a vertex",
		"0 1 256":      "label or type",
		"v 1":          "v NUMBER LABEL",
		"0 1\nv 0 300": "line 2",
	} {
		if _, err := graphdb.Load(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one about %s", text, err, want)
		}
	}
}

func TestParseQuery(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]graphdb.Query{
		"n/7":         {Kind: graphdb.Neighbours, A: 7, Type: graphdb.AnyType},
		"n/7/3#again": {Kind: graphdb.Neighbours, A: 7, Type: 3},
		"t/0":         {Kind: graphdb.Triangles},
		"2/5/15":      {Kind: graphdb.TwoHop, A: 5, Label: 15},
		"p/1/2/6":     {Kind: graphdb.Path, A: 1, B: 2, Most: 6},
		"r/9":         {Kind: graphdb.PageRank, A: 9, Accuracy: 1e-5},
		"r/9/0.001":   {Kind: graphdb.PageRank, A: 9, Accuracy: 0.001},
	} {
		if got, err := graphdb.ParseQuery([]byte(key)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
	}
	for _, key := range []string{
		"", "n", "n/", "n/x", "x/1", "n/1/2/3", "n/1/256", "t/1/2", "2/1", "p/1/2", "p/1/2/0", "p/1/2/65", "p/1/2/3/4",
		"r/1/0", "r/1/1", "r/1/NaN", "r/1/1e-9", "n/-1", "n/99999999999", "n/1/+2", "#n/1",
	} {
		if q, err := graphdb.ParseQuery([]byte(key)); err == nil {
			t.Errorf("%q is read as %+v", key, q)
		}
	}
}

func FuzzParseQuery(f *testing.F) {
	for _, key := range []string{"n/7/3", "t/0#x", "2/5/15", "p/1/2/6", "r/9/0.001"} {
		f.Add([]byte(key))
	}
	g, err := graphdb.Build([]uint8{0, 1, 0, 1}, []graphdb.Edge{{From: 0, To: 1}, {From: 1, To: 2}})
	if err != nil {
		f.Fatal(err)
	}
	w := graphdb.NewWorker(g)
	f.Fuzz(func(t *testing.T, key []byte) {
		q, err := graphdb.ParseQuery(key)
		if err != nil {
			return
		}
		if out, err := w.Answer(&q, nil); err == nil && len(out) == 0 {
			t.Errorf("%q has an empty answer", key)
		}
	})
}

func TestQueriesDoNotAllocate(t *testing.T) {
	shape := graphdb.DefaultShape()
	shape.Vertices = 2000
	g, err := graphdb.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	w := graphdb.NewWorker(g)
	var out []byte
	for _, key := range []string{"n/7", "t/7", "2/7/3", "p/1/2/6", "r/9/0.0001"} {
		q, err := graphdb.ParseQuery([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		ask := func() { out, err = w.Answer(&q, out[:0]) }
		ask()
		if allocs := testing.AllocsPerRun(20, ask); allocs != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v", key, allocs, err)
		}
	}
}

func BenchmarkQueries(b *testing.B) {
	g, err := graphdb.Generate(graphdb.DefaultShape())
	if err != nil {
		b.Fatal(err)
	}
	for _, form := range []string{"n/%d", "t/%d", "2/%d/3", "p/%d/77/6", "r/%d"} {
		b.Run(form[:1], func(b *testing.B) {
			w := graphdb.NewWorker(g)
			rng := rand.New(rand.NewPCG(1, 2))
			var out []byte
			edges := 0
			for b.Loop() {
				q, err := graphdb.ParseQuery(fmt.Appendf(nil, form, rng.IntN(g.Vertices())))
				if err != nil {
					b.Fatal(err)
				}
				if out, err = w.Answer(&q, out[:0]); err != nil {
					b.Fatal(err)
				}
				edges += w.Work()
			}
			b.ReportMetric(float64(edges)/float64(b.N), "edges/op")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(edges), "ns/edge")
		})
	}
}
