package profiles

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"spillway/internal/dist"
)

// Resolved returns p as YAML with every default and preset written out. Reading it again gives the same profile.
func (p *Profile) Resolved() []byte {
	written := *p
	if len(p.Load.Phases) > 0 {
		written.Window = 0 // it follows from the phases, and must not stand beside them
	}
	text, err := yaml.MarshalWithOptions(encode(reflect.ValueOf(written)), yaml.IndentSequence(true))
	if err != nil {
		panic("profiles: a checked profile cannot be written: " + err.Error())
	}
	return text
}

// encode is the inverse of decoder.value; it leaves out what is empty.
func encode(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return dist.FormatDuration(x)
	case Rate:
		return x.String()
	case Size:
		return x.String()
	case Factor:
		return plain(string(x))
	case Speed:
		return plain(string(x))
	case Inline:
		return x.written()
	case SLO:
		if x.Percentiles == nil {
			return dist.FormatDuration(x.Limit)
		}
		return encode(reflect.ValueOf(x.Percentiles))
	case Machine:
		if x.Ref != "" {
			return x.Ref
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return encode(v.Elem())
	case reflect.Struct:
		return encodeStruct(v)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = encode(v.Index(i))
		}
		return list
	case reflect.Map:
		var m yaml.MapSlice
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			m = append(m, yaml.MapItem{Key: k.String(), Value: encode(v.MapIndex(k))})
		}
		return m
	case reflect.String:
		return plain(v.String())
	case reflect.Float64:
		if f := v.Float(); f > 0 && (f < 1e-4 || f >= 1e6) {
			return decimal(f)
		}
		return v.Interface()
	default:
		return v.Interface()
	}
}

// decimal is a number that the YAML library would write with an exponent, which profiles do not have.
type decimal float64

// MarshalYAML writes d in plain digits.
func (d decimal) MarshalYAML() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(d), 'f', -1, 64)), nil
}

func encodeStruct(v reflect.Value) yaml.MapSlice {
	m := yaml.MapSlice{}
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("yaml")
		if key == "" || v.Field(i).IsZero() && (!zeroMatters[key] || v.Type() == reflect.TypeFor[Controller]()) {
			continue
		}
		if k := v.Field(i).Kind(); (k == reflect.Map || k == reflect.Slice) && v.Field(i).Len() == 0 && !emptyMatters[key] {
			continue
		}
		m = append(m, yaml.MapItem{Key: key, Value: encode(v.Field(i))})
	}
	return m
}

// zeroMatters names the keys whose zero differs from their default. A controller's zero warm-up is none of its own.
var zeroMatters = map[string]bool{"warmup": true, "drain": true, "seed": true, "network": true, "share": true, "lag": true}

// emptyMatters names the keys whose empty value differs from none: a controller without any of the parts is one of those compared, and a
// variant that sets nothing is the profile as it stands.
var emptyMatters = map[string]bool{"parts": true, "set": true}

// plain lets text that is exactly a whole number, a fraction or a truth value stand without quotes; everything else stays a string.
func plain(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(i, 10) == s {
		return i
	}
	if f, err := parseNumber(s); err == nil && f < 1e6 && strconv.FormatFloat(f, 'f', -1, 64) == s {
		return f
	}
	if s == "true" || s == "false" {
		return s == "true"
	}
	return s
}

// Assignment sets one key of a resolved profile.
type Assignment struct {
	Key    string // with dots, lists by index: controllers.0.settings.limit
	Value  string // YAML, so whole lists and mappings can be given too; null takes the key away
	Origin string // what the user typed, for messages
}

// ParseAssignment reads the argument of --set, key=value.
func ParseAssignment(s string) (Assignment, error) {
	a := Assignment{Origin: "--set " + s}
	var ok bool
	if a.Key, a.Value, ok = strings.Cut(s, "="); !ok || a.Key == "" {
		return a, a.fail("write it as key=value, such as window=5s or controllers.0.settings.limit=8")
	}
	return a, nil
}

func (a *Assignment) fail(format string, args ...any) error {
	return &Error{Origin: a.Origin, Message: fmt.Sprintf(format, args...)}
}

// Set returns p with assignments applied in order to its resolved form. Only the result is checked: on the way there, assignments may
// pass through states that would be wrong.
func (p *Profile) Set(assignments []Assignment) (*Profile, error) {
	if len(assignments) == 0 {
		return p, nil
	}
	// What is wrong from here on is wrong because of the assignments; the resolved text has no lines that the user could look at.
	var origins []string
	for i := range assignments {
		if !slices.Contains(origins, assignments[i].Origin) {
			origins = append(origins, assignments[i].Origin)
		}
	}
	return p.set(assignments, p.file+" with "+strings.Join(origins, " "))
}

