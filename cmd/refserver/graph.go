package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"spillway/internal/graphdb"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/graph"
)

// graphFlags is the command line of refserver graph.
type graphFlags struct {
	front   frontFlags
	machine machineFlags
	shape   graphdb.Shape
	edges   string
}

func graphCommand() *cobra.Command {
	f := graphFlags{shape: graphdb.DefaultShape()}
	f.front.classes.own = graph.ClassNames()
	c := &cobra.Command{
		Use:   "graph",
		Short: "A server that answers questions about a graph in memory",
		Long: `A server that answers questions about a graph in memory. The key of a get is the query, and the value the answer:

  n/7  n/7/3        the vertices next to vertex 7; those that an edge of type 3 leads to
  2/7/5             how many vertices with label 5 are exactly two edges away from 7
  p/7/9/6           the number of edges between 7 and 9, at most 6; -1 if there are more
  t/7               the triangles that 7 is a corner of
  r/7  r/7/1e-6     the ten highest of the personalised PageRank seen from 7; more accurately, which takes longer

What follows a # is a comment. The classes of requests are the kinds of query: neighbours, triangles, two-hop, path and pagerank. The graph is made at random with degrees that follow a power law, or read from a list of edges: a line for
each, with two numbers of vertices and perhaps a type, and lines "v NUMBER LABEL" for the labels of vertices.

It prints one line a listener on standard output once it accepts connections, and serves until SIGTERM or SIGINT.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveGraph(c, &f) },
	}
	f.front.add(c)
	f.machine.add(c)
	flags := c.Flags()
	flags.IntVar(&f.front.parallelism, "parallelism", 0, "queries answered at a time; 0 for one a core")
	flags.StringVar(&f.edges, "edges", "", "file with a list of edges, - for standard input; empty for a random graph")
	flags.IntVar(&f.shape.Vertices, "vertices", f.shape.Vertices, "of the random graph")
	flags.Float64Var(&f.shape.Degree, "degree", f.shape.Degree, "mean number of edges of a vertex of the random graph")
	flags.Float64Var(&f.shape.Exponent, "exponent", f.shape.Exponent, "of the power law of its degrees")
	flags.IntVar(&f.shape.Labels, "labels", f.shape.Labels, "of its vertices: numbers from 0")
	flags.IntVar(&f.shape.Types, "types", f.shape.Types, "of its edges: numbers from 0")
	flags.Uint64Var(&f.shape.Seed, "graph-seed", f.shape.Seed, "of the random graph")
	return c
}

func serveGraph(c *cobra.Command, f *graphFlags) error {
	front, err := f.front.config()
	if err == nil && f.front.parallelism < 0 {
		err = errors.New("parallelism must not be negative")
	}
	if err == nil && f.edges == "" {
		err = f.shape.Check()
	}
	if err != nil {
		return usageError{err}
	}
	f.front.workers(&front, &f.machine)
	costs := &laterCosts{}
	stack, err := f.front.under(c, &f.machine, &front, func(machine.Spec) (servers.Coster, error) { return costs, nil })
	if err != nil {
		return err
	}
	g, err := f.graph(c.InOrStdin())
	if err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "refserver: a graph of %d vertices and %d edges\n", g.Vertices(), g.Edges())
	costs.Coster = graph.NewCosts(g, graphdb.MeasuredCosts())
	backend, err := graph.New(graph.Config{Graph: g, Parallelism: max(f.front.parallelism, 1)})
	if err != nil {
		return err
	}
	return serve(c, backend, stack, front)
}

// graph returns the graph that the flags ask for.
func (f *graphFlags) graph(stdin io.Reader) (*graphdb.Graph, error) {
	switch f.edges {
	case "":
		return graphdb.Generate(f.shape)
	case "-":
		return graphdb.Load(stdin)
	}
	file, err := os.Open(f.edges)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it has only been read
	g, err := graphdb.Load(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.edges, err)
	}
	return g, nil
}
