package catalog

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"

	"spillway/control"
	"spillway/control/memsem"
)

// stream separates the draws of the section from those that a controller makes from the same seed.
const stream = 0x6d656d73656d // "memsem"

// section are the settings of the memory section of one controller.
type section struct {
	config *memsem.Config
	taken  map[string]bool // names that the controller's own settings have
}

// sectionOf returns the default settings of the section of r, whose own settings are in config.
func sectionOf(r row, config any) section {
	c := memsem.Default()
	if r.section != "" {
		c.Section = r.section
	}
	taken := make(map[string]bool)
	for _, s := range describe(config) {
		taken[s.Name] = true
	}
	return section{config: &c, taken: taken}
}

// name returns what the section's setting of that name is called here.
func (s section) name(setting string) string {
	if s.taken[setting] {
		return "section_" + setting
	}
	return setting
}

// describe lists the section's settings.
func (s section) describe() []Setting {
	list := describe(s.config)
	for i := range list {
		list[i].Name = s.name(list[i].Name)
		if i > 0 {
			list[i].Doc = "memory section: " + list[i].Doc
		}
	}
	return list
}

// add puts the section into the stack of a controller, unless it is off. Its settings are checked all the same.
func (s section) add(stack control.Stack, env Env) (control.Stack, error) {
	if err := s.config.Check(); err != nil {
		return control.Stack{}, s.renamed(err)
	}
	mode, on, err := s.config.Mode()
	if err != nil || !on {
		return stack, err
	}
	m, err := memsem.Build(*s.config, env.Cores, env.Oracle, rand.New(rand.NewPCG(env.Seed, stream)))
	if err != nil {
		return control.Stack{}, s.renamed(err)
	}
	stack.Controller = control.NewChain(stack.Controller, m)
	stack.Memory, stack.Mode = m, mode
	return stack, nil
}

// renamed returns err, which begins with the name of a setting, with the name that it has here.
func (s section) renamed(err error) error {
	name, rest, _ := strings.Cut(err.Error(), " ")
	t := reflect.TypeFor[memsem.Config]()
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("setting") == name && s.taken[name] {
			return fmt.Errorf("%s %s", s.name(name), rest)
		}
	}
	return err
}
