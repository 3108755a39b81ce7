package stats

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
	"gonum.org/v1/gonum/stat/distuv"
)

// Location is the location of a sample, or the difference between those of two, with two tests of whether it is 0: Student's, which asks for values
// that are spread about normally, and one that asks for nothing.
type Location struct {
	N       int     // values; of two samples those of the smaller
	Mean    float64 // or the difference of means
	StdErr  float64 // of Mean
	DF      float64 // degrees of freedom of Student's distribution
	Student float64 // two-sided p of Student's test, of Welch's for two samples
	Exact   float64 // two-sided p of Wilcoxon's signed ranks, of his rank sums (Mann and Whitney) for two samples
}

// exactValues is up to how many values the distributions of ranks are computed; beyond it their normal approximation is good to three digits.
const exactValues = 50

// OneSample tests whether values, such as the differences of pairs, lie around 0. With fewer than two values the tests know nothing: their p is 1.
func OneSample(values []float64) Location {
	l := Location{N: len(values), Student: 1, Exact: signedRanks(values)}
	if l.N == 0 {
		return l
	}
	if l.N == 1 {
		l.Mean = values[0]
		return l
	}
	mean, variance := meanVariance(values)
	l.Mean, l.StdErr, l.DF = mean, math.Sqrt(variance/float64(l.N)), float64(l.N-1)
	l.Student = studentP(l.Mean, l.StdErr, l.DF)
	return l
}

// TwoSamples tests whether b lies elsewhere than a. The tests are those of benchstat, but for ranks that are shared: there it takes one tail of a lopsided
// distribution for half of both, and ours counts all choices.
func TwoSamples(a, b []float64) Location {
	l := Location{N: min(len(a), len(b)), Student: 1, Exact: 1}
	if l.N == 0 {
		return l
	}
	x, y := benchmath.NewSample(slices.Clone(a), &benchmath.DefaultThresholds), benchmath.NewSample(slices.Clone(b), &benchmath.DefaultThresholds)
	if tied(a, b) {
		l.Exact = rankSums(a, b)
	} else {
		l.Exact = benchmath.AssumeNothing.Compare(x, y).P
	}
	l.Mean = mean(b) - mean(a)
	if l.N == 1 {
		return l
	}
	_, va := meanVariance(a)
	_, vb := meanVariance(b)
	ea, eb := va/float64(len(a)), vb/float64(len(b))
	l.StdErr = math.Sqrt(ea + eb)
	l.DF = float64(len(a) + len(b) - 2)
	if l.StdErr > 0 { // Welch and Satterthwaite
		l.DF = (ea + eb) * (ea + eb) / (ea*ea/float64(len(a)-1) + eb*eb/float64(len(b)-1))
	}
	if l.StdErr > 0 {
		l.Student = benchmath.AssumeNormal.Compare(x, y).P
	} else {
		l.Student = studentP(l.Mean, l.StdErr, l.DF)
	}
	return l
}

// tied reports whether any two values of the samples together are equal.
func tied(a, b []float64) bool {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return len(slices.Compact(all)) < len(a)+len(b)
}

// Interval returns the interval of Mean by Student's distribution; ok is false where fewer than two values give none.
func (l Location) Interval(confidence float64) (low, high float64, ok bool) {
	if l.DF < 1 {
		return 0, 0, false
	}
	half := StudentQuantile((1+confidence)/2, l.DF) * l.StdErr
	return l.Mean - half, l.Mean + half, true
}

// StudentQuantile returns the value that a variable of Student's distribution is below with probability p.
func StudentQuantile(p, df float64) float64 { return distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(p) }

func studentP(mean, stderr, df float64) float64 {
	switch {
	case mean == 0:
		return 1
	case stderr == 0:
		return 0
	}
	return 2 * distuv.StudentsT{Sigma: 1, Nu: df}.CDF(-math.Abs(mean/stderr))
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Holm returns the p-values of several tests, corrected so that the probability of any false alarm among them is at most what each is held against
// (Holm, Scandinavian Journal of Statistics 6, 1979). It is valid however the tests depend on each other.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted, highest := make([]float64, len(p)), 0.0
	for rank, i := range order {
		highest = max(highest, min(p[i]*float64(len(p)-rank), 1))
		adjusted[i] = highest
	}
	return adjusted
}

// signedRanks returns the two-sided p of Wilcoxon's signed ranks: under the hypothesis each value is as likely to have the other sign. Ties share
// their ranks, and a value of 0 keeps its rank but counts for neither side (Pratt), so that the distribution is exact.
func signedRanks(values []float64) float64 {
	size := make([]float64, len(values))
	for i, v := range values {
		size[i] = math.Abs(v)
	}
	ranks := midRanks(size)
	positive, total, squares := 0, 0, 0.0
	var used []int
	for i, v := range values {
		if v == 0 {
			continue
		}
		used = append(used, ranks[i])
		total += ranks[i]
		squares += float64(ranks[i]) * float64(ranks[i])
		if v > 0 {
			positive += ranks[i]
		}
	}
	if len(used) == 0 {
		return 1
	}
	if len(used) > exactValues {
		return normalP(float64(positive)-float64(total)/2, math.Sqrt(squares)/2)
	}
	// ways[s] is the probability that the ranks of positive sign sum to s.
	ways := make([]float64, total+1)
	ways[0] = 1
	for _, r := range used {
		for s := total; s >= 0; s-- {
			ways[s] /= 2
			if s >= r {
				ways[s] += ways[s-r] / 2
			}
		}
	}
	tail := 0.0
	for s := 0; s <= min(positive, total-positive); s++ {
		tail += ways[s]
	}
	return min(2*tail, 1)
}

// rankSums returns the two-sided p of Wilcoxon's rank sums, with ties: under the hypothesis every choice of so many of all values is as likely to be a.
func rankSums(a, b []float64) float64 {
	if len(b) < len(a) {
		a, b = b, a
	}
	ranks := midRanks(append(slices.Clone(a), b...))
	n, all := len(a), len(a)+len(b)
	sum := 0
	for _, r := range ranks[:n] {
		sum += r
	}
	// Ranks are doubled, so that the mean of a sum is a whole number too.
	centre := n * (all + 1)
	if all > exactValues {
		squares := 0.0
		for _, r := range ranks {
			d := float64(r) - float64(all+1)
			squares += d * d
		}
		return normalP(float64(sum-centre), math.Sqrt(float64(n)*float64(len(b))/float64(all)/float64(all-1)*squares))
	}
	total := 0
	for _, r := range ranks {
		total += r
	}
	// ways[k][s] is the number of choices of k of the values so far whose ranks sum to s.
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k > 0; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	far, tail, choices := abs(sum-centre), 0.0, 0.0
	for s, w := range ways[n] {
		choices += w
		if abs(s-centre) >= far {
			tail += w
		}
	}
	return min(tail/choices, 1)
}

// midRanks returns twice the rank of each value, counted from 1; equal values share the mean of theirs.
func midRanks(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case values[a] < values[b]:
			return -1
		case values[a] > values[b]:
			return 1
		}
		return 0
	})
	ranks := make([]int, len(values))
	for i := 0; i < len(order); {
		end := i
		for end < len(order) && values[order[end]] == values[order[i]] {
			end++
		}
		for _, at := range order[i:end] {
			ranks[at] = i + end + 1
		}
		i = end
	}
	return ranks
}

// normalP returns the two-sided p of a deviation from the mean that is normal with the given standard deviation.
func normalP(deviation, sd float64) float64 {
	if sd == 0 {
		return 1
	}
	return math.Erfc(math.Abs(deviation) / sd / math.Sqrt2)
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
