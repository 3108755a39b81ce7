package frames

import "slices"

// KMeans sorts the log returns into k clusters by Lloyd's algorithm ("Least squares quantization in PCM", 1982), in one dimension. The first centres are the
// returns of the rows ⌊(2j+1)·n/2k⌋ for j from 0 to k−1, in ascending order. In each round every return goes to its nearest centre, of several that are
// equally near to the first, and each centre becomes the mean of its returns; one that has none stays where it is. There are exactly so many rounds.
//
// The parts of the result are the centres, how many returns are then nearest to each, and the mean of the squared distance to the nearest.
func (w *Worker) KMeans(k, rounds int) error {
	x := w.f.Column(Return)
	memory := w.scratch(3*k + 1)
	centres, sums, counts, spread := memory[:k], memory[k:2*k], memory[2*k:3*k], memory[3*k:]
	for j := range centres {
		centres[j] = x[(2*j+1)*len(x)/(2*k)]
	}
	slices.Sort(centres)
	for range rounds {
		clear(sums)
		clear(counts)
		if err := w.blocks(func(from, to int) {
			for _, v := range x[from:to] {
				j, _ := nearest(centres, v)
				sums[j] += v
				counts[j]++
			}
		}); err != nil {
			return err
		}
		for j, n := range counts {
			if n > 0 {
				centres[j] = sums[j] / n
			}
		}
	}
	clear(counts)
	if err := w.blocks(func(from, to int) {
		for _, v := range x[from:to] {
			j, d := nearest(centres, v)
			counts[j]++
			spread[0] += d
		}
	}); err != nil {
		return err
	}
	spread[0] /= float64(len(x))
	for i, v := range [...][]float64{centres, counts, spread} {
		w.add([...]string{"centres", "counts", "spread"}[i], v, summary{})
		w.parts[i].whole = true
	}
	return nil
}

// nearest returns the first of the nearest centres and the square of its distance.
func nearest(centres []float64, v float64) (at int, square float64) {
	square = (v - centres[0]) * (v - centres[0])
	for j := 1; j < len(centres); j++ {
		if d := (v - centres[j]) * (v - centres[j]); d < square {
			at, square = j, d
		}
	}
	return at, square
}
