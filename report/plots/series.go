package plots

import (
	"image/color"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"spillway/report"
)

// Bounds of what one line consists of. A figure is 240 points wide, so that more could not be told apart.
const (
	columns  = 240 // in each, a line keeps its first, lowest, highest and last point
	maxMarks = 24  // beyond it, there are only a few
	fewMarks = 7
)

// series draws one line: what gonum's plot asks for what it draws.
type series struct {
	label     string
	reference bool
	colour    color.RGBA
	marker    string
	dash      []vg.Length
	points    []dot
	unjoined  bool // the points are of names, with nothing between them
}

// dot is one point of a line.
type dot struct {
	x, y, low, high float64
	valid, marked   bool
	gap             bool // between it and the one before lies a load of which nothing is known
}

// ranged reports whether repeats differed.
func (d *dot) ranged() bool { return d.high > d.low }

func newSeries(l *report.Line, unjoined bool) *series {
	s := &series{label: l.Label, reference: l.Reference, colour: colour(l.Look.Colour), marker: l.Look.Marker, unjoined: unjoined}
	for _, n := range l.Look.Dash {
		s.dash = append(s.dash, vg.Length(n)*0.6)
	}
	gap := false
	for i := range l.Points {
		p := &l.Points[i]
		y, ok := p.Y.Value.Get()
		if !ok {
			gap = true
			continue
		}
		d := dot{x: p.X, y: y, low: y, high: y, valid: p.Valid, gap: gap && len(s.points) > 0}
		if low, ok := p.Y.Low.Get(); ok && !unjoined {
			d.low = min(low, y)
		}
		if high, ok := p.Y.High.Get(); ok && !unjoined {
			d.high = max(high, y)
		}
		gap = false
		s.points = append(s.points, d)
	}
	s.thin()
	return s
}

// thin keeps of a line with very many points what can be seen: in each of 240 stretches the first, the lowest, the highest and the last, and what is
// not valid if nothing else there says so. Marks and bars of a line with many points stand apart.
func (s *series) thin() {
	if len(s.points) > 4*columns {
		var kept []dot
		per := float64(len(s.points)) / columns
		for i := range columns {
			stretch := s.points[int(float64(i)*per):int(float64(i+1)*per)]
			kept = append(kept, extremes(stretch)...)
		}
		s.points = kept
	}
	step := 1
	if len(s.points) > maxMarks && !s.unjoined {
		step = (len(s.points) + fewMarks - 1) / fewMarks
	}
	invalid := -step
	for i := range s.points {
		d := &s.points[i]
		d.marked = i%step == step/2 || step == 1
		if !d.valid && i-invalid >= step {
			d.marked, invalid = true, i
		}
	}
}

// extremes returns the first, the lowest, the highest, the last and the first invalid point of a stretch, in their order.
func extremes(stretch []dot) (kept []dot) {
	lowest, highest, invalid := 0, 0, -1
	for i := range stretch {
		if stretch[i].low < stretch[lowest].low {
			lowest = i
		}
		if stretch[i].high > stretch[highest].high {
			highest = i
		}
		if !stretch[i].valid && invalid < 0 {
			invalid = i
		}
	}
	for i := range stretch {
		if i == 0 || i == lowest || i == highest || i == invalid || i == len(stretch)-1 {
			kept = append(kept, stretch[i])
		}
	}
	return kept
}

// Plot draws the line, then the bars of the repeats, then the marks.
func (s *series) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	if !s.unjoined {
		var path []vg.Point
		for i := range s.points {
			if s.points[i].gap {
				s.stroke(&c, path)
				path = nil
			}
			path = append(path, vg.Point{X: x(s.points[i].x), Y: y(s.points[i].y)})
		}
		s.stroke(&c, path)
	}
	if s.reference && len(s.points) == 1 { // a line of one point is none: it is drawn over a little of the plot
		at := vg.Point{X: x(s.points[0].x), Y: y(s.points[0].y)}
		s.stroke(&c, []vg.Point{{X: at.X - 14, Y: at.Y}, {X: at.X + 14, Y: at.Y}})
	}
	if s.reference {
		return
	}
	bar := draw.LineStyle{Color: s.colour, Width: 0.6}
	for i := range s.points {
		d := &s.points[i]
		if !d.marked {
			continue
		}
		at := vg.Point{X: x(d.x), Y: y(d.y)}
		if d.ranged() {
			low, high := y(d.low), y(d.high)
			c.StrokeLine2(bar, at.X, low, at.X, high)
			c.StrokeLine2(bar, at.X-2, low, at.X+2, low)
			c.StrokeLine2(bar, at.X-2, high, at.X+2, high)
		}
		mark(&c, s.marker, s.colour, at, d.valid)
	}
}

func (s *series) stroke(c *draw.Canvas, path []vg.Point) {
	if len(path) > 1 {
		c.StrokeLines(s.style(), path)
	}
}

func (s *series) style() draw.LineStyle {
	return draw.LineStyle{Color: s.colour, Width: lineWidth, Dashes: s.dash}
}

// sample draws what stands for the line in a legend.
func (s *series) sample(c *draw.Canvas, from, to, y vg.Length) {
	if !s.unjoined {
		c.StrokeLine2(s.style(), from, y, to, y)
	}
	if !s.reference {
		mark(c, s.marker, s.colour, vg.Point{X: (from + to) / 2, Y: y}, true)
	}
}

// GlyphBoxes keeps room for marks at the edge of the plot.
func (s *series) GlyphBoxes(p *plot.Plot) (boxes []plot.GlyphBox) {
	const r = markRadius + 0.5
	room := vg.Rectangle{Min: vg.Point{X: -r, Y: -r}, Max: vg.Point{X: r, Y: r}}
	for i := range s.points {
		d := &s.points[i]
		for _, y := range []float64{d.low, d.high} {
			boxes = append(boxes, plot.GlyphBox{X: p.X.Norm(d.x), Y: p.Y.Norm(y), Rectangle: room})
		}
	}
	return boxes
}

// colour reads #rrggbb; what is not such a colour is black.
func colour(s string) color.RGBA {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "#"), 16, 32)
	if err != nil {
		return black
	}
	return color.RGBA{R: uint8(n >> 16), G: uint8(n >> 8), B: uint8(n), A: 255}
}
