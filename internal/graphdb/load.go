package graphdb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxLine bounds a line of an edge list.
const maxLine = 1 << 16

// Load reads an edge list: a line for each edge, with the numbers of two vertices and, if it has one, its type, separated by blanks,
// tabs or a comma. A line "v NUMBER LABEL" gives a vertex its label; all others have label 0. Empty lines and what begins with # or %
// is passed over. There are as many vertices as the highest number says. An error names the line.
func Load(r io.Reader) (*Graph, error) {
	var edges []Edge
	var labels []uint8
	vertex := func(text string) (uint32, error) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n >= MaxVertices {
			return 0, fmt.Errorf("%q is no number of a vertex: 0 to %d", text, MaxVertices-1)
		}
		for len(labels) <= int(n) {
			labels = append(labels, make([]uint8, int(n)+1-len(labels))...)
		}
		return uint32(n), nil
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == '%' {
			continue
		}
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
		if err := readLine(words, vertex, &edges, &labels); err != nil {
			return nil, fmt.Errorf("graph: line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("graph: line %d: %w", number+1, err)
	}
	if len(edges) == 0 {
		return nil, errors.New("graph: the list has no edges: write a line for each, with the numbers of its two vertices")
	}
	return Build(labels, edges)
}

func readLine(words []string, vertex func(string) (uint32, error), edges *[]Edge, labels *[]uint8) error {
	property := func(text string) (uint8, error) {
		n, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return 0, fmt.Errorf("%q is no label or type: 0 to 255", text)
		}
		return uint8(n), nil
	}
	if words[0] == "v" {
		if len(words) != 3 {
			return errors.New("want: v NUMBER LABEL")
		}
		v, err := vertex(words[1])
		if err != nil {
			return err
		}
		(*labels)[v], err = property(words[2])
		return err
	}
	if len(words) < 2 || len(words) > 3 {
		return errors.New("want two vertices and perhaps a type: FROM TO [TYPE]")
	}
	var e Edge
	var err error
	if e.From, err = vertex(words[0]); err != nil {
		return err
	}
	if e.To, err = vertex(words[1]); err != nil {
		return err
	}
	if len(words) == 3 {
		if e.Type, err = property(words[2]); err != nil {
			return err
		}
	}
	*edges = append(*edges, e)
	return nil
}
