package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDataFrameUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"--reply some", 2, "must be summary or full"},
		{"--rows 3", 2, "rows must be between 16 and"},
		{"--volatility 0", 2, "volatility of a year"},
		{"--shock 0.9 --persistence 0.2", 2, "the variance would have no bound"},
		{"--parallelism -1", 2, "must not be negative"},
		{"--dates dmy", 2, "--delimiter and --dates are for a file"},
		{"--csv x.csv --rows 100", 2, "--rows is for random bars"},
		{"--csv x.csv --delimiter and", 2, "must be one character, tab, or auto"},
		{"--csv x.csv --dates ydm", 2, "there are auto, ymd, dmy, mdy"},
		{"--csv " + filepath.Join(dir, "none.csv"), 1, "no such file"},
		{"--csv " + dir, 1, "is a directory"},
		{"--csv " + file("packed.csv", "\x1f\x8b\x08\x00\x00\xff\xfe\n"), 1, "packed.csv: it is no text: perhaps it is packed"},
		{"--csv " + file("empty.csv", ""), 1, "empty.csv: it is empty"},
		{"--csv " + file("head.csv", "Gmt time,Open,High,Low,Close,Volume\n"), 1, "head.csv: there is nothing below its names"},
		{"--csv " + file("other.csv", "a,b,c\n1,2,3\n"), 1, "other.csv: line 1: want date, time, open"},
		{"--rows 16 --costs memcached", 2, "--costs is for a modelled machine"},
		{"--rows 16 --machine xl170 --costs memcached", 2, "cost table memcached: there is no cost of the operation max"},
		{"--rows 16 --class-slo get=1ms", 2, "there is no class get; there are max, mean, quantile"},
		{"--rows 16 --slots -2", 2, "at least -1"},
	} {
		var out, errs bytes.Buffer
		if code := run(append([]string{"dataframe", "--listen", "127.0.0.1:0"}, strings.Fields(tc.args)...), &out, &errs); code != tc.code || !strings.Contains(errs.String(), tc.want) {
			t.Errorf("%s: exit code %d, %q; want %d, %q", tc.args, code, errs.String(), tc.code, tc.want)
		}
	}
}

// TestDataFrameFile: rows of a file that are no bars are told of with their lines, and the rest is served.
func TestDataFrameFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bars.csv")
	var text strings.Builder
	text.WriteString("Gmt time,Open,High,Low,Close,Volume\n")
	for i := range 30 {
		fmt.Fprintf(&text, "02.01.2018 17:%02d:00.000,1.2,1.3,1.1,1.25,5\n", i)
	}
	for i := range 12 {
		fmt.Fprintf(&text, "02.01.2018 18:%02d:00.000,1.2,1.1,1.3,1.25,5\n", i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	f := dataframeFlags{csv: path, delimiter: "auto"}
	var errs bytes.Buffer
	frame, err := f.frame(nil, &errs)
	if err != nil || frame.Rows() != 30 {
		t.Fatalf("%v, %v", frame, err)
	}
	for _, want := range []string{
		path + ":32: left out: high is below low\n", path + ":41: left out: high is below low\n", path + ": 2 more rows left out\n",
		path + `: a data frame of 30 rows, 12 left out; delimiter ',', dates as 02.01.2006 15:04:05, names of columns` + "\n",
	} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("it says %q, want %q", errs.String(), want)
		}
	}
	if strings.Contains(errs.String(), ":42:") {
		t.Errorf("it says too much: %q", errs.String())
	}
	f.csv = "-"
	if frame, err := f.frame(strings.NewReader(text.String()), &errs); err != nil || frame.Rows() != 30 {
		t.Errorf("standard input: %v", err)
	}
	if _, err := f.frame(strings.NewReader("nothing"), &errs); err == nil || !strings.HasPrefix(err.Error(), "standard input: ") {
		t.Errorf("no bars: %v", err)
	}
}
