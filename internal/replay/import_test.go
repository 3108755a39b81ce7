package replay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// importers of small traces, in the forms that their publishers describe.
var imports = []struct {
	name, from, to string
	Import
}{
	{
		"twitter, with the seconds spread out",
		"0,nz:u:eeW511W3dcH3de3d15ec,22,304,1,get,0\n0,q:q:1:8WTfjZU14ee,17,0,2,gets,0\n0,yDqF:3q:1AJrrJ1nnCJKKrnGx1A,27,27,3,add,259200\n2,k,1,0,4,delete,0\n2,k,1,8,4,incr,0\n",
		"0,get,nz:u:eeW511W3dcH3de3d15ec,304,get\n0.333333333,get,q:q:1:8WTfjZU14ee,,get\n0.666666666,set,yDqF:3q:1AJrrJ1nnCJKKrnGx1A,27,set\n2,delete,k,,delete\n2.5,set,k,8,set\n",
		Import{Format: "twitter", Spread: -1},
	},
	{
		"twitter, as it is", "10,k,1,100,1,get,0\n10,k,1,200000,1,cas,0\n", "0,small,k,100,get\n0,large,k,200000,set\n",
		Import{Format: "twitter", Class: "size:100kB"},
	},
	{
		"msr", "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,0,Write,2822144,4096,1341\n",
		"0,disk,hm.1.383496192,32768,get\n1.3320526,disk,hm.0.2822144,4096,set\n",
		Import{Format: "msr", Class: "name:disk", Spread: -1},
	},
	{
		"columns", "\"op_time\",op,key,size,team\n0.5,GET,\"a,b\",10,x\n0.5000001,SET_LEASE,c,0,y\n",
		"0,x,\"a,b\",10,get\n0.0000001,y,c,0,set\n",
		Import{Format: "columns", Columns: "time=op_time,key=key,size=size,operation=op,class=team", Spread: -1},
	},
	{
		"columns in milliseconds, spread by less than they are apart", "t,o,k,s\n100,get,a,1\n100,get,b,1\n101,get,c,1\n",
		"0,get,a,1,get\n0.0005,get,b,1,get\n0.001,get,c,1,get\n",
		Import{Format: "columns", Columns: "time=t,key=k,size=s,operation=o", Unit: "ms", Spread: time.Second},
	},
	{
		"rows that go back a little", "10,k,1,1,1,get,0\n9,k,1,1,1,get,0\n11,k,1,1,1,get,0\n", "0,get,k,1,get\n0,get,k,1,get\n1,get,k,1,get\n",
		Import{Format: "twitter", Slack: time.Second},
	},
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, tt := range imports {
		var out bytes.Buffer
		done, err := tt.Run(strings.NewReader(tt.from), "trace.csv", &out)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		want := "time,class,key,size,operation\n" + tt.to
		if out.String() != want || done.Rows != int64(strings.Count(tt.to, "\n")) {
			t.Errorf("%s: %d rows\n%swant\n%s", tt.name, done.Rows, out.String(), want)
		}
		if _, _, _, err := scan(out.String(), Rules{}); err != nil {
			t.Errorf("%s: what was written is refused: %v", tt.name, err)
		}
	}
}

// TestBadTraces: rows that are no requests are errors with file and line, or passed over and counted.
func TestBadTraces(t *testing.T) {
	t.Parallel()
	const good = "10,k,1,5,1,get,0\n"
	for bad, want := range map[string]string{
		"10,k,1,5,1,get":               "has 6 fields, a row of the format twitter has 7",
		"10,k,1,5,1,flush,0":           `operation "flush"`,
		"x,k,1,5,1,get,0":              `time "x"`,
		"-4,k,1,5,1,get,0":             `time "-4"`,
		"9,k,1,5,1,get,0":              "is 1s before that of the row above; sort the trace by time, or allow for it with a slack",
		"99999999999999,k,1,5,1,get,0": "is more than a hundred years from the first",
		"10,k l,1,5,1,get,0":           "must not hold spaces",
		"10,,1,5,1,get,0":              "has no key: its field 2 is empty",
		"10,k,1,x,1,get,0":             `size "x"`,
		"10,k,1,,1,set,0":              "a set has a size",
		"10,k,1,999999999,1,set,0":     "must be 0 to",
		"10,\"k,1,5,1,get,0":           "a quoted field has no end",
	} {
		c := Import{Format: "twitter"}
		var out bytes.Buffer
		_, err := c.Run(strings.NewReader(good+bad+"\n"+good), "trace.csv", &out)
		if err == nil || !strings.HasPrefix(err.Error(), "trace.csv:2: ") || !strings.Contains(err.Error(), want) || IsUsage(err) {
			t.Errorf("%q: %v, want %q", bad, err, want)
		}
		c.Skip = true
		done, err := c.Run(strings.NewReader(good+bad+"\n"+good), "trace.csv", &out)
		if err != nil || done.Rows != 2 || done.Passed != 1 || done.Bad[0].Line != 2 {
			t.Errorf("%q, passed over: %+v, %v", bad, done, err)
		}
	}
}

