//go:build race

package synthetic_test

const raceEnabled = true
