package sysfs

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func FuzzParseCPUs(f *testing.F) {
	for _, s := range []string{"", "0", "0-3,8", "0,24\n", "5-1", "99999999999", "0-65535", ",", "1-2-3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := ParseCPUs(text)
		if err != nil {
			return
		}
		seen := map[int]bool{}
		var words []string
		for _, c := range cpus {
			if c < 0 || c > maxCPU || seen[c] {
				t.Fatalf("%q has %d, or has it twice", text, c)
			}
			seen[c] = true
			words = append(words, strconv.Itoa(c))
		}
		again, err := ParseCPUs(strings.Join(words, ","))
		if err != nil || !slices.Equal(again, cpus) {
			t.Fatalf("%q is %v, written out %v, %v", text, cpus, again, err)
		}
	})
}

func FuzzParseFormat(f *testing.F) {
	for _, s := range []string{"config:0-7", "config:0-7,32-35,59-60", "config1:0", "config2", "config:0-63", "config:64", "config:", ":", "config:0-7,"} {
		f.Add(s, uint64(0xfff))
	}
	f.Fuzz(func(t *testing.T, text string, value uint64) {
		format, err := ParseFormat(text)
		if err != nil {
			return
		}
		bits := 0
		for _, s := range format.bits {
			bits += s.to - s.from + 1
		}
		var c Config
		if err := format.set(&c, value); (err == nil) != (bits == 64 || value < 1<<bits) {
			t.Fatalf("%#x in %q, %d bits: %v", value, text, bits, err)
		}
	})
}

func FuzzParseTerms(f *testing.F) {
	for _, s := range []string{"event=0x04,umask=0x03", "edge", "event=?", "a=1,b=2,c", "=", ",", "event=0x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		terms, err := ParseTerms(text)
		if err == nil && len(terms) == 0 {
			t.Fatalf("%q has no terms, and is none of an error", text)
		}
		p := PMU{Name: "fuzz", formats: map[string]Format{"event": {bits: []span{{0, 7}}}}}
		_, _ = p.Encode(text)
	})
}

func FuzzParseScale(f *testing.F) {
	for _, s := range []string{"6.103515625e-5", " 1e-05\n", "", "NaN", "-1", "0x1p-4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := ParseScale(text); err == nil && (!(v > 0) || math.IsInf(v, 0)) {
			t.Fatalf("%q is %v", text, v)
		}
	})
}

func FuzzCPUInfo(f *testing.F) {
	f.Add("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 106\nflags : hypervisor\n\n")
	f.Add(":\n::\n\n")
	f.Fuzz(func(_ *testing.T, text string) { parseCPU(text) })
}
