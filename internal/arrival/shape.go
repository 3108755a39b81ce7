package arrival

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"spillway/internal/dist"
)

// ShapeForms lists the text forms of the shape of a rate, for messages.
const ShapeForms = "constant, steps:0.5@1s,2@1s, ramp:0.5..1.5@10s, sine:0.5@1s (amplitude @ period), shock:1.4@2s+1s (factor @ begin + length)"

// shape is how a rate changes over time, as a factor on it. Its area is the integral of the factor, in seconds: how long the rate alone
// takes to make as many requests.
//
// A process with a changing rate is one with rate 1, whose arrivals are put where the area reaches theirs: a ramp then makes as many
// requests as the area under it says, and a Poisson process stays one.
//
//	factor │      ___                 area │         /
//	       │     /   \                     │      _-´
//	       │____/     \___                 │   _-´
//	       └──────────────▶ time           └──────────▶ time     arrival k: the time at which area·rate = k
type shape interface {
	// inverse returns when the area is reached, in seconds since the start; +Inf for never. Areas do not fall from call to call.
	inverse(area float64) float64
	// areaAt returns the area up to a time in seconds.
	areaAt(t float64) float64
}

type steady struct{}

func (steady) inverse(area float64) float64 { return area }
func (steady) areaAt(t float64) float64     { return t }

// parseShape reads one of ShapeForms. Time 0 of the form is where the warm-up ends.
func parseShape(text string, warmUp time.Duration) (shape, error) {
	form, rest, found := strings.Cut(text, ":")
	if text == "" || text == "constant" {
		return steady{}, nil
	}
	if !found {
		return nil, fmt.Errorf("unknown, use one of %s", ShapeForms)
	}
	if form == "sine" {
		return parseSine(rest, warmUp)
	}
	var line *line
	var err error
	switch form {
	case "steps":
		line, err = parseSteps(rest)
	case "ramp":
		line, err = parseRamp(rest)
	case "shock":
		line, err = parseShock(rest)
	default:
		return nil, fmt.Errorf("unknown, use one of %s", ShapeForms)
	}
	if err != nil {
		return nil, err
	}
	return line.after(warmUp), nil
}

// piece is a stretch in which the factor changes evenly.
type piece struct {
	from, to float64 // factors
	length   float64 // seconds
	start    float64 // when it begins
	area     float64 // before it
}

// line is a factor that is made of pieces; after the last it stays as it is.
type line struct {
	pieces []piece
	at     int // the piece in which the area asked for last lies
}

// after puts a warm-up with the first factor in front, and finishes the line.
func (l *line) after(warmUp time.Duration) *line {
	if warmUp > 0 {
		first := l.pieces[0].from
		l.pieces = append([]piece{{from: first, to: first, length: warmUp.Seconds()}}, l.pieces...)
	}
	return l.finish()
}

// finish fills in what follows from lengths and factors, and lets the last factor go on.
func (l *line) finish() *line {
	last := l.pieces[len(l.pieces)-1].to
	l.pieces = append(l.pieces, piece{from: last, to: last, length: math.Inf(1)})
	start, area := 0.0, 0.0
	for i := range l.pieces {
		p := &l.pieces[i]
		p.start, p.area = start, area
		start += p.length
		area += (p.from + p.to) / 2 * p.length
	}
	return l
}

func (l *line) inverse(area float64) float64 {
	for l.at+1 < len(l.pieces) && area >= l.pieces[l.at+1].area {
		l.at++
	}
	p := &l.pieces[l.at]
	rest := area - p.area
	if rest <= 0 {
		return p.start
	}
	slope := 0.0
	if p.from != p.to {
		slope = (p.to - p.from) / p.length
	}
	// Of the quadratic equation, the form that loses no digits where the slope is small.
	root := math.Sqrt(max(p.from*p.from+2*slope*rest, 0))
	if p.from+root == 0 {
		return math.Inf(1)
	}
	return p.start + 2*rest/(p.from+root)
}

func (l *line) areaAt(t float64) (area float64) {
	for i := range l.pieces {
		p := &l.pieces[i]
		if t <= p.start {
			break
		}
		if p.length == 0 {
			continue
		}
		in := min(t-p.start, p.length)
		area += in * (p.from + (p.to-p.from)/2*in/p.length)
	}
	return area
}

