package dist

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pinned is the first number of the stream of seed 1, purpose "arrivals", index 0.
const pinned = 0xe028fcda895d9381

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"72us": 72 * time.Microsecond, "1.5ms": 1500 * time.Microsecond, "0": 0, "0s": 0, "2h": 2 * time.Hour,
		"1m30s": 90 * time.Second, "10ns": 10,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"5": "no unit", "": "no unit", "-5ms": "negative", "5 ms": "such as 1.5ms", "ms": "such as", "5d": "such as", "1e3ms": "such as",
	} {
		if _, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDuration(%q): %v, want %q", text, err, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "5B": 5, "819200B": 819200, "1kB": 1000, "36GB": 36e9, "1.5MB": 1.5e6, "1KiB": 1024, "2MiB": 2 << 20, "1GiB": 1 << 30,
		"0.5KiB": 512, "1.1kB": 1100, "4.35kB": 4350,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "B", "5KB", "5mb", "-5B", "1.5B", "0.1KiB", "5 MB", "1e3B", "1..2B", "5TB", "9999999999999GB"} {
		if got, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("ParseSize(%q) = %v, %v; want an error that names it", text, got, err)
		}
	}
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"0.1": 0.1, "10": 10, "50k": 50_000, "1M": 1e6, "1.2M": 1.2e6, "166666": 166666, "1.1k": 1100, "0": 0,
	} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "-5", "5K", "5 k", "NaN", "inf", "1e6", "5m", "5kk"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", text, got)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"72us": FormatDuration(72 * time.Microsecond), "1m": FormatDuration(time.Minute), "1h": FormatDuration(time.Hour),
		"1h0m5s": FormatDuration(time.Hour + 5*time.Second), "10m": FormatDuration(10 * time.Minute), "10s": FormatDuration(10 * time.Second),
		"0s": FormatDuration(0), "1m30s": FormatDuration(90 * time.Second),
		"0B": FormatSize(0), "819200B": FormatSize(819201 - 1), "36GB": FormatSize(36e9), "2MiB": FormatSize(2 << 20),
		"50k": FormatRate(50_000), "1.2M": FormatRate(1.2e6), "0.1": FormatRate(0.1), "999": FormatRate(999), "166.666k": FormatRate(166666),
	} {
		if want == "819200B" {
			want = "800KiB" // the largest unit that divides it
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFormatsAreReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "duration"))
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Errorf("%v became %q became %v, %v", d, FormatDuration(d), got, err)
		}
		n := rapid.Int64Range(0, 1<<53).Draw(t, "size")
		if got, err := ParseSize(FormatSize(n)); err != nil || got != n {
			t.Errorf("%v became %q became %v, %v", n, FormatSize(n), got, err)
		}
		r := rapid.Float64Range(0, 1e9).Draw(t, "rate")
		if got, err := ParseRate(FormatRate(r)); err != nil || got != r {
			t.Errorf("%v became %q became %v, %v", r, FormatRate(r), got, err)
		}
	})
}

func TestParseMemcachedSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"64": 64 << 20, "1m": 1 << 20, "512K": 512 << 10, "2g": 2 << 30, "1000B": 1000, "64MiB": 64 << 20, "1GB": 1e9, "3kB": 3000, "0": 0,
	} {
		if got, err := ParseMemcachedSize(text, 1<<20); got != want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "1.5", "x", "9999999999999999999", "99999999999999g", "-1", "-1MiB"} {
		if got, err := ParseMemcachedSize(text, 1<<20); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
}
