package profiles

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spillway/internal/dist"
	"spillway/workloads"
)

const kindKV = "kv"

// expand puts the classes of a preset in front, each changed by the entry of Classes that has its name, and the other entries behind.
func (p *Profile) expand(d *decoder) error {
	w := &p.Workload
	if w.Preset == "" {
		return nil
	}
	c := &checker{d: d}
	if w.Kind != kindKV {
		c.fail("workload.preset", "presets are of the workload kind kv, this is %q", w.Kind)
		return c.err
	}
	c.oneOf("workload.preset", w.Preset, workloads.Presets())
	if c.err != nil {
		return c.err
	}
	preset, err := workloads.Preset(w.Preset)
	if err != nil {
		c.fail("workload.preset", "%v", err)
		return c.err
	}
	var classes []Class
	at := map[int]int{} // index of each entry of w.Classes among classes
	for _, k := range preset {
		class := fromKV(&k)
		i := slices.IndexFunc(w.Classes, func(c Class) bool { return c.Name == class.Name })
		if i >= 0 {
			at[i] = len(classes)
			class.override(&w.Classes[i], d.at[fmt.Sprintf("workload.classes.%d", i)])
		}
		classes = append(classes, class)
	}
	for i, class := range w.Classes {
		if _, ok := at[i]; !ok {
			at[i] = len(classes)
			classes = append(classes, class)
		}
	}
	d.move("workload.classes", at)
	w.Classes = classes
	return nil
}

// move renumbers the places of list entries, so that the checks that follow find where a class was written.
func (d *decoder) move(list string, at map[int]int) {
	moved := map[string]*node{}
	for path, n := range d.at {
		rest, ok := strings.CutPrefix(path, list+".")
		if !ok {
			moved[path] = n
			continue
		}
		index, tail, _ := strings.Cut(rest, ".")
		i, err := strconv.Atoi(index)
		if err != nil {
			continue
		}
		to := join(list, strconv.Itoa(at[i]))
		if tail != "" {
			to = join(to, tail)
		}
		moved[to] = n
	}
	d.at = moved
}

// override takes the fields that were written in n, decoded into o.
func (c *Class) override(o *Class, n *node) {
	if n.get("share") != nil {
		c.Share = o.Share
	}
	if n.get("slo") != nil {
		c.SLO = o.SLO
	}
	if n.get("key") != nil {
		c.Key = o.Key
	}
	if n.get("key_size") != nil {
		c.KeySize = o.KeySize
	}
	if n.get("keys") != nil {
		c.Keys = o.Keys
	}
	if n.get("value") != nil {
		c.Value = o.Value
	}
	if n.get("popularity") != nil {
		c.Popularity = o.Popularity
	}
	if n.get("work") != nil {
		c.Work = o.Work // the checks refuse it with its place
	}
	// op and mix say the same thing in two ways, so either replaces both.
	if n.get("op") != nil || n.get("mix") != nil {
		c.Op, c.Mix = o.Op, o.Mix
	}
}

func fromKV(k *workloads.KVClass) Class {
	c := Class{
		Name: k.Name, Share: k.Share, SLO: SLO{Limit: k.SLO}, Key: k.KeyPrefix, Keys: k.Keys, KeySize: k.KeySize,
		Value: fmt.Sprint(k.ValueSize), Popularity: k.Popularity,
	}
	shares := map[string]float64{"get": k.Mix.Get, "set": k.Mix.Set, "delete": k.Mix.Delete}
	for _, kind := range opKinds {
		switch shares[kind] {
		case 0:
			delete(shares, kind)
		case 1:
			c.Op = kind
		}
	}
	if c.Op == "" {
		c.Mix = shares
	}
	return c
}

// KVClasses returns the classes of a key-value workload in the form that workloads.NewKV takes.
func (w *Workload) KVClasses() ([]workloads.KVClass, error) {
	if w.Kind != kindKV {
		return nil, fmt.Errorf("the workload is of kind %s, not kv", w.Kind)
	}
	var list []workloads.KVClass
	for i := range w.Classes {
		c := &w.Classes[i]
		size, err := dist.Parse(c.Value, dist.Bytes)
		if err != nil {
			return nil, fmt.Errorf("class %s: value: %w", c.Name, err)
		}
		k := workloads.KVClass{
			Name: c.Name, Share: c.Share, SLO: c.SLO.Limit, KeyPrefix: c.Key, Keys: c.Keys, KeySize: c.KeySize, ValueSize: size,
			Popularity: c.Popularity,
		}
		switch {
		case c.Mix != nil:
			k.Mix = workloads.Mix{Get: c.Mix["get"], Set: c.Mix["set"], Delete: c.Mix["delete"]}
		case c.Op == "set":
			k.Mix.Set = 1
		case c.Op == "delete":
			k.Mix.Delete = 1
		default:
			k.Mix.Get = 1
		}
		list = append(list, k)
	}
	return list, nil
}

