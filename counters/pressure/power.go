//go:build linux

package pressure

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"spillway/clock"
	"spillway/counters/sysfs"
)

const powercap = "/sys/class/powercap"

// power reads the energy counters that processors show (RAPL).
type power struct {
	base
	zones []zone
}

// zone is one counter of energy.
type zone struct {
	file   *file
	column int
	was    counter
	wraps  float64 // µJ after which it begins again
}

// NewPower returns a gauge of power: power_package, the processors, and power_dram where memory is counted apart, in watts over all sockets.
func NewPower(root sysfs.Root) (Gauge, error) {
	g := &power{base: base{period: 10 * time.Millisecond}} // energy counters move about once a ms
	var refused error
	at := map[string]int{}
	for _, name := range root.Names(powercap) {
		dir := powercap + "/" + name
		label, err := root.Text(dir + "/name")
		if err != nil {
			continue
		}
		column := ""
		switch {
		case strings.HasPrefix(label, "package"):
			column = "power_package"
		case label == "dram":
			column = "power_dram"
		default:
			continue // core and uncore are within package, psys is around it
		}
		f, err := open(root, dir+"/energy_uj", 64)
		if err != nil {
			refused = err
			continue
		}
		if _, ok := at[column]; !ok {
			at[column] = len(g.columns)
			g.columns = append(g.columns, Column{column, "W"})
		}
		text, _ := root.Text(dir + "/max_energy_range_uj")
		g.zones = append(g.zones, zone{file: f, column: at[column], wraps: number([]byte(text))})
	}
	switch {
	case len(g.zones) > 0:
		return g, nil
	case errors.Is(refused, os.ErrPermission):
		return nil, fmt.Errorf("%w: run as root, kernels since 5.10 show energy to nobody else", refused)
	case refused != nil:
		return nil, refused
	}
	return nil, errors.New(powercap + " has no energy counters (RAPL); virtual machines hide them")
}

// Sample implements Gauge.
func (g *power) Sample(now clock.Instant, dst []float64) {
	seconds := g.window(now, dst)
	for i := range dst {
		dst[i] = 0
	}
	for i := range g.zones {
		z := &g.zones[i]
		content, _ := line(z.file.read())
		dst[z.column] += z.advance(number(content)) / 1e6 / seconds
	}
}

// advance returns the µJ since the last reading. The counter begins again at a value that the kernel names.
func (z *zone) advance(value float64) float64 {
	before := z.was
	d := z.was.advance(value)
	if math.IsNaN(d) && before.known && value < before.value && z.wraps > before.value {
		d = z.wraps - before.value + value
	}
	return d
}

// Close implements Gauge.
func (g *power) Close() error {
	var errs []error
	for _, z := range g.zones {
		errs = append(errs, z.file.close())
	}
	return errors.Join(errs...)
}
