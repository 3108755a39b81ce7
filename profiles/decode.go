package profiles

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"spillway/internal/dist"
)

// decoder fills structs from a tree. The tree, not the YAML library, decides what is an error, because the same tree is changed
// by --set and every message must name the place, the known keys and what would have been right.
type decoder struct {
	file string
	at   map[string]*node // where each path was written, for the checks that follow
}

// fromNode is implemented by types that have more than one written form.
type fromNode interface {
	fromNode(d *decoder, n *node, path string) error
}

// decode fills the struct that target points to from n.
func (d *decoder) decode(target any, n *node) error {
	return d.value(reflect.ValueOf(target).Elem(), n, "")
}

func (d *decoder) value(v reflect.Value, n *node, path string) error {
	d.at[path] = n
	if _, any := v.Interface().(Inline); n.kind == null && !any {
		return n.fail(d.file, "%s has no value; leave the key out or give it one", lastKey(path))
	}
	if v.CanAddr() {
		if f, ok := v.Addr().Interface().(fromNode); ok {
			return f.fromNode(d, n, path)
		}
	}
	if handled, err := d.unit(v, n); handled {
		return err
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(v.Elem(), n, path)
	case reflect.Struct:
		return d.structure(v, n, path)
	case reflect.Slice:
		return d.slice(v, n, path)
	case reflect.Map:
		return d.dictionary(v, n, path)
	default:
		return d.scalar(v, n, path)
	}
}

// unit decodes the types whose values have units.
func (d *decoder) unit(v reflect.Value, n *node) (handled bool, err error) {
	var parsed any
	switch v.Interface().(type) {
	case time.Duration:
		parsed, err = dist.ParseDuration(n.text)
	case Rate:
		parsed, err = ParseRate(n.text)
	case Size:
		var bytes int64
		bytes, err = dist.ParseSize(n.text)
		parsed = Size(bytes)
	case Factor:
		parsed, err = ParseFactor(n.text)
	case Speed:
		parsed, err = ParseSpeed(n.text)
	default:
		return false, nil
	}
	if n.kind != scalar {
		return true, n.fail(d.file, "a single value belongs here, not %s", n.describe())
	}
	if err != nil {
		return true, n.fail(d.file, "%v", err)
	}
	v.Set(reflect.ValueOf(parsed))
	return true, nil
}