// TestWrongImports: what is asked for and cannot be is wrong usage, and says what can.
func TestWrongImports(t *testing.T) {
	t.Parallel()
	const text = "t,o,k,s\n1,get,a,1\n"
	for want, c := range map[string]Import{
		`format "csv": there are twitter, msr, columns`:  {Format: "csv"},
		"the columns and the unit of the format msr":     {Format: "msr", Unit: "ms"},
		`unit "h": there are s, ms, us, ns, 100ns`:       {Format: "columns", Unit: "h"},
		`does not say which has the size`:                {Format: "columns", Columns: "time=t,key=k,operation=o"},
		`there is no column "x"; the header has t,o,k,s`: {Format: "columns", Columns: "time=x"},
		`write time=NAME,key=NAME`:                       {Format: "columns", Columns: "when=t"},
		`class "size:big": write size: and`:              {Format: "twitter", Class: "size:big"},
		`class "name:all": write operation`:              {Format: "twitter", Class: "name:all"},
		`class "colour": write operation`:                {Format: "twitter", Class: "colour"},
	} {
		if _, err := c.Run(strings.NewReader(text), "trace.csv", &bytes.Buffer{}); !IsUsage(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	empty := Import{Format: "twitter"}
	if _, err := empty.Run(strings.NewReader(""), "trace.csv", &bytes.Buffer{}); err == nil || IsUsage(err) {
		t.Errorf("an empty trace: %v", err)
	}
	columns := Import{Format: "columns", Columns: "time=t,key=k,size=s,operation=o"}
	if _, err := columns.Run(strings.NewReader("t,o,k,s\n"), "trace.csv", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "holds no requests") {
		t.Errorf("a trace of a header: %v", err)
	}
	class := Import{Format: "columns", Columns: "time=t,key=k,size=s,operation=o,class=c"}
	if _, err := class.Run(strings.NewReader("t,o,k,s,c\n1,get,a,1,all of them\n"), "trace.csv", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `class "all of them"`) {
		t.Errorf("a class that is no name: %v", err)
	}
}

// TestColumnsVerbatim: in a trace with a header, rows are rows whatever their key begins with, and above the header there may be comments.
func TestColumnsVerbatim(t *testing.T) {
	t.Parallel()
	c := Import{Format: "columns", Columns: "time=t,key=k,size=s,operation=o,class=c"}
	var out bytes.Buffer
	done, err := c.Run(strings.NewReader("# of last week\nk,t,s,o,c\n#tag,1,5,get,web\nx,2,5,get,web\n"), "trace.csv", &out)
	if err != nil || done.Rows != 2 || !strings.Contains(out.String(), "\n0,web,#tag,5,get\n") {
		t.Errorf("%+v, %v, wrote %q", done, err, &out)
	}
	for row, want := range map[string]string{
		"x,1,5,get,all":                   `class "all": is what the classes pooled are called`,
		"x,2024-01-01 00:00:00,5,get,web": "is no number of a unit (s, ms, us, ns, 100ns)",
	} {
		if _, err := c.Run(strings.NewReader("k,t,s,o,c\n"+row+"\n"), "trace.csv", &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", row, err, want)
		}
	}
}

// TestPacked: a compressed file is told as such, with what unpacks it.
func TestPacked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\x1f\x8b\x08\x08rest", "\x28\xb5\x2f\xfdrest", "BZh9rest"} {
		c := Import{Format: "twitter"}
		_, imported := c.Run(strings.NewReader(text), "trace.gz", &bytes.Buffer{})
		_, described := Describe(strings.NewReader(text), "trace.gz", Rules{Skip: true})
		for _, err := range []error{imported, described} {
			if err == nil || !strings.HasPrefix(err.Error(), "trace.gz: is compressed; unpack it (") {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// TestImportStreams: what an import takes does not grow with the trace.
func TestImportStreams(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "%d,key%d,7,5,1,get,0\n", i/100, i%50)
	}
	c := Import{Format: "twitter", Spread: -1}
	n := testing.AllocsPerRun(3, func() {
		if _, err := c.Run(strings.NewReader(text.String()), "trace.csv", discard{}); err != nil {
			t.Fatal(err)
		}
	})
	if n > 200 {
		t.Errorf("importing 20000 rows takes %g allocations", n)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// FuzzImport feeds the importers arbitrary text. They must not crash, and what they write is a log.
func FuzzImport(f *testing.F) {
	for _, tt := range imports {
		f.Add([]byte(tt.from), tt.Format)
	}
	f.Fuzz(func(t *testing.T, text []byte, format string) {
		c := Import{Format: format, Columns: "time=t,key=k,size=s,operation=o", Spread: -1, Rules: Rules{Skip: true}}
		if format != "columns" {
			c.Columns = ""
		}
		var out bytes.Buffer
		if _, err := c.Run(bytes.NewReader(text), "trace.csv", &out); err != nil {
			return
		}
		if _, _, _, err := scan(out.String(), Rules{}); err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
	})
}
