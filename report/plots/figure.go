package plots

import (
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"spillway/report"
)

// Sizes in points, of which an inch has 72.
const (
	width      = 3.33 * vg.Inch // of a column
	plotHeight = 150            // of the plot with its axes
	nameHeight = 13             // of a row of an axis of names
	titleSize  = 8
	textSize   = 7
	smallSize  = 6
	lineWidth  = 1
	markRadius = 2.2
	rowHeight  = 9.5 // of a legend
	margin     = 3
	markWidth  = 18 // of a sample in a legend
)

var (
	black     = color.RGBA{A: 255}
	ink       = color.RGBA{R: 0x30, G: 0x30, B: 0x30, A: 255}
	gridColor = color.RGBA{R: 0xe4, G: 0xe4, B: 0xe4, A: 255}
	fonts     = font.NewCache(liberation.Collection())
)

// style returns letters of the given size, aligned to the left and standing on their point.
func style(size vg.Length) text.Style {
	return text.Style{
		Color: ink, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign: text.XLeft, YAlign: text.YBottom, Handler: text.Plain{Fonts: fonts},
	}
}

// figure is a chart with its places on paper.
type figure struct {
	chart         *report.Chart
	title         string
	lines         []*series
	legend        []entry
	left          int // lines that are not drawn
	x, y          *scale
	width, height vg.Length
	caption       string
}

// entry is one sample of a legend with its text; series is nil for a text alone.
type entry struct {
	text string
	of   *series
	at   vg.Point // from the left of the legend and from its top
}

func newFigure(c *report.Chart) *figure {
	f := &figure{chart: c, title: Heading(c), width: width}
	names := len(c.Y.Names) > 0
	var xs, ys []float64
	measured, invalid, ranged := 0, false, false
	for i := range c.Lines {
		l := &c.Lines[i]
		if !l.Reference {
			if measured++; measured > maxLines {
				f.left++
				continue
			}
		}
		s := newSeries(l, names)
		if len(s.points) == 0 {
			continue
		}
		f.lines = append(f.lines, s)
		for _, p := range s.points {
			xs, ys = append(xs, p.x), append(ys, p.y, p.low, p.high)
			invalid = invalid || !p.valid
			ranged = ranged || p.ranged()
		}
	}
	f.x, f.y = newScale(c.X, xs), newScale(c.Y, ys)
	if len(xs) > 0 && !f.x.log && !names {
		if low, high := slices.Min(xs), slices.Max(xs); low > high*0.6 && high-low > high*1e-6 {
			f.x = closeScale(c.X, low, high)
		}
	}
	f.caption = caption(invalid, ranged, f.left)
	for _, v := range []struct {
		s    *scale
		list []float64
	}{{f.x, xs}, {f.y, ys}} {
		if v.s.log && slices.ContainsFunc(v.list, func(n float64) bool { return n <= 0 }) {
			f.caption = strings.TrimPrefix(f.caption+"; on the edge: 0", "; ")
			break
		}
	}
	f.arrange()
	f.height = margin + titleSize + 4 + f.legendHeight() + plotHeight
	if names {
		f.height += vg.Length(len(c.Y.Names))*nameHeight + 34 - plotHeight
	}
	if f.caption != "" {
		f.height += smallSize + 3
	}
	return f
}

// caption explains what is not in the legend.
func caption(invalid, ranged bool, left int) string {
	text := ""
	add := func(s string) {
		if text != "" {
			text += "; "
		}
		text += s
	}
	if ranged {
		add("bars: range of the repeats")
	}
	if invalid {
		add("hollow and struck out: not valid")
	}
	if left > 0 {
		add(strconv.Itoa(left) + " more in points.csv")
	}
	return text
}

// arrange puts the entries of the legend into rows, as many in each as there is room for.
func (f *figure) arrange() {
	letters := style(textSize)
	x, y := vg.Length(0), vg.Length(0)
	room := f.width - 2*margin
	for _, s := range f.lines {
		label := short(s.label, 30)
		if label == "" {
			label = "–"
		}
		wide := markWidth + 3 + letters.Width(label)*1.1 + 8 // other fonts are a little wider
		if x > 0 && x+wide-8 > room {
			x, y = 0, y+rowHeight
		}
		f.legend = append(f.legend, entry{text: label, of: s, at: vg.Point{X: x, Y: y}})
		x += wide
	}
}

