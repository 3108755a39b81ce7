package profiles

import (
	"fmt"

	"spillway/workloads"
)

const kindDataFrame = "dataframe"

// FrameClasses returns the classes of a dataframe workload in the form that workloads.NewDataFrame takes.
func (w *Workload) FrameClasses() ([]workloads.FrameClass, error) {
	if w.Kind != kindDataFrame {
		return nil, fmt.Errorf("the workload is of kind %s, not dataframe", w.Kind)
	}
	var list []workloads.FrameClass
	for i := range w.Classes {
		c := &w.Classes[i]
		list = append(list, workloads.FrameClass{Name: c.Name, Share: c.Share, SLO: c.SLO.Limit, Op: c.Op})
	}
	return list, nil
}

// dataframe lets the workload itself judge its classes, but for what depends on the rows of the frame: those are the server's.
func (c *checker) dataframe(w *Workload) {
	for i := range w.Classes {
		if w.Classes[i].Work != nil {
			c.fail(fmt.Sprintf("workload.classes.%d.work", i), "work belongs to the workload kind synthetic, this is dataframe: the server knows what an operation takes")
		}
	}
	classes, err := w.FrameClasses()
	if err == nil {
		_, err = workloads.NewDataFrame(classes, 0)
	}
	if err != nil {
		c.fail("workload.classes", "%v", err)
	}
}

// FrameTable returns t in the form that workloads.NewFrameCosts takes.
func (t *Costs) FrameTable() map[string]workloads.FrameCost {
	table := make(map[string]workloads.FrameCost, len(t.Operations))
	for name, o := range t.Operations {
		table[name] = workloads.FrameCost{
			Compute: o.Compute, ComputePerStep: float64(o.ComputePerKStep) / stepsPerK, MovedPerRow: o.MovedPerRow, CachedBelow: int64(o.CachedBelow), At: float64(o.At),
		}
	}
	return table
}

const stepsPerK = 1000
