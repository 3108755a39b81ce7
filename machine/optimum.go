package machine

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// Demand is what one class asks of a machine.
type Demand struct {
	Offered float64       // requests per second
	Core    time.Duration // mean core-time of a request while nothing contends
	Bytes   float64       // mean bytes over the bus of a request
	Locks   []float64     // mean seconds that a request holds each lock; may be shorter than the list of locks
}

// Mean adds a step's mean amounts to d, for a machine with the given bus.
func (d *Demand) Mean(s Step, b Bus) {
	switch s.Kind {
	case Compute:
		d.Core += s.Duration
	case Stream:
		alone := b.PerCore
		if s.Rate > 0 {
			alone = min(alone, s.Rate)
		}
		d.Core += time.Duration(float64(s.Bytes) / alone * 1e9)
		d.Bytes += float64(s.Bytes)
	case Lock:
		d.Core += s.Duration
		for len(d.Locks) <= int(s.Index) {
			d.Locks = append(d.Locks, 0)
		}
		d.Locks[s.Index] += s.Duration.Seconds()
	}
}

// resources is the polytope of what a machine can serve: use[r][c] is how much of resource r a request of class c takes, limit[r]
// how much of it there is each second. It describes a steady state without variance: no queue ever runs empty for lack of luck, no
// core idles while another has two requests. So nothing real exceeds it, and what falls short of it is not thereby wrong.
type resources struct {
	use   [][]float64
	limit []float64
}

func resourcesOf(s Spec, demands []Demand) resources {
	var r resources
	add := func(limit float64, use func(d Demand) float64) {
		row := make([]float64, len(demands))
		for c, d := range demands {
			row[c] = use(d)
		}
		if slices.Max(row) > 0 {
			r.use, r.limit = append(r.use, row), append(r.limit, limit)
		}
	}
	if len(demands) == 0 {
		return r
	}
	add(float64(s.Cores), func(d Demand) float64 { return d.Core.Seconds() })
	if s.Bus.Total > 0 {
		add(s.Bus.Total, func(d Demand) float64 { return d.Bytes })
	}
	locks := 0
	for _, d := range demands {
		locks = max(locks, len(d.Locks))
	}
	for l := range locks {
		add(1, func(d Demand) float64 {
			if l < len(d.Locks) {
				return d.Locks[l]
			}
			return 0
		})
	}
	return r
}

// Optimum returns, per class, the requests per second that an ideal controller of several bottlenecks would serve: the
// lexicographic max-min of the served fraction. All classes are raised together; the classes that use the first resource to
// fill stop there, the rest go on. With only such "no more than" limits this filling is exact: a class that stopped can gain only from
// another at or below its own fraction. Steady state, no variance.
func Optimum(s Spec, demands []Demand) []float64 {
	r := resourcesOf(s, demands)
	fraction := make([]float64, len(demands))
	active := make([]bool, len(demands))
	for c, d := range demands {
		active[c] = d.Offered > 0
	}
	left := slices.Clone(r.limit)
	for level := 0.0; slices.Contains(active, true); {
		rise := 1 - level
		for i := range left {
			if u := r.rate(i, demands, active); u > 0 {
				rise = min(rise, left[i]/u)
			}
		}
		level += rise
		full := make([]bool, len(left))
		for i := range left {
			left[i] -= rise * r.rate(i, demands, active)
			full[i] = left[i] <= 1e-12*r.limit[i]
		}
		for c := range demands {
			if !active[c] {
				continue
			}
			fraction[c] = level
			active[c] = level < 1-1e-12
			for i := range left {
				if full[i] && r.use[i][c] > 0 {
					active[c] = false
				}
			}
		}
	}
	served := make([]float64, len(demands))
	for c, d := range demands {
		served[c] = fraction[c] * d.Offered
	}
	return served
}

// rate returns how much of resource i the active classes would use each second if served whole.
func (r resources) rate(i int, demands []Demand, active []bool) float64 {
	sum := 0.0
	for c, d := range demands {
		if active[c] {
			sum += r.use[i][c] * d.Offered
		}
	}
	return sum
}

// Ceiling returns, per class, the most that a controller could serve which must admit all classes in the proportion in which they
// arrive: the single-queue ceiling. Steady state, no variance.
func Ceiling(s Spec, demands []Demand) []float64 {
	fraction := min(1, Headroom(s, demands))
	served := make([]float64, len(demands))
	for c, d := range demands {
		served[c] = fraction * d.Offered
	}
	return served
}

// Headroom returns by how much the offered load can grow, in its present proportions, until the first resource is full: capacity divided by
// offered load, +Inf when the classes ask for nothing.
func Headroom(s Spec, demands []Demand) float64 {
	r := resourcesOf(s, demands)
	all := make([]bool, len(demands))
	for c := range all {
		all[c] = true
	}
	headroom := math.Inf(1)
	for i := range r.limit {
		if u := r.rate(i, demands, all); u > 0 {
			headroom = min(headroom, r.limit[i]/u)
		}
	}
	return headroom
}

// GreatestTotal returns, per class, the serving that makes the sum over classes as great as it can be; it may starve a class. Where
// several servings reach that sum, it is one of them. Steady state, no variance.
func GreatestTotal(s Spec, demands []Demand) ([]float64, error) {
	if len(demands) == 0 {
		return nil, nil
	}
	r := resourcesOf(s, demands)
	// Standard form: one slack variable a row turns "no more than" into "equal to". Rows: resources, then offered loads. Everything
	// is scaled to fractions, since rates of millions beside uses of microseconds would cost the solver its precision.
	n, rows := len(demands), len(r.limit)+len(demands)
	a := mat.NewDense(rows, n+rows, nil)
	b := make([]float64, rows)
	c := make([]float64, n+rows)
	total := 0.0
	for _, d := range demands {
		total += d.Offered
	}
	for i := range r.limit {
		for k, d := range demands {
			a.Set(i, k, r.use[i][k]*d.Offered/r.limit[i])
		}
		b[i] = 1
	}
	for k, d := range demands {
		a.Set(len(r.limit)+k, k, 1)
		b[len(r.limit)+k] = 1
		c[k] = -d.Offered / max(total, 1)
	}
	for i := range rows {
		a.Set(i, n+i, 1)
	}
	_, x, err := lp.Simplex(c, a, b, 1e-10, nil)
	if err != nil {
		return nil, fmt.Errorf("greatest total: %w", err)
	}
	served := make([]float64, n)
	for k, d := range demands {
		served[k] = max(0, min(1, x[k])) * d.Offered
	}
	return served, nil
}
