package profiles

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Variant is a profile with some keys set, measured beside the others in the same experiment.
type Variant struct {
	Name string            `yaml:"name"`
	Set  map[string]Inline `yaml:"set"` // by key with dots, as --set takes them; empty for the profile as it stands
}

// Inline is a value of any form, as YAML on one line.
type Inline string

// fromNode takes whatever stands there.
func (v *Inline) fromNode(_ *decoder, n *node, _ string) error {
	*v = Inline(n.inline())
	return nil
}

// inline writes n on one line.
func (n *node) inline() string {
	text, err := yaml.MarshalWithOptions(n.plain(), yaml.Flow(true))
	if err != nil {
		panic("profiles: a value that was read cannot be written: " + err.Error())
	}
	return strings.TrimSpace(string(text))
}

// plain returns n as the YAML library writes it.
func (n *node) plain() any {
	switch n.kind {
	case mapping:
		m := yaml.MapSlice{}
		for i, k := range n.keys {
			m = append(m, yaml.MapItem{Key: k.text, Value: n.values[i].plain()})
		}
		return m
	case sequence:
		list := make([]any, len(n.values))
		for i := range list {
			list[i] = n.values[i].plain()
		}
		return list
	case null:
		return nil
	default:
		return plain(n.text)
	}
}

// written returns v as the YAML library writes it.
func (v Inline) written() any {
	root, err := parseTree("", []byte("value: "+string(v)))
	if err != nil {
		panic("profiles: an inline value that cannot be read: " + string(v))
	}
	return root.get("value").plain()
}

// notVaried are the keys that belong to the experiment as a whole, and so cannot differ between its variants.
var notVaried = []string{"name", "on", "variants", "claims", "repeats", "seed", SizeQuick, SizeFull}

// Runs returns what is to be measured: each variant or scenario as a profile of its own, or the profile itself where it has none.
func (p *Profile) Runs() []*Profile {
	if p.Workload.Allocation != nil && p.variant == "" {
		return p.scenarios()
	}
	if len(p.Variants) == 0 && p.runs == nil {
		return []*Profile{p}
	}
	return p.runs
}

// Variant returns the name of the variant that p is, empty when it is a profile as it stands.
func (p *Profile) Variant() string { return p.variant }

// RowName returns what column `profile` calls p: its name, and behind a slash that of the variant.
func (p *Profile) RowName() string {
	if p.variant == "" {
		return p.Name
	}
	return p.Name + "/" + p.variant
}

// Unvaried returns the assignments that take keys out of what variants set, with what is below them and the whole that they are part of, so
// that what is set from outside is so in every variant.
func (p *Profile) Unvaried(origin string, keys ...string) (list []Assignment) {
	for i := range p.Variants {
		for _, key := range sortedKeys(p.Variants[i].Set) {
			if slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(key+".", k+".") || strings.HasPrefix(k+".", key+".") }) {
				list = append(list, Assignment{Key: fmt.Sprintf("variants.%d.set.%s", i, key), Value: "null", Origin: origin})
			}
		}
	}
	return list
}

func (p *Profile) variantNames() (list []string) {
	for i := range p.Variants {
		list = append(list, p.Variants[i].Name)
	}
	if p.Workload.Allocation != nil {
		for _, run := range p.scenarios() {
			list = append(list, run.variant)
		}
	}
	return list
}

func (c *checker) variants(list []Variant) {
	c.length("variants", len(list))
	for i := range list {
		path := fmt.Sprintf("variants.%d", i)
		c.name(path+".name", list[i].Name)
		if slices.ContainsFunc(list[:i], func(o Variant) bool { return o.Name == list[i].Name }) {
			c.fail(path+".name", "the variant %q stands here a second time", list[i].Name)
		}
		for _, key := range sortedKeys(list[i].Set) {
			if first, _, _ := strings.Cut(key, "."); slices.Contains(notVaried, first) {
				c.fail(path+".set."+key, "%s is of the whole experiment; a variant cannot change it", first)
			}
		}
	}
}

// vary makes the variants of p. Each is checked like a profile of its own.
func (p *Profile) vary(d *decoder) error {
	if len(p.Variants) == 0 {
		return nil
	}
	same := *p
	same.Variants, same.Claims, same.runs, same.Quick, same.Full = nil, nil, nil, nil, nil
	for i := range p.Variants {
		v := &p.Variants[i]
		where := fmt.Sprintf("variants.%d", i)
		var list []Assignment
		for _, key := range sortedKeys(v.Set) {
			list = append(list, Assignment{Key: key, Value: string(v.Set[key]), Origin: d.place(where+".set."+key) + "variant " + v.Name + ": " + key})
		}
		run, err := same.set(list, d.place(where)+"variant "+v.Name)
		if err != nil {
			return err
		}
		if err := p.alike(run); err != nil {
			return d.at[where].fail(d.file, "variant %s: %v", v.Name, err)
		}
		run.variant = v.Name
		p.runs = append(p.runs, run)
	}
	return nil
}

// place returns where path was written, as messages begin.
func (d *decoder) place(path string) string {
	for ; ; path = path[:max(strings.LastIndexByte(path, '.'), 0)] {
		n := d.at[path]
		switch {
		case n == nil && path != "":
		case n == nil:
			return d.file + ": "
		case n.origin != "":
			return n.origin + ": "
		default:
			return fmt.Sprintf("%s:%d:%d: ", d.file, n.line, n.column)
		}
	}
}

// alike says what keeps the rows of a variant from standing in one table with those of the others.
func (p *Profile) alike(v *Profile) error {
	if !slices.Equal(p.labels(), v.labels()) {
		return fmt.Errorf("it has other controllers; change their settings, or make it a profile of its own")
	}
	if !slices.Equal(p.Workload.classNames(), v.Workload.classNames()) {
		return fmt.Errorf("it has other classes; change what they ask, or make it a profile of its own")
	}
	for i := range p.Workload.Classes {
		if a, b := &p.Workload.Classes[i], &v.Workload.Classes[i]; a.SLO.text() != b.SLO.text() {
			return fmt.Errorf("class %s has another slo; make it a profile of its own", a.Name)
		}
	}
	if (len(p.Load.Phases) > 0) != (len(v.Load.Phases) > 0) {
		return fmt.Errorf("either all variants have phases or none; make it a profile of its own")
	}
	return nil
}

// text writes s in one form, to compare.
func (s SLO) text() string {
	text := s.Limit.String()
	for _, p := range sortedKeys(s.Percentiles) {
		text += " " + p + "=" + s.Percentiles[p].String()
	}
	return text
}
