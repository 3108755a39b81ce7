package plots

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// mark draws a marker of report.Look. One of a point that is not valid is pale, hollow and struck out, whatever its shape.
func mark(c *draw.Canvas, shape string, colour color.Color, at vg.Point, valid bool) {
	const r = vg.Length(markRadius)
	path, open := outline(shape, at, r)
	line := draw.LineStyle{Color: colour, Width: 1}
	hollow := shape == "ring" || shape == "box"
	if !valid {
		line.Width, hollow = 0.6, true
		if open {
			path, open = polygon(at, r+0.4, 24, 0), false
		}
	}
	switch {
	case open:
		line.Width = 1.2
	case hollow:
		c.SetColor(color.White)
		c.Fill(path)
	default:
		c.SetColor(colour)
		c.Fill(path)
	}
	if open || hollow {
		c.SetLineStyle(line)
		c.Stroke(path)
	}
	if !valid {
		c.StrokeLine2(line, at.X-r-0.8, at.Y-r-0.8, at.X+r+0.8, at.Y+r+0.8)
	}
}

// outline returns the shape of a marker; open is true where it consists of strokes and has no inside.
func outline(shape string, at vg.Point, r vg.Length) (path vg.Path, open bool) {
	switch shape {
	case "square", "box":
		return polygon(at, r*1.2, 4, math.Pi/4), false
	case "diamond":
		return polygon(at, r*1.3, 4, 0), false
	case "triangle":
		return polygon(at, r*1.3, 3, math.Pi/2), false
	case "cross":
		d := r * 0.9
		return strokes(at, vg.Point{X: d, Y: d}, vg.Point{X: d, Y: -d}), true
	case "plus":
		return strokes(at, vg.Point{X: r * 1.2}, vg.Point{Y: r * 1.2}), true
	default: // circle and ring; a circle of 24 corners is one at this size
		return polygon(at, r, 24, 0), false
	}
}

// polygon returns a regular one, the first corner in the direction turn.
func polygon(at vg.Point, r vg.Length, corners int, turn float64) (path vg.Path) {
	for i := range corners {
		sin, cos := math.Sincos(turn + 2*math.Pi*float64(i)/float64(corners))
		p := vg.Point{X: at.X + r*vg.Length(cos), Y: at.Y + r*vg.Length(sin)}
		if i == 0 {
			path.Move(p)
		} else {
			path.Line(p)
		}
	}
	path.Close()
	return path
}

// strokes returns lines through a point, by the half of each.
func strokes(at vg.Point, halves ...vg.Point) (path vg.Path) {
	for _, h := range halves {
		path.Move(vg.Point{X: at.X - h.X, Y: at.Y - h.Y})
		path.Line(vg.Point{X: at.X + h.X, Y: at.Y + h.Y})
	}
	return path
}