// set is Set, where elsewhere is what messages say of mistakes that are not in an assignment itself.
func (p *Profile) set(assignments []Assignment, elsewhere string) (*Profile, error) {
	root, err := parseTree(p.file, p.Resolved())
	if err != nil {
		return nil, err
	}
	mark(root, elsewhere)
	for i := range assignments {
		if err := assignments[i].apply(root); err != nil {
			return nil, err
		}
	}
	changed, err := build(p.file, root, elsewhere)
	if err != nil {
		return nil, err
	}
	changed.text = p.text
	changed.places.keep(p.places, elsewhere)
	return changed, nil
}

func (a *Assignment) apply(root *node) error {
	tree, err := parseTree(a.Origin, []byte("value: "+a.Value))
	if err != nil {
		return a.fail("the value is not YAML: %s", unplaced(err))
	}
	v := tree.get("value")
	if v == nil || len(tree.keys) != 1 {
		return a.fail("the value is not YAML")
	}
	mark(v, a.Origin)
	path := strings.Split(a.Key, ".")
	if len(path) > 3 && path[0] == "variants" && path[2] == "set" {
		path = append(path[:3], strings.Join(path[3:], ".")) // the keys of a variant's set have dots themselves
	}
	if path[0] == SizeQuick || path[0] == SizeFull {
		return a.fail("--%s sets what %s: has, and --set comes after it; set the key itself", path[0], path[0])
	}
	if err := changeMachine(root, path, a.Origin); err != nil {
		return err
	}
	return assign(root, path, v, a.Origin)
}

// WithControllers returns p with only the controllers named: by their labels, or, where the profile has none of that label, by the name
// of a controller, which then has its default settings. known lists those names.
func (p *Profile) WithControllers(labels, known []string) (*Profile, error) {
	changed := *p
	changed.Controllers, changed.places, changed.runs = nil, places{}, nil
	changed.Quick, changed.Full = nil, nil // which set controllers by number
	for _, run := range p.runs {
		only, err := run.WithControllers(labels, known)
		if err != nil {
			return nil, err
		}
		changed.runs = append(changed.runs, only)
	}
	for path, n := range p.places {
		if !strings.HasPrefix(path, "controllers.") {
			changed.places[path] = n
		}
	}
	var mine []string
	for i := range p.Controllers {
		mine = append(mine, p.Controllers[i].Label())
	}
	for i, label := range labels {
		if slices.Contains(labels[:i], label) {
			return nil, fmt.Errorf("--controllers: %q stands there twice", label)
		}
		if at := slices.Index(mine, label); at >= 0 {
			was, is := fmt.Sprintf("controllers.%d", at), fmt.Sprintf("controllers.%d", i)
			for path, n := range p.places {
				if rest, ok := strings.CutPrefix(path, was); ok && (rest == "" || rest[0] == '.') {
					changed.places[is+rest] = n
				}
			}
			changed.Controllers = append(changed.Controllers, p.Controllers[at])
		} else if slices.Contains(known, label) {
			changed.Controllers = append(changed.Controllers, Controller{Name: label})
		} else {
			all := append(slices.Clone(mine), known...)
			hint := "known are " + strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), ", ")
			if near := Nearest(label, all); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return nil, fmt.Errorf("--controllers: no controller %q; %s", label, hint)
		}
	}
	return &changed, nil
}

func unplaced(err error) string {
	if e, ok := err.(*Error); ok {
		return e.Message
	}
	return err.Error()
}

func mark(n *node, origin string) {
	n.origin = origin
	for _, k := range n.keys {
		k.origin = origin
	}
	for _, v := range n.values {
		mark(v, origin)
	}
}

// assign puts v at path below n.
func assign(n *node, path []string, v *node, origin string) error {
	step, rest := path[0], path[1:]
	fail := func(format string, args ...any) error {
		return &Error{Origin: origin, Message: fmt.Sprintf(format, args...)}
	}
	switch n.kind {
	case sequence:
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(n.values) {
			return fail("%q is not an entry of this list; entries are 0 to %d", step, len(n.values)-1)
		}
		if len(rest) == 0 {
			n.values[i] = v
			return nil
		}
		return assign(n.values[i], rest, v, origin)
	case mapping:
		return assignKey(n, step, rest, v, origin)
	default:
		return fail("there is nothing below %s to set", n.describe())
	}
}

func assignKey(n *node, step string, rest []string, v *node, origin string) error {
	at := -1
	for i, k := range n.keys {
		if k.text == step {
			at = i
		}
	}
	switch {
	case len(rest) == 0 && v.kind == null:
		if at >= 0 {
			n.keys, n.values = slices.Delete(n.keys, at, at+1), slices.Delete(n.values, at, at+1)
		}
		return nil
	case at < 0:
		n.keys = append(n.keys, &node{kind: scalar, text: step, origin: origin})
		n.values = append(n.values, &node{kind: mapping, origin: origin})
		at = len(n.keys) - 1
	}
	if len(rest) == 0 {
		n.keys[at].origin, n.values[at] = origin, v
		return nil
	}
	return assign(n.values[at], rest, v, origin)
}
