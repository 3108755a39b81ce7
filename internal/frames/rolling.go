package frames

import "math"

// Mid computes the rolling mid-value: half-way between the highest high and the lowest low of the last window rows,
//
//	mid(i) = (max High(i−window+1 … i) + min Low(i−window+1 … i)) / 2,
//
// and no number in the first window−1 rows (MIDPRICE of TA-Lib, which the rolling mid-value of other libraries agrees with). Rows are cut into pieces as long
// as a window, so that each window is the end of one piece and the beginning of the next; what is highest up to each place is known for both (van Herk,
// "A fast algorithm for local minimum and maximum filters", 1992). It is a few steps a row whatever the window.
func (w *Worker) Mid(window int) error {
	high, low, out := w.f.Column(High), w.f.Column(Low), w.vector(0)
	n := len(high)
	memory := w.scratch(2 * window)
	tops, bottoms := memory[:window], memory[window:] // of the ends of the piece before
	var s summary
	for from := 0; from < n; from += window {
		if w.stopped() {
			return ErrStopped
		}
		to := min(from+window, n)
		top, bottom := high[from], low[from]
		for i := from; i < to; i++ {
			top, bottom = max(top, high[i]), min(bottom, low[i])
			switch j := i - from + 1; {
			case j == window:
				out[i] = (top + bottom) / 2
			case from == 0:
				out[i] = math.NaN()
			default:
				out[i] = (max(top, tops[j]) + min(bottom, bottoms[j])) / 2
			}
		}
		s.add(out[from:to])
		if to-from < window {
			break
		}
		top, bottom = high[to-1], low[to-1]
		for j := window - 1; j >= 0; j-- {
			top, bottom = max(top, high[from+j]), min(bottom, low[from+j])
			tops[j], bottoms[j] = top, bottom
		}
	}
	w.add("mid", out, s)
	return nil
}

// PPO computes the percentage price oscillator of Close (Appel, "Technical Analysis: Power Tools for Active Investors", 2005):
//
//	ppo(i) = 100·(F(i) − S(i)) / S(i),  histogram(i) = ppo(i) − G(i)
//
// where F and S are the exponential moving averages of Close with the fast and the slow period, and G that of ppo with the signal period. The average of
// x with a period of n rows is e(0) = x(0), e(i) = e(i−1) + 2/(n+1)·(x(i) − e(i−1)).
func (w *Worker) PPO(fast, slow, signal int) error {
	x, line, histogram := w.f.Column(Close), w.vector(0), w.vector(1)
	af, as, ag := weightOf(fast), weightOf(slow), weightOf(signal)
	f, s, g := x[0], x[0], 0.0
	var ofLine, ofHistogram summary
	err := w.blocks(func(from, to int) {
		for i := from; i < to; i++ {
			f += af * (x[i] - f)
			s += as * (x[i] - s)
			p := 100 * (f - s) / s
			g += ag * (p - g) // the first p is 0, which g begins with
			line[i], histogram[i] = p, p-g
		}
		ofLine.add(line[from:to])
		ofHistogram.add(histogram[from:to])
	})
	w.add("ppo", line, ofLine)
	w.add("histogram", histogram, ofHistogram)
	return err
}

func weightOf(period int) float64 { return 2 / (float64(period) + 1) }

// Decay computes the exponential decay of Close, the floor that a price has from the row before it:
//
//	decay(0) = x(0), decay(i) = max(x(i), x(i−1) − e^−period, 0)
//
// (mode "exponential" of the indicator `decay` of pandas-ta and of DataFrame, the library of the Svalinn artifact's experiment). It reads a column and writes
// another and does next to nothing in between, so it takes as long as its bytes need to get through.
func (w *Worker) Decay(period int) error {
	x, out := w.f.Column(Close), w.vector(0)
	d := math.Exp(-float64(period))
	var s summary
	before := x[0]
	err := w.blocks(func(from, to int) {
		in := x[from:to]
		block := out[from:to][:len(in)]
		for i, v := range in {
			y := before - d
			if v > y { // prices are above 0, and so is what is above one
				y = v
			}
			block[i] = y
			before = v
		}
		s.add(block)
		w.move(to-from, (1+writeMoves)*valueBytes)
	})
	w.add("decay", out, s)
	return err
}

// AD computes the accumulation/distribution line, which adds up volumes by the part of each bar's range that its body takes:
//
//	ad(i) = ad(i−1) + Volume(i)·(Close(i) − Open(i)) / (High(i) − Low(i)),  ad(−1) = 0,
//
// where a bar without a range adds nothing. That is Williams' form, which reads all five columns, as the operation of the Svalinn artifact's experiment does;
// Chaikin's later one puts the close between high and low in the place of the body.
func (w *Worker) AD() error {
	open, high, low, closing, volume := w.f.Column(Open), w.f.Column(High), w.f.Column(Low), w.f.Column(Close), w.f.Column(Volume)
	out := w.vector(0)
	var s summary
	line := 0.0
	err := w.blocks(func(from, to int) {
		for i := from; i < to; i++ {
			if reach := high[i] - low[i]; reach > 0 {
				line += volume[i] * (closing[i] - open[i]) / reach
			}
			out[i] = line
		}
		s.add(out[from:to])
		w.move(to-from, (5+writeMoves)*valueBytes)
	})
	w.add("ad", out, s)
	return err
}
