//go:build linux

package harness

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"spillway/internal/graphdb"
	"spillway/machine"
	"spillway/profiles"
	"spillway/workloads"
)

const kindGraph = "graph"

// graphFlags are the keys of server.settings of a graph server. All down to the edges say what its graph is, on every ground.
var graphFlags = map[string]string{
	"vertices": "--vertices", "degree": "--degree", "exponent": "--exponent", "labels": "--labels", "types": "--types",
	"graph_seed": "--graph-seed", settingEdges: "--edges", "parallelism": "--parallelism",
	"max_conns": "--max-conns", "threads": "--threads", "slots": "--slots", "queue": "--queue", "deadline": "--deadline", "slo": "--slo",
}

const settingEdges = "edges" // a file that the graph is read from instead

// describesGraph reports whether a key of server.settings says what the graph is, and sets that in s.
func describesGraph(s *graphdb.Shape, key, text string) (ours bool, err error) {
	whole := func(to *int) {
		n, perr := strconv.ParseInt(text, 10, 32)
		if *to = int(n); perr != nil {
			err = fmt.Errorf("%q is not a whole number", text)
		}
	}
	number := func(to *float64) {
		var perr error
		if *to, perr = strconv.ParseFloat(text, 64); perr != nil {
			err = fmt.Errorf("%q is not a number", text)
		}
	}
	switch key {
	case "vertices":
		whole(&s.Vertices)
	case "degree":
		number(&s.Degree)
	case "exponent":
		number(&s.Exponent)
	case "labels":
		whole(&s.Labels)
	case "types":
		whole(&s.Types)
	case "graph_seed":
		if s.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			err = fmt.Errorf("%q is not a whole number from 0", text)
		}
	case settingEdges:
		if text == "-" {
			err = fmt.Errorf("a list of edges is read from a file here")
		}
	default:
		return false, nil
	}
	if err == nil {
		err = s.Check()
	}
	return true, err
}

// shapeOf returns the shape of the graph that the server of p makes. Its settings have been checked, but for how they go together.
func shapeOf(p *profiles.Profile) (graphdb.Shape, error) {
	s := graphdb.DefaultShape()
	for key, text := range p.Server.Settings {
		_, _ = describesGraph(&s, key, text) // another key may yet make it right
	}
	if err := s.Check(); err != nil {
		return s, mistake(p, "server.settings", "server.settings: %w", err)
	}
	return s, nil
}

// graphOf returns the graph of the server of p.
func graphOf(p *profiles.Profile) (*graphdb.Graph, error) {
	path := p.Server.Settings[settingEdges]
	if path == "" {
		s, err := shapeOf(p)
		if err != nil {
			return nil, err
		}
		return graphdb.Generate(s)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, mistake(p, "server.settings."+settingEdges, "server.settings.%s: %w", settingEdges, err)
	}
	defer func() { _ = file.Close() }() // it has only been read
	g, err := graphdb.Load(file)
	if err != nil {
		return nil, mistake(p, "server.settings."+settingEdges, "server.settings.%s: %s: %w", settingEdges, path, err)
	}
	return g, nil
}

// graphSize is what clients must know of a graph to ask about it.
type graphSize struct{ vertices, labels uint64 }

func sizeOfGraph(p *profiles.Profile) (graphSize, error) {
	if p.Server.Settings[settingEdges] == "" {
		s, err := shapeOf(p)
		return graphSize{uint64(s.Vertices), uint64(s.Labels)}, err
	}
	g, err := graphOf(p)
	if err != nil {
		return graphSize{}, err
	}
	return measure(g), nil
}

func measure(g *graphdb.Graph) graphSize {
	size := graphSize{vertices: uint64(g.Vertices())}
	for v := range uint32(g.Vertices()) {
		size.labels = max(size.labels, uint64(g.Label(v))+1)
	}
	return size
}

// graphLoad returns the workload of a profile of queries about a graph.
func graphLoad(p *profiles.Profile, size graphSize) (*workloads.Graph, error) {
	classes, err := p.Workload.GraphClasses()
	if err != nil {
		return nil, err
	}
	return workloads.NewGraph(classes, size.vertices, size.labels)
}

// graphCosts is what queries cost in a simulation: it answers each, and charges for the edges that it looked at. It is for one simulation.
type graphCosts struct {
	table  [graphdb.NumKinds]graphdb.Cost
	worker *graphdb.Worker
	answer []byte
}

func newGraphCosts(g *graphdb.Graph) *graphCosts {
	return &graphCosts{table: graphdb.MeasuredCosts(), worker: graphdb.NewWorker(g)}
}

// Steps appends the compute of a query.
func (c *graphCosts) Steps(dst []machine.Step, op *workloads.Op) (_ []machine.Step, bytes int64) {
	query, err := graphdb.ParseQuery(op.Key)
	if err == nil {
		c.answer, err = c.worker.Answer(&query, c.answer[:0])
	}
	if err != nil {
		panic(fmt.Sprintf("harness: our own query %q: %v", op.Key, err)) // the workload knows what there is
	}
	return append(dst, machine.Step{Kind: machine.Compute, Duration: c.table[query.Kind].Of(c.worker.Work())}), 0
}

// The mean cost of a class is found by asking its queries: until it is known to meanError, but of so many at most, or as many as look at so many
// edges altogether.
const (
	meanError   = 0.01 // relative standard error
	leastAsked  = 50
	meanQueries = 20_000
	meanEdges   = 100_000_000
)

// meanCosts returns the mean work of each class of a workload, with its share.
func meanCosts(g *graphdb.Graph, p *profiles.Profile, bus machine.Bus) (demands []machine.Demand, shares []float64, err error) {
	costs, size := newGraphCosts(g), measure(g)
	classes, err := p.Workload.GraphClasses()
	if err != nil {
		return nil, nil, err
	}
	for _, class := range classes {
		shares = append(shares, class.Share)
		class.Share = 1
		w, err := workloads.NewGraph([]workloads.GraphClass{class}, size.vertices, size.labels)
		if err != nil {
			return nil, nil, err
		}
		rng := rand.New(rand.NewPCG(meanQueries, meanEdges)) // the same for every seed: capacity is the profile's
		var op workloads.Op
		var steps []machine.Step
		edges, n, mean, squares := 0, 0.0, 0.0, 0.0
		for n < meanQueries && (n < leastAsked || edges < meanEdges && squares > meanError*meanError*mean*mean*n*n) {
			w.Next(rng, &op)
			steps, _ = costs.Steps(steps[:0], &op)
			edges += costs.worker.Work()
			n++
			off := float64(steps[0].Duration) - mean
			mean += off / n
			squares += off * (float64(steps[0].Duration) - mean) // of the deviations: n times the variance
		}
		var d machine.Demand
		d.Mean(machine.Step{Kind: machine.Compute, Duration: time.Duration(mean)}, bus)
		demands = append(demands, d)
	}
	return demands, shares, nil
}
