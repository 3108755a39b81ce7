package profiles

import (
	"fmt"

	"spillway/workloads"
)

const kindGraph = "graph"

// GraphClasses returns the classes of a graph workload in the form that workloads.NewGraph takes.
func (w *Workload) GraphClasses() ([]workloads.GraphClass, error) {
	if w.Kind != kindGraph {
		return nil, fmt.Errorf("the workload is of kind %s, not graph", w.Kind)
	}
	var list []workloads.GraphClass
	for i := range w.Classes {
		c := &w.Classes[i]
		list = append(list, workloads.GraphClass{
			Name: c.Name, Share: c.Share, SLO: c.SLO.Limit, Query: c.Query, Accuracy: c.Accuracy, Hops: c.Hops, Popularity: c.Popularity,
		})
	}
	return list, nil
}

// Stand in for the size of the graph where a workload is checked: that is the server's.
const (
	anyVertices = 1000
	anyLabels   = 16
)

// graph lets the workload itself judge its classes.
func (c *checker) graph(w *Workload) {
	for i := range w.Classes {
		path := fmt.Sprintf("workload.classes.%d", i)
		c.oneOf(path+".query", w.Classes[i].Query, workloads.GraphQueries)
		if w.Classes[i].Work != nil {
			c.fail(path+".work", "work belongs to the workload kind synthetic, this is graph: the server knows what a query takes")
		}
	}
	classes, err := w.GraphClasses()
	if err == nil {
		_, err = workloads.NewGraph(classes, anyVertices, anyLabels)
	}
	if err != nil {
		c.fail("workload.classes", "%v", err)
	}
}

// ofGraphs checks that only classes of the kind graph have what is theirs.
func (c *checker) ofGraphs(class *Class, path, kind string) {
	if kind == kindGraph {
		return
	}
	for _, k := range []struct {
		key   string
		given bool
	}{{"query", class.Query != ""}, {"accuracy", class.Accuracy != 0}, {"hops", class.Hops != 0}} {
		if k.given {
			c.fail(path+"."+k.key, "%s belongs to the workload kind graph, this is %s", k.key, kind)
		}
	}
}
