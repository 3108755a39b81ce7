package report

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// limits writes the limit of a class, as its rows have it; variants may differ in it.
func (run *Run) limits(class string) string {
	var texts, variants []string
	for i := range run.Rows {
		r := &run.Rows[i]
		if r.Class != class || !r.SLO.known {
			continue
		}
		text := r.SLO.micros()
		switch at := slices.Index(texts, text); {
		case at < 0:
			texts, variants = append(texts, text), append(variants, r.Variant())
		case !slices.Contains(strings.Split(variants[at], ", "), r.Variant()):
			variants[at] += ", " + r.Variant()
		}
	}
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	for i := range texts {
		texts[i] += " (" + escape(variants[i]) + ")"
	}
	return strings.Join(texts, ", ")
}

// variantsSection says what each variant of the profile has set otherwise, and on what machine.
func (run *Run) variantsSection(b *bytes.Buffer) {
	if len(run.Manifest.Variants) == 0 {
		return
	}
	b.WriteString("\n## Variants\n\n")
	for i := range run.Manifest.Variants {
		v := &run.Manifest.Variants[i]
		var set []string
		for _, key := range slices.Sorted(maps.Keys(v.Set)) {
			set = append(set, key+"="+v.Set[key])
		}
		text := "the profile as it is"
		if len(set) > 0 {
			text = strings.Join(set, ", ")
		}
		if v.ModelledMachine != nil {
			text += "; modelled machine " + v.ModelledMachine.text()
		}
		if c := v.Capacity; c != nil {
			text += fmt.Sprintf("; full at %s requests per second, %s first", Known(c.RPS).rate(), c.Bottleneck)
		}
		fmt.Fprintf(b, "- %s: %s\n", escape(v.Name), escape(text))
	}
}
