//go:build !race

package servers_test

const raceEnabled = false
