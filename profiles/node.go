package profiles

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxDepth bounds nesting. The deepest legitimate profile (steps of sections) stays below a dozen.
const maxDepth = 32

// Error is a mistake in a profile, with its place.
type Error struct {
	File         string
	Line, Column int    // from 1; 0 when the mistake is not in a file
	Origin       string // where the value came from instead, such as `--set window=x`
	Message      string
}

// Error prints file:line:column and what is wrong there.
func (e *Error) Error() string {
	switch {
	case e.Origin != "":
		return e.Origin + ": " + e.Message
	case e.Line == 0:
		return e.File + ": " + e.Message
	default:
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	}
}

type nodeKind uint8

const (
	scalar nodeKind = iota
	mapping
	sequence
	null
)

func (k nodeKind) String() string {
	return [...]string{"a value", "a mapping", "a list", "nothing"}[k]
}

// node is a YAML value reduced to what profiles use: no anchors, no tags, no merge keys, scalars as they were written.
type node struct {
	kind         nodeKind
	text         string // of a scalar
	keys         []*node
	values       []*node // of a mapping (beside keys) or a sequence
	line, column int
	origin       string // set by --set
}

func (n *node) get(key string) *node {
	for i, k := range n.keys {
		if k.text == key {
			return n.values[i]
		}
	}
	return nil
}

// describe names n in messages.
func (n *node) describe() string {
	if n.kind == scalar {
		return fmt.Sprintf("%q", n.text)
	}
	return n.kind.String()
}

func (n *node) fail(file, format string, args ...any) error {
	return &Error{File: file, Line: n.line, Column: n.column, Origin: n.origin, Message: fmt.Sprintf(format, args...)}
}

// parseTree reads YAML. A panic inside the YAML library on hostile input is turned into an error, since a profile may come from
// anywhere and a stack trace is no message.
func parseTree(file string, text []byte) (root *node, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, &Error{File: file, Message: fmt.Sprintf("the YAML library gave up on this text (%v)", r)}
		}
	}()
	if line, depth := flowDepth(text); depth > maxDepth {
		return nil, &Error{File: file, Line: line, Column: 1, Message: fmt.Sprintf("nested deeper than %d levels", maxDepth)}
	}
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, syntaxError(file, err)
	}
	var body ast.Node
	for _, d := range f.Docs {
		if d.Body == nil {
			continue
		}
		if body != nil {
			t := d.Body.GetToken().Position
			return nil, &Error{File: file, Line: t.Line, Column: t.Column, Message: "a profile is one document, this is a second"}
		}
		body = d.Body
	}
	if body == nil {
		return nil, &Error{File: file, Line: 1, Column: 1, Message: "the profile is empty"}
	}
	root, err = convert(file, body, 0)
	if err != nil {
		return nil, err
	}
	if root.kind != mapping {
		return nil, root.fail(file, "a profile is a mapping such as `name: quickstart`, not %s", root.describe())
	}
	return root, nil
}

// flowDepth returns the deepest run of opened brackets and the line it is on. The parser recurses over flow collections, so a file of
// nothing but brackets is turned away before it is parsed. Brackets within quotes are counted too, which only makes the bound stricter
// for text that no profile has.
func flowDepth(text []byte) (line, deepest int) {
	depth, current := 0, 1
	line = 1
	for _, c := range text {
		switch c {
		case '\n':
			current++
		case '[', '{':
			if depth++; depth > deepest {
				deepest, line = depth, current
			}
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return line, deepest
}

func syntaxError(file string, err error) error {
	var ye yaml.Error
	if errors.As(err, &ye) {
		e := &Error{File: file, Message: ye.GetMessage()}
		if strings.Contains(e.Message, `'	'`) {
			e.Message = "here stands a tab; YAML is indented with spaces"
		}
		if t := ye.GetToken(); t != nil && t.Position != nil {
			e.Line, e.Column = t.Position.Line, t.Position.Column
		}
		return e
	}
	return &Error{File: file, Message: err.Error()}
}

func convert(file string, a ast.Node, depth int) (*node, error) {
	t := a.GetToken()
	n := &node{kind: scalar}
	if t != nil && t.Position != nil {
		n.line, n.column = t.Position.Line, t.Position.Column
	}
	if depth > maxDepth {
		return nil, n.fail(file, "nested deeper than %d levels", maxDepth)
	}
	switch v := a.(type) {
	case *ast.MappingNode:
		return convertMapping(file, n, v.Values, depth)
	case *ast.MappingValueNode:
		return convertMapping(file, n, []*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		n.kind = sequence
		for _, e := range v.Values {
			c, err := convert(file, e, depth+1)
			if err != nil {
				return nil, err
			}
			n.values = append(n.values, c)
		}
	case *ast.StringNode:
		n.text = v.Value
	case *ast.LiteralNode:
		n.text = v.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		n.text = t.Value
	case *ast.NullNode:
		n.kind = null
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return nil, n.fail(file, "anchors, aliases and merge keys are not part of a profile; write the value out")
	case *ast.TagNode:
		return nil, n.fail(file, "tags are not part of a profile; write the plain value")
	default:
		return nil, n.fail(file, "this kind of YAML (%s) is not part of a profile", a.Type())
	}
	return n, nil
}

func convertMapping(file string, n *node, entries []*ast.MappingValueNode, depth int) (*node, error) {
	n.kind = mapping
	seen := make(map[string]bool, len(entries))
	for i, e := range entries {
		key, err := convert(file, e.Key, depth+1)
		if err != nil {
			return nil, err
		}
		if key.kind != scalar {
			return nil, key.fail(file, "a key is a word, not %s", key.describe())
		}
		if i == 0 {
			// The token of a block mapping is a colon; its first key is where a reader looks.
			n.line, n.column = key.line, key.column
		}
		if seen[key.text] {
			return nil, key.fail(file, "key %q stands here a second time", key.text)
		}
		seen[key.text] = true
		value, err := convert(file, e.Value, depth+1)
		if err != nil {
			return nil, err
		}
		n.keys, n.values = append(n.keys, key), append(n.values, value)
	}
	return n, nil
}
