package compare

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"

	"spillway/report"
)

// The elements of JUnit's format that its readers agree on.
type (
	testSuites struct {
		XMLName  xml.Name    `xml:"testsuites"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Suites   []testSuite `xml:"testsuite"`
	}
	testSuite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *message `xml:"failure"`
		Error   *message `xml:"error"`
		Skipped *message `xml:"skipped"`
		Output  string   `xml:"system-out,omitempty"`
	}
	message struct {
		Text string `xml:"message,attr"`
	}
)

// JUnit writes the result as tests: one for each comparison, of a suite for each profile. What became worse has failed; what cannot be compared is an
// error; what is undecided was skipped.
func (r *Result) JUnit(w io.Writer) error {
	all := testSuites{Name: "loadgen compare"}
	suite := func(profile string) *testSuite {
		i := slices.IndexFunc(all.Suites, func(s testSuite) bool { return s.Name == report.Printable(profile) })
		if i < 0 {
			all.Suites = append(all.Suites, testSuite{Name: report.Printable(profile)})
			i = len(all.Suites) - 1
		}
		return &all.Suites[i]
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		suite(c.Profile).add(c.test())
	}
	for _, p := range r.MissingCandidate {
		t := testCase{Class: report.Printable(p.Profile), Name: report.Printable(p.String())}
		if r.Options.Anyway {
			t.Skipped = &message{"missing in the candidate"}
		} else {
			t.Error = &message{"missing in the candidate"}
		}
		suite(p.Profile).add(t)
	}
	for i := range all.Suites {
		s := &all.Suites[i]
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (s *testSuite) add(t testCase) {
	s.Cases = append(s.Cases, t)
	s.Tests++
	switch {
	case t.Failure != nil:
		s.Failures++
	case t.Error != nil:
		s.Errors++
	case t.Skipped != nil:
		s.Skipped++
	}
}

// test returns the comparison as a test.
func (c *Comparison) test() testCase {
	t := testCase{Class: report.Printable(c.Profile), Name: report.Printable(c.name())}
	figures := fmt.Sprintf("base %s, candidate %s, change %s (%s), p %s, %s", c.value(c.Base), c.value(c.Candidate), c.changeText(), c.intervalText(), c.pText(), c.repeatsText())
	text := report.Printable(string(c.Outcome) + ": " + figures)
	if more := c.moreText(); more != "" {
		text += "; repeats a side that would decide: " + more
	}
	if c.Why != "" {
		text += "; " + report.Printable(c.Why)
	}
	switch c.Outcome {
	case Worse:
		t.Failure = &message{text}
	case TooFew, NotThere, Void:
		t.Error = &message{text}
	case Undecided, NotDefined:
		t.Skipped = &message{text}
	default:
		t.Output = text
	}
	return t
}
