package catalog

import (
	"fmt"
	"strings"
)

// suggest returns the end of an error message about an unknown word: the known one that the user most likely meant, or all of them
// when none is close.
func suggest(word string, known []string) string {
	best, least := "", len(word)/2+1 // farther than half of its letters is another word
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; known are " + strings.Join(known, ", ")
}

// distance returns how many bytes must be inserted, deleted or replaced to turn a into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] = distance of the part of a seen so far and b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