func (f *figure) legendHeight() vg.Length {
	if len(f.legend) == 0 {
		return 0
	}
	return f.legend[len(f.legend)-1].at.Y + rowHeight + 2
}

func (f *figure) draw(canvas vg.CanvasSizer) error {
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	top := f.height - margin
	title := style(titleSize)
	title.Color = black
	c.FillText(title, vg.Point{X: margin, Y: top - titleSize}, fit(title, f.title, f.width-2*margin))
	top -= titleSize + 4
	f.drawLegend(&c, top)
	top -= f.legendHeight()
	bottom := vg.Length(margin)
	if f.caption != "" {
		small := style(smallSize)
		c.FillText(small, vg.Point{X: margin, Y: bottom}, fit(small, f.caption, f.width-2*margin))
		bottom += smallSize + 3
	}
	area := draw.Crop(c, margin, -margin-4, bottom, top-f.height)
	f.drawPlot(area)
	return nil
}

// fit cuts a text that is wider than its place.
func fit(s text.Style, t string, room vg.Length) string {
	letters := []rune(t)
	if s.Width(t) <= room {
		return t
	}
	for len(letters) > 0 && s.Width(string(letters)+"…") > room {
		letters = letters[:len(letters)-1]
	}
	return string(letters) + "…"
}

func (f *figure) drawLegend(c *draw.Canvas, top vg.Length) {
	letters := style(textSize)
	for _, e := range f.legend {
		y := top - e.at.Y - rowHeight + 2
		x := margin + e.at.X
		e.of.sample(c, x, x+markWidth, y+textSize/2-0.5)
		c.FillText(letters, vg.Point{X: x + markWidth + 3, Y: y}, e.text)
	}
}

// drawPlot leaves axes, ticks and grid to gonum, and writes the titles of the axes itself, since gonum would put them beside the middle of a
// logarithmic axis.
func (f *figure) drawPlot(c draw.Canvas) {
	p := plot.New()
	p.BackgroundColor = nil
	p.TextHandler = text.Plain{Fonts: fonts}
	axis := func(a *plot.Axis, s *scale) {
		a.Min, a.Max, a.Scale, a.Tick.Marker = s.low, s.high, s, s
		a.Padding = 0
		a.LineStyle.Color, a.LineStyle.Width = ink, 0.5
		a.Tick.LineStyle.Color, a.Tick.LineStyle.Width, a.Tick.Length = ink, 0.5, 3
		align := a.Tick.Label
		a.Tick.Label = style(textSize)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = align.XAlign, align.YAlign
		a.Label.TextStyle = style(textSize) // its width of a space is the gap beside tick labels
	}
	axis(&p.X, f.x)
	axis(&p.Y, f.y)
	grid := plotter.NewGrid()
	grid.Vertical = draw.LineStyle{Color: gridColor, Width: 0.4}
	grid.Horizontal = grid.Vertical
	p.Add(grid)
	for i := len(f.lines) - 1; i >= 0; i-- { // the first, which the profile names first, is not what lies below
		if f.lines[i].reference {
			p.Add(f.lines[i])
		}
	}
	for _, s := range f.lines {
		if !s.reference {
			p.Add(s)
		}
	}
	letters := style(textSize)
	xTitle, yTitle := axisTitle(f.chart.X), axisTitle(f.chart.Y)
	if len(f.chart.Y.Names) > 0 {
		yTitle = ""
	}
	left := vg.Length(0)
	if yTitle != "" {
		left = textSize + 5
	}
	area := draw.Crop(c, left, 0, textSize+4, 0)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = f.x.low, f.x.high, f.y.low, f.y.high
	p.Draw(area)
	data := p.DataCanvas(area)
	letters.XAlign = text.XCenter
	if len(f.lines) == 0 {
		c.FillText(letters, data.Center(), "nothing was measured")
	}
	c.FillText(letters, vg.Point{X: data.Center().X, Y: c.Min.Y}, xTitle)
	if yTitle != "" {
		letters.Rotation = math.Pi / 2
		c.FillText(letters, vg.Point{X: c.Min.X + textSize, Y: data.Center().Y}, yTitle)
	}
}

func axisTitle(a report.Axis) string {
	title := clean(a.Title)
	if a.Unit == "requests/s" {
		return title + " (requests/s)"
	}
	return title
}
