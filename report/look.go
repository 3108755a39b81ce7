package report

import "slices"

// Look is how a controller is drawn, in every chart of every document alike: a reader who has learnt one figure reads all.
//
// No two that are near in colour share a marker or a dash, so that a figure can be read without colours: in print, or by the one reader
// in twelve who tells fewer of them apart. The colours are those of Okabe and Ito (Color Universal Design, 2008) and darker relatives, with
// enough contrast on white and on black.
type Look struct {
	Colour string // #rrggbb
	Marker string // circle, square, triangle, diamond, cross, plus, ring or box
	Dash   []int  // lengths of strokes and gaps in pixels; nil for a line without gaps
}

// looks has a row for each label that the shipped profiles use.
var looks = map[string]Look{
	"none":                {"#7f7f7f", "cross", nil},
	"fixed":               {"#a65628", "square", nil},
	"codel":               {"#b8860b", "diamond", nil},
	"seda":                {"#009e73", "triangle", nil},
	"breakwater":          {"#3fa0dc", "square", nil},
	"protego":             {"#0072b2", "circle", nil},
	"protego-section":     {"#0072b2", "ring", dashed},
	"dagor":               {"#e08e00", "diamond", nil},
	"svalinn":             {"#d55e00", "circle", nil},
	"svalinn-wait":        {"#cc5f97", "triangle", dashed},
	"svalinn-credits":     {"#d55e00", "plus", dotted},
	"aimd":                {"#5f8f3e", "plus", nil},
	"gradient":            {"#8a63b8", "box", nil},
	"vegas":               {"#4b6a9b", "plus", dashed},
	"bouncer":             {"#d55e00", "square", nil},
	"bouncer-allowance":   {"#cc5f97", "circle", dashed},
	"bouncer-underserved": {"#8a63b8", "triangle", dotted},
	"maxql":               {"#0072b2", "square", dashed},
	"maxqwt":              {"#3fa0dc", "diamond", nil},
	"acceptfraction":      {"#009e73", "plus", nil},
	"staging":             {"#d55e00", "diamond", nil},
	"unknown":             {"#7f7f7f", "ring", dotted}, // of a server that does not say which controller it has

	// Allocators.
	"two-level":             {"#d55e00", "box", nil},
	"no-lending":            {"#cc5f97", "diamond", dashed},
	"by-demand":             {"#0072b2", "diamond", nil},
	"static":                {"#7f7f7f", "square", nil},
	"single-class":          {"#b8860b", "square", nil},
	"single-class-reserved": {"#a65628", "plus", dotted},
	"two-class":             {"#009e73", "circle", nil},
	"two-class-volume":      {"#3fa0dc", "plus", dashed},
	"two-class-high":        {"#5f8f3e", "triangle", nil},
	"borrowing":             {"#8a63b8", "cross", dotted},
	"proportional-share":    {"#4b6a9b", "ring", nil},
	"capped":                {"#e08e00", "triangle", nil},
}

var (
	dashed = []int{8, 4}
	dotted = []int{2, 3}
)

// spare are the looks of labels that have no row, as many as an ablation or a sweep of settings has; beyond them they come again.
var spare = []Look{
	{"#5f8f3e", "ring", nil}, {"#8a63b8", "diamond", dashed}, {"#a65628", "triangle", dotted}, {"#3fa0dc", "box", dashed},
	{"#b8860b", "circle", dotted}, {"#cc5f97", "square", nil}, {"#4b6a9b", "triangle", nil}, {"#009e73", "ring", dotted},
	{"#5f8f3e", "square", nil}, {"#a65628", "box", dashed}, {"#3fa0dc", "circle", dotted}, {"#b8860b", "plus", nil},
	{"#cc5f97", "ring", dashed}, {"#4b6a9b", "diamond", dotted}, {"#e08e00", "square", nil}, {"#0072b2", "cross", dashed},
	{"#5f8f3e", "cross", dotted}, {"#a65628", "circle", nil}, {"#b8860b", "ring", dashed}, {"#009e73", "square", dotted},
	{"#e08e00", "cross", nil}, {"#0072b2", "box", dashed}, {"#5f8f3e", "box", dotted}, {"#8a63b8", "circle", nil},
	{"#3fa0dc", "ring", dashed}, {"#4b6a9b", "square", dotted}, {"#009e73", "cross", nil}, {"#e08e00", "box", dashed},
	{"#5f8f3e", "circle", dotted}, {"#8a63b8", "plus", nil}, {"#a65628", "ring", dashed}, {"#b8860b", "triangle", dotted},
}

// Looks returns the look of each of labels. Who has one of its own keeps it, whatever else is there; the others take what is spare in
// alphabetical order, so that the order in which they appear does not matter.
func Looks(labels []string) map[string]Look {
	all := make(map[string]Look, len(labels))
	var rest []string
	for _, l := range labels {
		if look, ok := looks[l]; ok {
			all[l] = look
		} else if !slices.Contains(rest, l) {
			rest = append(rest, l)
		}
	}
	slices.Sort(rest)
	for i, l := range rest {
		all[l] = spare[i%len(spare)]
	}
	return all
}

// referenceLook returns the look of a line that nothing was measured of.
func referenceLook(label string) Look {
	if label == LineSLO {
		return Look{Colour: "#c02020", Dash: dotted}
	}
	if label == LineCeiling {
		return Look{Colour: "#7f7f7f", Dash: dotted}
	}
	return Look{Colour: "#7f7f7f", Dash: dashed}
}
