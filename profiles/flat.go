package profiles

import "strconv"

// Flat returns the values of a profile's text by their keys, with dots as --set takes them. No key has to be known, and nothing is checked, so
// that the profile of a result can be held against another whichever version wrote it. An empty list or mapping has one value.
func Flat(file string, text []byte) (map[string]string, error) {
	root, err := parseTree(file, text)
	if err != nil {
		return nil, err
	}
	flat := map[string]string{}
	root.flatten("", flat)
	return flat, nil
}

func (n *node) flatten(path string, into map[string]string) {
	switch {
	case n.kind == scalar:
		into[path] = n.text
	case n.kind == null:
		into[path] = "null"
	case len(n.values) == 0 && n.kind == mapping:
		into[path] = "{}"
	case len(n.values) == 0:
		into[path] = "[]"
	}
	for i, v := range n.values {
		key := strconv.Itoa(i)
		if n.kind == mapping {
			key = n.keys[i].text
		}
		v.flatten(join(path, key), into)
	}
}