func (d *decoder) structure(v reflect.Value, n *node, path string) error {
	if n.kind != mapping {
		return n.fail(d.file, "%s is a mapping with the keys %s, not %s", lastKey(path), strings.Join(keysOf(v.Type()), ", "), n.describe())
	}
	for i, key := range n.keys {
		field, ok := fieldOf(v, key.text)
		if !ok {
			return d.unknownKey(key, keysOf(v.Type()))
		}
		if err := d.value(field, n.values[i], join(path, key.text)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) unknownKey(key *node, known []string) error {
	if near := Nearest(key.text, known); near != "" {
		return key.fail(d.file, "unknown key %q; did you mean %q?", key.text, near)
	}
	return key.fail(d.file, "unknown key %q; known here: %s", key.text, strings.Join(known, ", "))
}

func (d *decoder) slice(v reflect.Value, n *node, path string) error {
	if n.kind != sequence {
		return n.fail(d.file, "%s is a list such as [a, b], not %s", lastKey(path), n.describe())
	}
	list := reflect.MakeSlice(v.Type(), len(n.values), len(n.values))
	for i, e := range n.values {
		if err := d.value(list.Index(i), e, join(path, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

// dictionary decodes mappings with free keys: settings, shares, provenance. Their values are single values.
func (d *decoder) dictionary(v reflect.Value, n *node, path string) error {
	if n.kind != mapping {
		return n.fail(d.file, "%s is a mapping, not %s", lastKey(path), n.describe())
	}
	m := reflect.MakeMapWithSize(v.Type(), len(n.keys))
	for i, key := range n.keys {
		e := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(e, n.values[i], join(path, key.text)); err != nil {
			return err
		}
		m.SetMapIndex(reflect.ValueOf(key.text), e)
	}
	v.Set(m)
	return nil
}

func (d *decoder) scalar(v reflect.Value, n *node, path string) error {
	if n.kind != scalar {
		return n.fail(d.file, "%s is a single value, not %s", lastKey(path), n.describe())
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.text)
	case reflect.Int:
		i, err := strconv.ParseInt(n.text, 10, 32)
		if err != nil {
			return n.fail(d.file, "%s is a whole number, not %q", lastKey(path), n.text)
		}
		v.SetInt(i)
	case reflect.Uint64:
		u, err := strconv.ParseUint(n.text, 10, 64)
		if err != nil {
			return n.fail(d.file, "%s is a whole number from 0, not %q", lastKey(path), n.text)
		}
		v.SetUint(u)
	case reflect.Float64:
		f, err := parseNumber(n.text)
		if err != nil {
			return n.fail(d.file, "%s is a number, not %q", lastKey(path), n.text)
		}
		v.SetFloat(f)
	default:
		panic("profiles: no decoding for " + v.Type().String())
	}
	return nil
}

// fromNode reads `slo: 500us` and `slo: {p50: 18ms, p90: 50ms}`.
func (s *SLO) fromNode(d *decoder, n *node, path string) error {
	if n.kind != mapping {
		return d.value(reflect.ValueOf(&s.Limit).Elem(), n, path)
	}
	if len(n.keys) == 0 {
		return n.fail(d.file, "an SLO has at least one percentile, such as {p99: 5ms}")
	}
	for _, key := range n.keys {
		q, err := parseNumber(strings.TrimPrefix(key.text, "p"))
		if err != nil || !strings.HasPrefix(key.text, "p") || q <= 0 || q >= 100 {
			return key.fail(d.file, "%q is not a percentile; write p50, p99 or p99.9", key.text)
		}
	}
	if err := d.value(reflect.ValueOf(&s.Percentiles).Elem(), n, path); err != nil {
		return err
	}
	for _, limit := range s.Percentiles {
		s.Limit = max(s.Limit, limit)
	}
	return nil
}

// fieldOf returns the field of struct v that key names.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == key && key != "" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// keysOf lists the keys of struct type t in the order of its fields.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// lastKey names the thing at path in messages: the last key that is a word, with the index of a list entry.
func lastKey(path string) string {
	if path == "" {
		return "the profile"
	}
	parts := strings.Split(path, ".")
	last := parts[len(parts)-1]
	if _, err := strconv.Atoi(last); err == nil && len(parts) > 1 {
		return fmt.Sprintf("entry %s of %s", last, parts[len(parts)-2])
	}
	return last
}

// Nearest returns the word of known that word is most likely a slip of, or "" when none is close. Messages about settings that only
// the harness can judge use it too.
func Nearest(word string, known []string) string {
	best, bestDistance := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := editDistance(word, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return abbreviated(word, known)
	}
	return best
}

// abbreviated returns the known word of which letters were left out; empty when it is none or several.
func abbreviated(word string, known []string) (full string) {
	const least = 3 // letters: fewer are in many words
	for _, k := range known {
		rest := word
		for i := 0; i < len(k) && rest != ""; i++ {
			if k[i] == rest[0] {
				rest = rest[1:]
			}
		}
		switch {
		case rest != "" || len(word) < least || len(k) > 2*len(word) || k[0] != word[0]:
		case full != "":
			return ""
		default:
			full = k
		}
	}
	return full
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours between a and b (Damerau and Levenshtein, each
// letter changed once at most). Long words are cut: nobody mistypes forty letters of a key.
func editDistance(a, b string) int {
	const longest = 40
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	var rows [3][longest + 1]int // of the letter before the last, the last and the present one of a
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
