package sysfs

import (
	"fmt"
	"strconv"
	"strings"
)

// devices is where the kernel lists the PMUs of perf.
const devices = "/sys/bus/event_source/devices"

// PMU is one unit that can count events, as the kernel describes it. An uncore has many.
type PMU struct {
	Name string
	Type uint32 // attr.type; it may differ from boot to boot
	CPUs []int  // to open events on, one a package or die: not the processors whose traffic is counted; nil where the kernel leaves it open
	// MuxMS is how often events take turns when there are more of them than counters, in ms; 0 is not known.
	MuxMS int

	root    Root
	formats map[string]Format
}

// PMUs returns the names of all PMUs in natural order.
func (r Root) PMUs() []string { return r.Names(devices) }

// PMU reads the description of one PMU.
func (r Root) PMU(name string) (*PMU, error) {
	p := &PMU{Name: name, root: r, formats: map[string]Format{}}
	text, err := r.Text(p.path("type"))
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%s: type %q is not a number", name, text)
	}
	p.Type = uint32(n)
	for _, file := range []string{"cpumask", "cpus"} { // cpus: core PMUs of hybrid processors, and Arm's
		text, err := r.Text(p.path(file))
		if err != nil {
			continue
		}
		if p.CPUs, err = ParseCPUs(text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		break
	}
	if text, err := r.Text(p.path("perf_event_mux_interval_ms")); err == nil {
		p.MuxMS, _ = strconv.Atoi(text)
	}
	for _, field := range r.Names(p.path("format")) {
		text, err := r.Text(p.path("format/" + field))
		if err != nil {
			return nil, err
		}
		if p.formats[field], err = ParseFormat(text); err != nil {
			return nil, fmt.Errorf("%s: field %s: %w", name, field, err)
		}
	}
	return p, nil
}

func (p *PMU) path(file string) string { return devices + "/" + p.Name + "/" + file }

// HasFormat reports whether the format of a field is exactly text, white space aside: it is how generations of one PMU are told apart.
func (p *PMU) HasFormat(field, text string) bool {
	f, ok := p.formats[field]
	return ok && f.text == text
}

// Event returns the terms of an event that the kernel has a name for, and how many of its unit are one count; the scale is 1 and the unit empty
// where the kernel gives none.
func (p *PMU) Event(name string) (terms string, scale float64, unit string, ok bool) {
	terms, err := p.root.Text(p.path("events/" + name))
	if err != nil {
		return "", 0, "", false
	}
	scale = 1
	if text, err := p.root.Text(p.path("events/" + name + ".scale")); err == nil {
		if s, err := ParseScale(text); err == nil {
			scale = s
		}
	}
	unit, _ = p.root.Text(p.path("events/" + name + ".unit"))
	return terms, scale, unit, true
}

// Config is what an event is to the kernel.
type Config struct{ Config, Config1, Config2 uint64 }

// Encode turns terms such as "event=0x04,umask=0x03" into the words of an event, by the formats of this PMU.
func (p *PMU) Encode(terms string) (c Config, err error) {
	list, err := ParseTerms(terms)
	if err != nil {
		return c, fmt.Errorf("%s: %w", p.Name, err)
	}
	for _, t := range list {
		f, ok := p.formats[t.Name]
		if !ok {
			if f, ok = whole[t.Name]; !ok {
				return c, fmt.Errorf("%s: event %q: no field %q in its format", p.Name, terms, t.Name)
			}
		}
		if err := f.set(&c, t.Value); err != nil {
			return c, fmt.Errorf("%s: event %q: %s: %w", p.Name, terms, t.Name, err)
		}
	}
	return c, nil
}

// whole are the fields that every PMU has.
var whole = map[string]Format{
	"config":  {word: 0, bits: []span{{0, 63}}},
	"config1": {word: 1, bits: []span{{0, 63}}},
	"config2": {word: 2, bits: []span{{0, 63}}},
}

// Format says which bits of which word hold a field.
type Format struct {
	text string
	word int    // 0, 1 or 2: config, config1, config2
	bits []span // the low bits of the value go into the first span
}

type span struct{ from, to int }

// ParseFormat reads the format of a field, such as "config:0-7,32-35,59-60" or "config1:0".
func ParseFormat(text string) (f Format, err error) {
	f.text = strings.TrimSpace(text)
	word, bits, ok := strings.Cut(f.text, ":")
	switch word {
	case "config":
	case "config1":
		f.word = 1
	case "config2":
		f.word = 2
	default:
		return f, fmt.Errorf("format %q: the word is none of config, config1, config2", text)
	}
	if !ok {
		f.bits = []span{{0, 63}}
		return f, nil
	}
	used := uint64(0)
	for _, part := range strings.Split(bits, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 8)
		b, errB := strconv.ParseUint(to, 10, 8)
		if errA != nil || errB != nil || a > b || b > 63 {
			return f, fmt.Errorf("format %q: %q is not a range of bits", text, part)
		}
		mask := ^uint64(0) >> (63 - (b - a)) << a
		if used&mask != 0 {
			return f, fmt.Errorf("format %q: it has a bit twice", text)
		}
		used |= mask
		f.bits = append(f.bits, span{int(a), int(b)})
	}
	return f, nil
}

// set puts a value into its bits.
func (f Format) set(c *Config, value uint64) error {
	word := [3]*uint64{&c.Config, &c.Config1, &c.Config2}[f.word]
	rest := value
	for _, s := range f.bits {
		width := s.to - s.from + 1
		mask := ^uint64(0) >> (64 - width)
		*word = *word&^(mask<<s.from) | rest&mask<<s.from
		if width == 64 {
			rest = 0
		} else {
			rest >>= width
		}
	}
	if rest != 0 {
		return fmt.Errorf("%#x does not fit its format %s", value, f.text)
	}
	return nil
}

// Term is one field of an event and its value.
type Term struct {
	Name  string
	Value uint64
}

// ParseTerms reads the terms of an event. A field without a value has the value 1; one whose value is left to the user, "=?", is an error.
func ParseTerms(text string) ([]Term, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, fmt.Errorf("an event without terms")
	}
	var list []Term
	for _, part := range strings.Split(text, ",") {
		name, value, has := strings.Cut(strings.TrimSpace(part), "=")
		if name == "" {
			return nil, fmt.Errorf("event %q: a term without a name", text)
		}
		t := Term{Name: name, Value: 1}
		if has {
			n, err := strconv.ParseUint(value, 0, 64)
			if err != nil {
				return nil, fmt.Errorf("event %q: %s=%s is not a number", text, name, value)
			}
			t.Value = n
		}
		list = append(list, t)
	}
	return list, nil
}

// ParseScale reads the scale of an event, such as "6.103515625e-5".
func ParseScale(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v > 0 && v <= 1e18) {
		return 0, fmt.Errorf("scale %q is not a positive number", text)
	}
	return v, nil
}

// UnitBytes returns how many bytes the unit of an event is; false for one that is not of bytes.
func UnitBytes(unit string) (float64, bool) {
	switch unit {
	case "Bytes", "bytes", "B":
		return 1, true
	case "KiB":
		return 1 << 10, true
	case "MiB":
		return 1 << 20, true
	case "GiB":
		return 1 << 30, true
	case "KB":
		return 1e3, true
	case "MB":
		return 1e6, true
	case "GB":
		return 1e9, true
	}
	return 0, false
}
