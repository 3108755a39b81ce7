package profiles

import (
	"fmt"
	"math"
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
	if w.Kind == KindAllocation && p.Server.Kind == "" {
		p.Server.Kind = kindWeb
	}
	if w.Preset == "" {
		return nil
	}
	c := &checker{d: d}
	if w.Kind != kindKV && !w.generates() {
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
	if n.get("priority") != nil {
		c.Priority = o.Priority
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
	if n.get("batch") != nil {
		c.Batch = o.Batch
	}
	if n.get("expire") != nil {
		c.Expire = o.Expire
	}
	if n.get("write_back") != nil {
		c.WriteBack = o.WriteBack
	}
	if n.get("work") != nil {
		c.Work = o.Work // the checks refuse it with its place
	}
	if n.get("query") != nil { // these too
		c.Query = o.Query
	}
	if n.get("accuracy") != nil {
		c.Accuracy = o.Accuracy
	}
	if n.get("hops") != nil {
		c.Hops = o.Hops
	}
	// op and mix say the same thing in two ways, so either replaces both.
	if n.get("op") != nil || n.get("mix") != nil {
		c.Op, c.Mix = o.Op, o.Mix
	}
}

func fromKV(k *workloads.KVClass) Class {
	c := Class{
		Name: k.Name, Share: k.Share, SLO: SLO{Limit: k.SLO}, Key: k.KeyPrefix, Keys: k.Keys,
		Value: fmt.Sprint(k.ValueSize), Popularity: k.Popularity, Batch: k.Batch, Expire: k.Expire, WriteBack: k.WriteBack,
	}
	switch {
	case k.KeySizes != nil:
		c.KeySize = fmt.Sprint(k.KeySizes)
	case k.KeySize != 0:
		c.KeySize = strconv.Itoa(k.KeySize)
	}
	shares := map[string]float64{"get": k.Mix.Get, "set": k.Mix.Set, "delete": k.Mix.Delete, "multiget": k.Mix.MultiGet}
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
			Name: c.Name, Share: c.Share, SLO: c.SLO.Limit, KeyPrefix: c.Key, Keys: c.Keys, ValueSize: size,
			Popularity: c.Popularity, Batch: c.Batch, Expire: c.Expire, WriteBack: c.WriteBack,
		}
		if k.KeySize, k.KeySizes, err = keySize(c.KeySize); err != nil {
			return nil, fmt.Errorf("class %s: key_size: %w", c.Name, err)
		}
		switch {
		case c.Mix != nil:
			k.Mix = workloads.Mix{Get: c.Mix["get"], Set: c.Mix["set"], Delete: c.Mix["delete"], MultiGet: c.Mix["multiget"]}
		case c.Op == "set":
			k.Mix.Set = 1
		case c.Op == "delete":
			k.Mix.Delete = 1
		case c.Op == "multiget":
			k.Mix.MultiGet = 1
		default:
			k.Mix.Get = 1
		}
		list = append(list, k)
	}
	return list, nil
}

// keySize reads a number of bytes, plain or with a unit, or a distribution of them.
func keySize(text string) (int, dist.Dist, error) {
	if text == "" {
		return 0, nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		sizes, err := dist.Parse(text, dist.Bytes)
		one, ok := sizes.(dist.Constant)
		if !ok {
			return 0, sizes, err
		}
		n = int(one.Value) // 40B is 40: a single length that no key can have is refused, where those of a distribution are cut
	}
	if n < 1 {
		return 0, nil, fmt.Errorf("%d: must be at least 1", n)
	}
	return n, nil, nil
}

// filled reports whether some class's misses are written back in the class called name.
func (w *Workload) filled(name string) bool {
	return slices.ContainsFunc(w.Classes, func(c Class) bool { return c.WriteBack == name })
}

func (w *Workload) classNames() []string {
	names := make([]string, len(w.Classes))
	for i := range w.Classes {
		names[i] = w.Classes[i].Name
	}
	return names
}

func (c *checker) workload(w *Workload, load *Sweep) {
	c.oneOf("workload.kind", w.Kind, workloadKinds)
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
		mayHaveNone := w.filled(class.Name) || w.logged() || w.drifts(class.Name) || load.gives(class.Name) || c.untouched(path+".share")
		if class.Share < 0 || class.Share > 1 || class.Share == 0 && !mayHaveNone {
			c.fail(path+".share",
				"the share of class %s is above 0 and at most 1; only the class of writes that follow misses, and one that load gives a share later, may have none",
				class.Name)
		}
		if class.Priority < 0 || class.Priority > math.MaxUint8 {
			c.fail(path+".priority", "priority is between 0, the most important, and 255")
		}
		sum[class.Name] = class.Share
		c.ofGraphs(class, path, w.Kind)
		if w.Kind == kindKV || w.generates() {
			c.kvClass(class, path)
		} else if w.logged() {
			c.logClass(class, path, w)
		} else {
			c.otherClass(class, path, w.Kind)
		}
	}
	if c.err == nil && !w.logged() {
		c.shares("workload.classes", sum, w.classNames())
	}
	switch {
	case c.err != nil:
	case w.Kind == kindKV:
		c.buildKV(w)
	case w.Kind == kindSynthetic:
		c.synthetic(w)
	case w.Kind == kindMailbox:
		c.mailbox(w)
	case w.Kind == kindGraph:
		c.graph(w)
	case w.Kind == kindDataFrame:
		c.dataframe(w)
	case w.Kind == kindReplay:
		c.replay(w)
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
		"key": class.Key != "", "keys": class.Keys != 0, "key_size": class.KeySize != "", "value": class.Value != "",
		"op": class.Op != "", "mix": class.Mix != nil, "popularity": class.Popularity != "", "batch": class.Batch != 0,
		"expire": class.Expire != 0, "write_back": class.WriteBack != "",
	} {
		if given && !sharesKey(kind, key) {
			c.fail(path+"."+key, "%s belongs to the workload kind kv, this is %s", key, kind)
		}
	}
	for i := range class.Work {
		c.step(&class.Work[i], fmt.Sprintf("%s.work.%d", path, i))
	}
	if kind == kindSynthetic && len(class.Work) == 0 {
		c.fail(path+".work", "class %s has no work", class.Name)
	}
}
