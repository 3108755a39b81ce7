package frames

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// file writes a file of n minutes whose line i row returns.
func file(head string, n int, row func(i int) string) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		b.WriteString(row(i) + "\n")
	}
	return b.String()
}

// TestForms reads the forms in which minute data of currencies are passed on. All say the same.
func TestForms(t *testing.T) {
	t.Parallel()
	const n = 20
	at := func(i int) time.Time { return time.Date(2018, time.January, 2, 17, i, 0, 0, time.UTC) }
	price := func(i int) float64 { return 1.2 + float64(i)*1e-4 }
	ohlc := func(i int, sep string) string {
		return fmt.Sprintf("%.5f%s%.5f%s%.5f%s%.5f", price(i), sep, price(i)+2e-4, sep, price(i)-2e-4, sep, price(i)+1e-4)
	}
	form := func(layout, sep, tail string) func(int) string {
		return func(i int) string { return at(i).Format(layout) + sep + ohlc(i, sep) + tail }
	}
	for name, c := range map[string]struct {
		text  string
		found Found
	}{
		"HistData generic ASCII": {file("", n, form("20060102 150405", ";", ";7")), Found{Delimiter: ';', Dates: "20060102 150405"}},
		"HistData MetaTrader":    {file("", n, form("2006.01.02,15:04", ",", ",7")), Found{Delimiter: ',', Dates: "2006.01.02 15:04"}},
		"a saved spreadsheet":    {file("", n, form("2006-01-02 15:04:05", ",", ",7\r")), Found{Delimiter: ',', Dates: "2006-01-02 15:04:05"}},
		"Dukascopy":              {file("Gmt time,Open,High,Low,Close,Volume\n", n, form("02.01.2006 15:04:05.000", ",", ",7")), Found{Delimiter: ',', Header: true, Dates: "02.01.2006 15:04:05"}},
		"Dukascopy, local":       {file("Local time,Open,High,Low,Close,Volume\n", n, form("02.01.2006 15:04:05.000 GMT-0700", ",", ",7")), Found{Delimiter: ',', Header: true, Dates: "02.01.2006 15:04:05 GMT-0700"}},
		"MetaTrader 5":           {file("<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>\n", n, form("2006.01.02\t15:04:05", "\t", "\t7\t0\t3")), Found{Delimiter: '\t', Header: true, Dates: "2006.01.02 15:04:05"}},
		"ticker in front":        {file("<TICKER>,<DTYYYYMMDD>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>\n", n, form("EURUSD,20060102,150405", ",", ",7")), Found{Delimiter: ',', Header: true, Dates: "20060102 150405"}},
		"pandas":                 {file(",Open,High,Low,Close,Volume\n", n, form("2006-01-02 15:04:05-07:00", ",", ",7.0")), Found{Delimiter: ',', Header: true, Dates: "2006-01-02 15:04:05Z07:00"}},
		"ISO with a zone":        {file("timestamp|open|high|low|close|volume\n", n, form("2006-01-02T15:04:05Z", "|", "|7")), Found{Delimiter: '|', Header: true, Dates: "2006-01-02T15:04:05Z07:00"}},
		"unix ms":                {file("Open time,Open,High,Low,Close,Volume\n", n, func(i int) string { return fmt.Sprint(at(i).UnixMilli()) + "," + ohlc(i, ",") + ",7" }), Found{Delimiter: ',', Header: true, Dates: "unix milliseconds"}},
		"American":               {file("\xef\xbb\xbf\"Date\",\"Open\",\"High\",\"Low\",\"Close\",\"Volume\"\n\n", n, form("\"1/2/2006 3:04 PM\"", ",", ",\"7\"")), Found{Delimiter: ',', Header: true, Dates: "1/2/2006 3:04 PM"}},
		"decimal commas": {file("", n, func(i int) string {
			return at(i).Format("02.01.2006 15:04;") + strings.ReplaceAll(ohlc(i, ";"), ".", ",") + ";7"
		}), Found{Delimiter: ';', Dates: "02.01.2006 15:04"}},
		"columns in another order": {file("close,volume,low,high,open,other,date\n", n, func(i int) string {
			return fmt.Sprintf("%.5f,7,%.5f,%.5f,%.5f,x,%s", price(i)+1e-4, price(i)-2e-4, price(i)+2e-4, price(i), at(i).Format("2006-01-02 15:04"))
		}), Found{Delimiter: ',', Header: true, Dates: "2006-01-02 15:04"}},
	} {
		f, found, err := Read(strings.NewReader(c.text), CSV{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(&c.found, found); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if f.Rows() != n {
			t.Errorf("%s: %d rows", name, f.Rows())
			continue
		}
		for i := range n {
			if f.Times()[i] != at(i).Unix() {
				t.Errorf("%s: row %d is of %v, want %v", name, i, time.Unix(f.Times()[i], 0).UTC(), at(i))
			}
			for c, want := range map[Column]float64{Open: price(i), High: price(i) + 2e-4, Low: price(i) - 2e-4, Close: price(i) + 1e-4, Volume: 7} {
				if math.Abs(f.Column(c)[i]-want) > 1e-6 {
					t.Errorf("%s: row %d has %v %v, want %v", name, i, c, f.Column(c)[i], want)
				}
			}
			if i > 0 && math.Abs(f.Column(Return)[i]-math.Log(f.Column(Close)[i]/f.Column(Close)[i-1])) > 1e-15 {
				t.Errorf("%s: row %d has return %v", name, i, f.Column(Return)[i])
			}
		}
	}
}

// TestBadRowsAreToldOf: none is dropped in silence.
func TestBadRowsAreToldOf(t *testing.T) {
	t.Parallel()
	text := file("date;open;high;low;close;volume\n", 20, func(i int) string { return fmt.Sprintf("2018-01-02 17:%02d;1.2;1.3;1.1;1.25;5", i) }) +
		"2018-01-02 18:00;1.2;1.3;1.1;1.25;5\n" + // 22
		"yesterday;1.2;1.3;1.1;1.25;5\n" +
		"2018-01-02 18:02;1.2;1.3;1.1\n" +
		"2018-01-02 18:03;1.2;high;1.1;1.25;5\n" +
		"\n" +
		"2018-01-02 18:04;1.2;1.1;1.3;1.25;5\n" + // 27
		"2018-01-02 18:05;1.2;1.21;1.1;1.25;5\n" +
		"2018-01-02 18:06;1.2;1.3;1.22;1.25;5\n" +
		"2018-01-02 18:07;0;1.3;0;1.25;5\n" +
		"2018-01-02 18:08;1.2;1.3;1.1;1.25;-5\n" +
		"2018-01-02 18:09;1.2;1.3;1.1;NaN;5\n" +
		"2018-01-02 17:03;1.2;1.3;1.1;1.25;5\n" + // 33
		"2018-01-02 16:59;1.2;1.3;1.1;1.25;5\n" +
		"2018-01-02 18:10;1.2;1.3;1e-320;1.25;5\n" + // 35
		"2018-01-02 18:11;1.2;1e308;1.1;1.25;5\n" +
		"2018-01-02 18:12;1.2;Inf;1.1;1.25;5\n" +
		"2018-01-02 18:13;1.2;1.3;1.1;1.25;1e308\n"
	f, found, err := Read(strings.NewReader(text), CSV{})
	if err != nil {
		t.Fatal(err)
	}
	want := []BadRow{
		{23, `"yesterday" is no date of the form 2006-01-02 15:04`}, {24, "there are 4 fields, at least 6 are needed"}, {25, `high: "high" is no number`},
		{27, "high is below low"}, {28, "high is below open or close"}, {29, "low is above open or close"}, {30, "a price is not above 0"}, {31, "volume is negative"},
		{32, `close: "NaN" is no number`}, {35, "a price is not from 1e-30 to 1e+30"},
		{36, "a price is not from 1e-30 to 1e+30"}, {37, "a price is not from 1e-30 to 1e+30"}, {38, "volume is above 1e+30"}, {33, "a bar of this minute has been read already"},
	}
	if diff := cmp.Diff(want, found.BadRows); diff != "" {
		t.Error(diff)
	}
	if found.Bad != len(want) || f.Rows() != 22 || !found.Sorted {
		t.Errorf("%d bad rows, %d good ones, sorted %v; want %d, 22 and true", found.Bad, f.Rows(), found.Sorted, len(want))
	}
	for i := 1; i < f.Rows(); i++ {
		if f.Times()[i] <= f.Times()[i-1] {
			t.Errorf("row %d is not after row %d", i, i-1)
		}
	}
}

// TestDescending: files whose newest row comes first are put in order.
func TestDescending(t *testing.T) {
	t.Parallel()
	text := file("", 30, func(i int) string {
		return fmt.Sprintf("2018-01-02 17:%02d,1.2,1.3,1.1,%.2f", 59-i, 1.29-float64(i)/1000)
	})
	f, found, err := Read(strings.NewReader(text), CSV{})
	if err != nil || !found.Sorted || !found.NoVolume || found.Bad != 0 || f.Rows() != 30 || f.Column(Close)[29] != 1.29 {
		t.Errorf("%v, %+v", err, found)
	}
}

// TestDayOrMonth: where a date could be either, rows decide that can only be one, and then the writer.
func TestDayOrMonth(t *testing.T) {
	t.Parallel()
	slashes := func(day int) string {
		return file("", 20, func(i int) string { return fmt.Sprintf("%d/2/2018 17:%02d,1.2,1.3,1.1,1.25", day, i) })
	}
	for _, c := range []struct {
		text, order string
		want        time.Month
	}{
		{slashes(1), "", time.January}, {slashes(1), "dmy", time.February}, {slashes(1), "mdy", time.January}, {slashes(13), "", time.February},
	} {
		f, _, err := Read(strings.NewReader(c.text), CSV{Dates: c.order})
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Unix(f.Times()[0], 0).UTC().Month(); got != c.want {
			t.Errorf("%q: %v, want %v", c.order, got, c.want)
		}
	}
	if _, _, err := Read(strings.NewReader(slashes(13)), CSV{Dates: "ymd"}); err == nil || !strings.Contains(err.Error(), "is no date in a form that is known") {
		t.Errorf("year first: %v", err)
	}
}

func TestNoFileOfBars(t *testing.T) {
	t.Parallel()
	good := file("", 20, func(i int) string { return fmt.Sprintf("2018-01-02 17:%02d,1.2,1.3,1.1,1.25,5", i) })
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"\n \n", "it is empty"},
		"names alone":     {"date,open,high,low,close\n", "nothing below its names"},
		"no low":          {"date,open,high,close\n2018-01-02 17:00,1,1,1\n", "its names have no low"},
		"no date":         {"when,open,high,low,close\n2018-01-02 17:00,1,1,1,1\n", "its names have no date or time"},
		"prose":           {"It was a dark and stormy night\n", "line 1: want date, time, open"},
		"other names":     {"a,b,c,d,e,f\n1,2,3,4,5,6\n", `"b" is no number, and this is no line of names that are known`},
		"packed":          {"PK\x03\x04\x00\x00\n", "it is no text"},
		"a long line":     {good + strings.Repeat("x", maxLine+1) + "\n", "line 21 is longer than 65536 bytes"},
		"other dates":     {"Monday,1,1,1,1\n", `"Monday" is no date`},
		"too few":         {strings.Join(strings.SplitAfter(good, "\n")[:5], ""), "there are 5 bars in it; at least 16 are needed"},
		"mostly no bars":  {good + file("", 21, func(i int) string { return fmt.Sprintf("2018-01-02 18:%02d,1.2,1.1,1.3,1.25,5", i) }), "21 of 41 rows are no bars"},
		"nothing but bad": {"2018-01-02 18:00,1.2,1.1,1.3,1.25,5\n", "there is not one bar in it\nline 1: high is below low"},
	} {
		f, found, err := Read(strings.NewReader(c.text), CSV{})
		if err == nil || !strings.Contains(err.Error(), c.want) || f != nil || found == nil {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	broken := errors.New("the disk has gone")
	if _, _, err := Read(io.MultiReader(strings.NewReader(good), iotest.ErrReader(broken)), CSV{}); !errors.Is(err, broken) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	for _, c := range []CSV{{Dates: "ydm"}, {Delimiter: '1'}, {Delimiter: '"'}} {
		if _, _, err := Read(strings.NewReader(good), c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if _, found, err := Read(strings.NewReader(strings.ReplaceAll(good, ",", "~")), CSV{Delimiter: '~'}); err != nil || found.Delimiter != '~' {
		t.Errorf("another delimiter: %v", err)
	}
}

// FuzzRead: whatever a file holds, there is a frame in order or an error, and every line is accounted for.
func FuzzRead(f *testing.F) {
	f.Add([]byte("20180102 170000;1.2;1.3;1.1;1.25;0\n20180102 170100;1.2;1.3;1.1;1.25;0\n"))
	f.Add([]byte("<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\n2018.01.02\t17:00\t1\t1\t1\t1\n"))
	f.Add([]byte("Time,Open,High,Low,Close\n\"1/2/2018 1:00 PM\",1,1,1,1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		frame, found, err := Read(strings.NewReader(string(text)), CSV{})
		if (frame == nil) != (err != nil) || found == nil {
			t.Fatalf("%v, %v, %v", frame, found, err)
		}
		if err != nil {
			return
		}
		lines := 0
		for _, line := range strings.Split(string(text), "\n") {
			if strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), bomBytes)) != "" {
				lines++
			}
		}
		if found.Header {
			lines--
		}
		if got := frame.Rows() + found.Bad; got != lines {
			t.Errorf("%d rows of %d lines are accounted for", got, lines)
		}
	})
}