func (w *Workload) classNames() []string {
	names := make([]string, len(w.Classes))
	for i := range w.Classes {
		names[i] = w.Classes[i].Name
	}
	return names
}

func (c *checker) workload(w *Workload) {
	c.oneOf("workload.kind", w.Kind, workloadKinds)
	c.oneOf("workload.arrivals", w.Arrivals, arrivalKinds)
	if w.Connections < 1 || w.Connections > maxConnections {
		c.fail("workload.connections", "connections is between 1 and %d", maxConnections)
	}
	if len(w.Classes) == 0 {
		c.fail("workload", "a workload has classes, or a preset that brings them")
	}
	c.length("workload.classes", len(w.Classes))
	sum, seen := map[string]float64{}, map[string]bool{}
	for i := range w.Classes {
		class, path := &w.Classes[i], fmt.Sprintf("workload.classes.%d", i)
		c.name(path+".name", class.Name)
		if class.Name == AllClasses {
			c.fail(path+".name", "%q is the name of the classes pooled; choose another", AllClasses)
		}
		if seen[class.Name] {
			c.fail(path, "class %q stands here a second time", class.Name)
		}
		seen[class.Name] = true
		if class.Share <= 0 || class.Share > 1 {
			c.fail(path+".share", "the share of class %s is above 0 and at most 1", class.Name)
		}
		sum[class.Name] = class.Share
		if w.Kind == kindKV {
			c.kvClass(class, path)
		} else {
			c.otherClass(class, path, w.Kind)
		}
	}
	if c.err == nil {
		c.shares("workload.classes", sum, w.classNames())
	}
	if c.err == nil && w.Kind == kindKV {
		c.buildKV(w)
	}
}

func (c *checker) kvClass(class *Class, path string) {
	if class.Work != nil {
		c.fail(path+".work", "work belongs to the workload kind synthetic, this is kv")
	}
	if class.Keys < 1 {
		c.fail(path+".keys", "class %s has no keys; give it a number of at least 1", class.Name)
	}
	if class.Value == "" {
		c.fail(path+".value", "class %s has no value; give it a size such as 100B or uniform:5B..1000B", class.Name)
	} else if _, err := dist.Parse(class.Value, dist.Bytes); err != nil {
		c.fail(path+".value", "%v", err)
	}
	if class.Op != "" && class.Mix != nil {
		c.fail(path, "class %s has both op and mix; one of them is enough", class.Name)
	}
	if class.Op != "" {
		c.oneOf(path+".op", class.Op, opKinds)
	}
	if class.Mix != nil {
		c.shares(path+".mix", class.Mix, opKinds)
	}
}

// buildKV lets the workload itself judge what the checks above did not: key sizes, popularity, shared prefixes.
func (c *checker) buildKV(w *Workload) {
	classes, err := w.KVClasses()
	if err == nil {
		_, err = workloads.NewKV(classes)
	}
	if err != nil {
		c.fail("workload.classes", "%v", err)
	}
}

// otherClass checks what the classes of the other kinds have in common with each other: none has keys.
func (c *checker) otherClass(class *Class, path, kind string) {
	for key, given := range map[string]bool{
		"key": class.Key != "", "keys": class.Keys != 0, "key_size": class.KeySize != 0, "value": class.Value != "",
		"op": class.Op != "", "mix": class.Mix != nil, "popularity": class.Popularity != "",
	} {
		if given {
			c.fail(path+"."+key, "%s belongs to the workload kind kv, this is %s", key, kind)
		}
	}
	for i := range class.Work {
		c.step(&class.Work[i], fmt.Sprintf("%s.work.%d", path, i))
	}
	if kind == "synthetic" && len(class.Work) == 0 {
		c.fail(path+".work", "class %s has no work", class.Name)
	}
}

func (c *checker) step(s *Step, path string) {
	kinds := 0
	for _, given := range []bool{s.Compute != "", s.Stream != 0, s.Section != "", s.Lock != "", s.Wait != "", s.Memory != 0} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		c.fail(path, "a step of work is exactly one of compute, stream, section, lock, wait and memory")
	}
	if (s.Lock != "") != (s.For != "") {
		c.fail(path, "a lock step is {lock: NAME, for: DURATION}")
	}
	if (s.Section != "") != (s.Steps != nil) {
		c.fail(path, "a section step is {section: NAME, steps: [...]}")
	}
	if s.At != 0 && s.Stream == 0 {
		c.fail(path+".at", "at belongs to a stream step")
	}
	for _, d := range []struct{ key, text string }{{"compute", s.Compute}, {"for", s.For}, {"wait", s.Wait}} {
		if d.text == "" {
			continue
		}
		if _, err := dist.Parse(d.text, dist.Nanoseconds); err != nil {
			c.fail(path+"."+d.key, "%v", err)
		}
	}
	for i := range s.Steps {
		c.step(&s.Steps[i], fmt.Sprintf("%s.steps.%d", path, i))
	}
}
