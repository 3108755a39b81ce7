package controltest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"spillway/control/catalog"
)

// class reads what new says of a class of requests: "NAME [priority=N] [slo=D | pNN=D …]". The first line is class 0.
func class(words []string) (c catalog.Class, err error) {
	if len(words) == 0 {
		return c, errors.New("class without a name")
	}
	c.Name = words[0]
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if key == "priority" {
			n, err := strconv.ParseUint(value, 10, 8)
			if err != nil {
				return c, err
			}
			c.Priority = uint8(n)
			continue
		}
		limit, err := time.ParseDuration(value)
		if err != nil {
			return c, err
		}
		if key == "slo" {
			c.Limit = limit
			continue
		}
		percent, err := strconv.ParseFloat(strings.TrimPrefix(key, "p"), 64)
		if err != nil || !strings.HasPrefix(key, "p") {
			return c, fmt.Errorf("unknown %q", word)
		}
		c.SLO = append(c.SLO, catalog.Objective{Percentile: percent / 100, Limit: limit})
	}
	return c, nil
}
