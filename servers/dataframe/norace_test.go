//go:build !race

package dataframe_test

const raceEnabled = false
