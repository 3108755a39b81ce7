package catalog

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var durationType = reflect.TypeFor[time.Duration]()

// field is one setting in a config struct.
type field struct {
	tag   reflect.StructTag
	value reflect.Value
}

func (f field) name() string { return f.tag.Get("setting") }

// fields returns the settings in the struct v. Those of a struct embedded in it stand where it stands.
func fields(v reflect.Value) []field {
	var list []field
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			list = append(list, fields(v.Field(i))...)
			continue
		}
		list = append(list, field{tag: f.Tag, value: v.Field(i)})
	}
	return list
}

// describe lists the settings in config, a pointer to a struct whose fields have their defaults.
func describe(config any) []Setting {
	var list []Setting
	for _, f := range fields(reflect.ValueOf(config).Elem()) {
		list = append(list, Setting{
			Name:    f.name(),
			Type:    typeName(f.value.Type()),
			Default: fmt.Sprint(f.value.Interface()),
			Unit:    f.tag.Get("unit"),
			Doc:     f.tag.Get("doc"),
		})
	}
	return list
}

// typeName returns how users call t. Settings have few types; another one is a mistake in a config struct.
func typeName(t reflect.Type) string {
	switch {
	case t == durationType:
		return "duration"
	case t.Kind() == reflect.Int:
		return "int"
	case t.Kind() == reflect.Float64:
		return "float"
	case t.Kind() == reflect.Bool:
		return "bool"
	case t.Kind() == reflect.String:
		return "text"
	}
	panic("catalog: no settings of type " + t.String())
}

// assign sets the setting called key in config, or in the settings of the section.
func assign(config any, s section, key string, value any) error {
	var names []string
	for _, f := range fields(reflect.ValueOf(config).Elem()) {
		if f.name() == key {
			return convert(f.value, key, value)
		}
		names = append(names, f.name())
	}
	for _, f := range fields(reflect.ValueOf(s.config).Elem()) {
		name := s.name(f.name())
		if name == key {
			return convert(f.value, key, value)
		}
		names = append(names, name)
	}
	return fmt.Errorf("unknown setting %q%s", key, suggest(key, names))
}

// convert puts value into field, when it is of the right type.
func convert(field reflect.Value, key string, value any) error {
	v := reflect.ValueOf(value)
	switch typeName(field.Type()) {
	case "duration":
		return convertDuration(field, key, value)
	case "int":
		switch {
		case v.CanInt():
			field.SetInt(v.Int())
			return nil
		case v.CanUint() && v.Uint() <= math.MaxInt:
			field.SetInt(int64(v.Uint()))
			return nil
		}
		return fmt.Errorf("%s is %v, must be a whole number", key, quote(value))
	case "float":
		switch {
		case v.CanFloat() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)):
			return fmt.Errorf("%s is %v, must be a finite number", key, v.Float())
		case v.CanFloat():
			field.SetFloat(v.Float())
		case v.CanInt():
			field.SetFloat(float64(v.Int()))
		case v.CanUint():
			field.SetFloat(float64(v.Uint()))
		default:
			return fmt.Errorf("%s is %v, must be a number", key, quote(value))
		}
		return nil
	case "bool":
		if b, ok := value.(bool); ok {
			field.SetBool(b)
			return nil
		}
		return fmt.Errorf("%s is %v, must be true or false", key, quote(value))
	default:
		switch value := value.(type) {
		case string:
			field.SetString(value)
			return nil
		case int, int64, uint64, float64: // one rate of a list, say, that could have been two
			field.SetString(fmt.Sprint(value))
			return nil
		}
		return fmt.Errorf("%s is %v, must be text", key, quote(value))
	}
}

func convertDuration(field reflect.Value, key string, value any) error {
	switch d := value.(type) {
	case time.Duration:
		field.SetInt(int64(d))
		return nil
	case string:
		parsed, err := time.ParseDuration(d)
		if err != nil {
			return fmt.Errorf("%s is %q, must be a duration such as 200us, 5ms or 1.5s", key, d)
		}
		field.SetInt(int64(parsed))
		return nil
	}
	return fmt.Errorf("%s is %v, must be a duration with a unit, such as 200us, 5ms or 1.5s", key, quote(value))
}

// quote prints a value as a user would recognise it.
func quote(value any) any {
	if s, ok := value.(string); ok {
		return strconv.Quote(s)
	}
	if value == nil {
		return "empty"
	}
	return value
}

// ParseSettings reads settings written as key=value, with values as YAML has them: whole numbers, other numbers, true and false; all
// else is text. It returns what New takes.
func ParseSettings(list []string) (map[string]any, error) {
	settings := make(map[string]any, len(list))
	for _, s := range list {
		key, text, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("setting %q: want key=value", s)
		}
		if _, twice := settings[key]; twice {
			return nil, fmt.Errorf("setting %q: %s is given twice", s, key)
		}
		settings[key] = scalar(text)
	}
	return settings, nil
}

// scalar returns the value that text stands for.
func scalar(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	// ParseFloat knows words and hexadecimal floats that nobody means as a number.
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.Trim(text, "+-.eE0123456789") == "" {
		return f
	}
	switch text {
	case "true":
		return true
	case "false":
		return false
	}
	return text
}