// sine is a factor of 1 + amplitude·sin(frequency·t) after a lead of 1.
type sine struct {
	lead, amplitude, frequency float64 // s, share, radians per second
}

func (s *sine) inverse(area float64) float64 {
	a := area - s.lead
	if a <= 0 {
		return area
	}
	// The area at t lies between t and t + 2·amplitude/frequency, which brackets the answer; Newton's steps that leave the bracket are
	// replaced by halving it.
	swing := s.amplitude / s.frequency
	low, high := max(a-2*swing, 0), a
	t := a
	for range 60 {
		over := t + swing*(1-math.Cos(s.frequency*t)) - a
		if over > 0 {
			high = t
		} else {
			low = t
		}
		next := t - over/(1+s.amplitude*math.Sin(s.frequency*t))
		if !(next > low && next < high) {
			next = (low + high) / 2
		}
		if math.Abs(next-t) < 1e-10 { // a tenth of a nanosecond
			t = next
			break
		}
		t = next
	}
	return s.lead + t
}

func (s *sine) areaAt(t float64) float64 {
	in := max(t-s.lead, 0)
	return t + s.amplitude/s.frequency*(1-math.Cos(s.frequency*in))
}

func parseSine(text string, warmUp time.Duration) (shape, error) {
	amplitudeText, periodText, found := strings.Cut(text, "@")
	amplitude, err := strconv.ParseFloat(amplitudeText, 64)
	if !found || err != nil || !(amplitude >= 0 && amplitude <= 1) {
		return nil, fmt.Errorf("write sine:AMPLITUDE@PERIOD, the amplitude between 0 and 1, such as sine:0.5@1s")
	}
	period, err := parseSpan(periodText)
	if err != nil {
		return nil, err
	}
	return &sine{lead: warmUp.Seconds(), amplitude: amplitude, frequency: 2 * math.Pi / period}, nil
}

func parseSteps(text string) (*line, error) {
	l := &line{}
	for part := range strings.SplitSeq(text, ",") {
		factorText, spanText, found := strings.Cut(part, "@")
		if !found {
			return nil, fmt.Errorf("%q: write FACTOR@DURATION", part)
		}
		factor, err := parseFactor(factorText)
		if err != nil {
			return nil, err
		}
		span, err := parseSpan(spanText)
		if err != nil {
			return nil, err
		}
		l.pieces = append(l.pieces, piece{from: factor, to: factor, length: span})
	}
	return l, nil
}

func parseRamp(text string) (*line, error) {
	factors, spanText, found := strings.Cut(text, "@")
	fromText, toText, found2 := strings.Cut(factors, "..")
	if !found || !found2 {
		return nil, fmt.Errorf("write ramp:FROM..TO@DURATION, such as ramp:0.5..1.5@10s")
	}
	from, err := parseFactor(fromText)
	if err != nil {
		return nil, err
	}
	to, err := parseFactor(toText)
	if err != nil {
		return nil, err
	}
	span, err := parseSpan(spanText)
	return &line{pieces: []piece{{from: from, to: to, length: span}}}, err
}

func parseShock(text string) (*line, error) {
	factorText, rest, found := strings.Cut(text, "@")
	beginText, spanText, found2 := strings.Cut(rest, "+")
	if !found || !found2 {
		return nil, fmt.Errorf("write shock:FACTOR@BEGIN+DURATION, such as shock:1.4@2s+1s")
	}
	factor, err := parseFactor(factorText)
	if err != nil {
		return nil, err
	}
	begin, err := dist.ParseDuration(beginText)
	if err != nil {
		return nil, err
	}
	span, err := parseSpan(spanText)
	return &line{pieces: []piece{
		{from: 1, to: 1, length: begin.Seconds()}, {from: factor, to: factor, length: span}, {from: 1, to: 1, length: span},
	}}, err
}

func parseFactor(text string) (float64, error) {
	factor, err := strconv.ParseFloat(text, 64)
	if err != nil || !(factor >= 0 && factor <= 1000) {
		return 0, fmt.Errorf("factor %q: write a number between 0 and 1000, which multiplies the rate", text)
	}
	return factor, nil
}

func parseSpan(text string) (seconds float64, err error) {
	d, err := dist.ParseDuration(text)
	if err == nil && d == 0 {
		err = fmt.Errorf("duration %q: must be longer than 0", text)
	}
	return d.Seconds(), err
}
