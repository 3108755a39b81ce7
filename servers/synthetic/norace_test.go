//go:build !race

package synthetic_test

const raceEnabled = false
