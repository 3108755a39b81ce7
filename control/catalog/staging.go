package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spillway/control"
	"spillway/control/staging"
)

// stagingRow is the controller that holds requests back while a resource is scarce.
func stagingRow() row {
	return define("staging", "keeps requests unprocessed while any resource is scarce: memory, files, the processor, what the server shows",
		"the staging-queue article",
		staging.Default,
		func(c staging.Config, env Env) (control.Stack, error) {
			exempt, err := env.classes(c.Exempt)
			if err != nil {
				return control.Stack{}, fmt.Errorf("exempt: %w", err)
			}
			return only(staging.New(c, exempt...)), nil
		})
}

// classes returns the numbers of the classes that a list names, by name, or by number as #1.
func (e Env) classes(list string) (numbers []uint16, err error) {
	if list == "" || list == staging.NoClass {
		return nil, nil
	}
	var names []string
	for _, c := range e.Classes {
		names = append(names, c.Name)
	}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if digits, numbered := strings.CutPrefix(name, "#"); numbered {
			n, err := strconv.ParseUint(digits, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("class %q: a number of a class is written as #1", name)
			}
			numbers = append(numbers, uint16(n))
			continue
		}
		i := slices.Index(names, name)
		switch {
		case i >= 0:
			numbers = append(numbers, uint16(i))
		case len(names) == 0:
			return nil, fmt.Errorf("class %q: the classes have no names here; give its number, as #1", name)
		case name == "":
			return nil, errors.New("a class without a name")
		default:
			return nil, fmt.Errorf("unknown class %q%s", name, suggest(name, names))
		}
	}
	return numbers, nil
}
