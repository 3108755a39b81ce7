package frames

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseQuery(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]Query{
		"max":                   {Kind: Max, A: Close},
		"max/return":            {Kind: Max, A: Return},
		"mean/open#17":          {Kind: Mean, A: Open},
		"quantile/0.99":         {Kind: Quantile, A: Close, P: 0.99},
		"quantile/1e-3/volume":  {Kind: Quantile, A: Volume, P: 0.001},
		"corr":                  {Kind: Correlation, A: Close, B: Volume},
		"corr/high/low":         {Kind: Correlation, A: High, B: Low},
		"vwap":                  {Kind: VWAP, A: Close},
		"mid":                   {Kind: Mid, A: Close, Window: 15},
		"kmeans":                {Kind: KMeans, A: Return, K: 4, Rounds: 10},
		"kmeans/8/3":            {Kind: KMeans, A: Return, K: 8, Rounds: 3},
		"ppo":                   {Kind: PPO, A: Close, Fast: 5, Slow: 9, Signal: 4},
		"ppo/12/26/9":           {Kind: PPO, A: Close, Fast: 12, Slow: 26, Signal: 9},
		"decompose":             {Kind: Decompose, A: Return, Window: 170, Fraction: 0.01, Delta: 1},
		"decompose/1440/0.05/9": {Kind: Decompose, A: Return, Window: 1440, Fraction: 0.05, Delta: 9},
		"decay/1#":              {Kind: Decay, A: Close, Window: 1},
		"ad":                    {Kind: AD, A: Close},
	} {
		got, err := ParseQuery([]byte(key))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", key, err, diff)
		}
	}
}

func TestWrongQueries(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"":                   "no operation: want max[/COLUMN]",
		"x":                  "no operation",
		"maximum":            "no operation",
		"ad/3":               "no operation",
		"max/close/open":     "no operation",
		"kmeans/4":           "no operation",
		"ppo/1/2/3/4":        "no operation",
		"quantile":           "no operation",
		"max/price":          `column "price": there are open, high`,
		"quantile/1.5":       `quantile "1.5": want a number from 0 to 1`,
		"quantile/NaN":       `quantile "NaN": want a number`,
		"mid/0":              `window "0": want a whole number from 1 to 1000000`,
		"mid/-3":             "want a whole number",
		"mid/99999999999999": "want a whole number",
		"decay/1e9":          "want a whole number",
		"kmeans/65/1":        "number of clusters",
		"kmeans/4/0":         "number of iterations",
		"ppo/9/5/4":          "the fast period, 9, must be below the slow one, 5",
		"decompose/1/0.1/1":  "period",
		"decompose/9/0/1":    "fraction",
		"decompose/9/0.1/0":  "delta",
	} {
		if _, err := ParseQuery([]byte(key)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", key, err, want)
		}
	}
}

// TestTooMuchIsRefused: what parameters may be depends on the rows too.
func TestTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	f := made(t, 1000, 1)
	for key, want := range map[string]string{
		"mid/1001":            "window 1001: there are 1000 rows",
		"decompose/501/0.1/1": "period 501: there must be two of it, and there are 1000 rows",
		"kmeans/64/1000":      "",
	} {
		q, err := ParseQuery([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		err = q.Check(f.Rows())
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
		if _, answered := NewWorker(f).Answer(&q, nil); want != "" && (answered == nil || answered.Error() != want) {
			t.Errorf("%s is answered: %v", key, answered)
		}
	}
	for _, key := range []string{"kmeans/64/1000", "decompose/10/1/1"} {
		q, _ := ParseQuery([]byte(key))
		if err := q.Check(YearRows); err == nil || !strings.Contains(err.Error(), "steps") {
			t.Errorf("%s over a year: %v", key, err)
		}
	}
	for k := range NumKinds {
		q := Standard(k)
		if err := q.Check(YearRows); err != nil {
			t.Errorf("%v over a year: %v", k, err)
		}
	}
}

// FuzzParseQuery: whatever is asked is refused or computed, over a frame that is small.
func FuzzParseQuery(f *testing.F) {
	for k := range NumKinds {
		f.Add([]byte(k.String()))
	}
	f.Add([]byte("decompose/2/1e-6/1"))
	f.Add([]byte("kmeans/16/1"))
	f.Add([]byte("quantile/0/return"))
	frame := made(f, MinRows, 1)
	f.Fuzz(func(t *testing.T, key []byte) {
		q, err := ParseQuery(key)
		if err != nil || q.Steps(frame.Rows()) > 1<<20 {
			return
		}
		if got, err := NewWorker(frame).Answer(&q, nil); err == nil && len(got) == 0 {
			t.Errorf("%q: an empty answer", key)
		}
	})
}
