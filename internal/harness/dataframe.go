//go:build linux

package harness

import (
	"fmt"
	"os"
	"strconv"

	"spillway/internal/frames"
	"spillway/machine"
	"spillway/profiles"
	"spillway/workloads"
)

const kindDataFrame = "dataframe"

// frameFlags are the keys of server.settings of a dataframe server. All down to the file say what its frame is, on every ground.
var frameFlags = map[string]string{
	"rows": "--rows", "price": "--price", "volatility": "--volatility", "shock": "--shock", "persistence": "--persistence", "volume": "--volume",
	"frame_seed": "--frame-seed", settingCSV: "--csv", "delimiter": "--delimiter", "dates": "--dates", "parallelism": "--parallelism", "reply": "--reply",
	"max_conns": "--max-conns", "threads": "--threads", "slots": "--slots", "queue": "--queue", "deadline": "--deadline", "slo": "--slo",
}

const settingCSV = "csv" // a file that the frame is read from instead

// frameSource is what the settings of a server say about its frame.
type frameSource struct {
	shape frames.Shape
	path  string
	form  frames.CSV
}

// describesFrame reports whether a key of server.settings says what the frame is, and sets that in s.
func describesFrame(s *frameSource, key, text string) (ours bool, err error) {
	number := func(to *float64) {
		var perr error
		if *to, perr = strconv.ParseFloat(text, 64); perr != nil {
			err = fmt.Errorf("%q is not a number", text)
		}
	}
	switch key {
	case "rows":
		n, perr := strconv.ParseInt(text, 10, 32)
		if s.shape.Rows = int(n); perr != nil {
			err = fmt.Errorf("%q is not a whole number", text)
		}
	case "price":
		number(&s.shape.Price)
	case "volatility":
		number(&s.shape.Year)
	case "shock":
		number(&s.shape.Shock)
	case "persistence":
		number(&s.shape.Persistence)
	case "volume":
		number(&s.shape.Volume)
	case "frame_seed":
		if s.shape.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			err = fmt.Errorf("%q is not a whole number from 0", text)
		}
	case settingCSV:
		if s.path = text; text == "-" || text == "" {
			err = fmt.Errorf("%q: minute bars are read from a file here", text)
		}
	case "delimiter":
		if s.form.Delimiter, err = delimiter(text); err == nil {
			err = s.form.Check()
		}
	case "dates":
		s.form.Dates = text
		err = s.form.Check()
	default:
		return false, nil
	}
	if err == nil {
		err = s.shape.Check()
	}
	return true, err
}

// checkFrameReply judges how results are sent.
func checkFrameReply(text string) error {
	if text != "summary" && text != "full" {
		return fmt.Errorf("%q: it is summary or full", text)
	}
	return nil
}

// delimiter reads what refserver's --delimiter takes.
func delimiter(text string) (byte, error) {
	switch {
	case text == "auto":
		return 0, nil
	case text == "tab" || text == `\t`:
		return '\t', nil
	case len(text) == 1:
		return text[0], nil
	}
	return 0, fmt.Errorf("%q must be one character, tab, or auto", text)
}

// sourceOf returns what the server of p has for a frame. Its settings have been checked, but for how they go together.
func sourceOf(p *profiles.Profile) (frameSource, error) {
	s := frameSource{shape: frames.DefaultShape()}
	for key, text := range p.Server.Settings {
		_, _ = describesFrame(&s, key, text) // another key may yet make it right
	}
	if err := s.shape.Check(); err != nil {
		return s, mistake(p, "server.settings", "server.settings: %w", err)
	}
	for _, key := range []string{"delimiter", "dates"} {
		if _, given := p.Server.Settings[key]; given && s.path == "" {
			return s, mistake(p, "server.settings."+key, "server.settings.%s is about the file in server.settings.csv, and there is none", key)
		}
	}
	for _, key := range []string{"rows", "price", "volatility", "shock", "persistence", "volume", "frame_seed"} {
		if _, given := p.Server.Settings[key]; given && s.path != "" {
			return s, mistake(p, "server.settings."+key, "server.settings.%s is about random bars, and server.settings.csv reads others: leave one of them out", key)
		}
	}
	return s, nil
}

// frameRows returns how many rows the frame of the server of p has.
func frameRows(p *profiles.Profile) (int, error) {
	s, err := sourceOf(p)
	if err != nil || s.path == "" {
		return s.shape.Rows, err
	}
	file, err := os.Open(s.path)
	if err != nil {
		return 0, mistake(p, "server.settings."+settingCSV, "server.settings.%s: %w", settingCSV, err)
	}
	defer func() { _ = file.Close() }() // it has only been read
	f, _, err := frames.Read(file, s.form)
	if err != nil {
		return 0, mistake(p, "server.settings."+settingCSV, "server.settings.%s: %s: %w", settingCSV, s.path, err)
	}
	return f.Rows(), nil
}

// frameLoad returns the workload of a profile of operations on a data frame of so many rows, 0 where that is not known.
func frameLoad(p *profiles.Profile, rows int) (*workloads.DataFrame, error) {
	classes, err := p.Workload.FrameClasses()
	if err != nil {
		return nil, err
	}
	w, err := workloads.NewDataFrame(classes, rows)
	if err != nil {
		return nil, mistake(p, "workload.classes", "workload: %w", err)
	}
	return w, nil
}

// frameCosts returns what the operations of p cost, by its cost table.
func frameCosts(p *profiles.Profile, rows int) (*workloads.FrameCosts, error) {
	t, err := p.CostsFor()
	if err != nil {
		return nil, usage("%s: the ground %s must know what requests cost: %w", p.File(), p.On, err)
	}
	w, err := frameLoad(p, rows)
	if err != nil {
		return nil, err
	}
	c, err := workloads.NewFrameCosts(w, rows, t.FrameTable())
	if err != nil {
		return nil, mistake(p, "server.settings."+settingCosts, "server.settings.costs: %w", err)
	}
	return c, nil
}

// refuseFrame says what of a data frame and the operations on it cannot be, before anything is started.
func refuseFrame(p *profiles.Profile) error {
	if p.Server.Kind != kindDataFrame || p.Workload.Kind != kindDataFrame {
		return nil
	}
	s, err := sourceOf(p)
	if err != nil {
		return err
	}
	rows := s.shape.Rows
	if s.path != "" {
		rows = 0 // whoever reads the file judges by it
	}
	_, err = frameLoad(p, rows)
	return err
}

// frameStreams returns, by class, what the operations of p do in the memory section.
func frameStreams(c *workloads.FrameCosts, classes int, bus machine.Bus) []streaming {
	list := make([]streaming, classes)
	for i := range list {
		steps, _ := c.Steps(nil, &workloads.Op{Class: uint16(i)})
		var within machine.Demand
		inside := false
		for _, s := range steps {
			if inside = s.Kind == machine.Enter || inside && s.Kind != machine.Leave; inside {
				within.Mean(s, bus)
			}
		}
		list[i] = streaming{bytes: within.Bytes, seconds: within.Core.Seconds()}
	}
	return list
}
