package compare

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"spillway/profiles"
	"spillway/report"
)

// circumstances holds the circumstances of a profile's runs on the two sides against each other. It returns why they cannot be compared, and notes
// what differs and may.
func (r *Result) circumstances(p *pair) (reasons []string, err error) {
	for _, s := range []*side{&p.base, &p.candidate} {
		for _, run := range s.runs[1:] {
			if why, err := r.differ(s.runs[0], run, nil); err != nil {
				return nil, err
			} else if len(why) > 0 {
				reasons = append(reasons, fmt.Sprintf("the runs of the %s of %s are not of one kind: %s", s.name, p.profile, strings.Join(why, "; ")))
			}
		}
		for _, run := range s.runs {
			if run.Manifest.State != report.StateComplete {
				r.warn(fmt.Sprintf("the %s of %s is %s: %s", s.name, p.profile, run.Manifest.State, run.Dir))
			}
		}
	}
	if len(reasons) > 0 {
		return reasons, nil
	}
	reasons, err = r.differ(p.base.runs[0], p.candidate.runs[0], func(key, base, candidate string) {
		r.Settings = append(r.Settings, Setting{p.profile, key, base, candidate})
	})
	if len(reasons) == 0 && err == nil {
		r.pairing(p)
	}
	return reasons, err
}

// pairing says so where repeats of a simulation do not face the same arrivals.
func (r *Result) pairing(p *pair) {
	if p.base.runs[0].Manifest.Ground != groundSim {
		return
	}
	seeds := func(s side) (list []uint64) {
		for _, run := range s.runs {
			for i := range run.Rows {
				list = append(list, run.Rows[i].Seed)
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	base, candidate := seeds(p.base), seeds(p.candidate)
	common := 0
	for _, s := range base {
		if slices.Contains(candidate, s) {
			common++
		}
	}
	switch {
	case common == 0:
		r.warn(fmt.Sprintf("%s: the two sides have no seed in common, so their repeats are not paired and less can be told apart; give both the same --seed", p.profile))
	case common < max(len(base), len(candidate)):
		r.warn(fmt.Sprintf("%s: only the %d repeats of seeds that both sides have are compared", p.profile, common))
	}
}

// differ returns why two runs cannot be compared. note is told of what differs and may; nil where nothing may.
func (r *Result) differ(a, b *report.Run, note func(key, base, candidate string)) (reasons []string, err error) {
	m, o := &a.Manifest, &b.Manifest
	refuse := func(what string, x, y any) {
		if x != y {
			reasons = append(reasons, fmt.Sprintf("%s: %s differs: %v and %v", m.Name, what, x, y))
		}
	}
	refuse("the schema version of the results", m.SchemaVersion, o.SchemaVersion)
	refuse("the ground", m.Ground, o.Ground)
	refuse("the time scale", m.TimeScale, o.TimeScale)
	if m.Ground != groundSim && m.Ground == o.Ground {
		refuse("the computer's processor", m.Machine.CPUModel, o.Machine.CPUModel)
		refuse("the number of its cores", m.Machine.Cores, o.Machine.Cores)
		if !near(m.Machine.RAMBytes, o.Machine.RAMBytes) {
			refuse("its memory", m.Machine.RAMBytes, o.Machine.RAMBytes)
		}
		refuse("the number of the server's threads (GOMAXPROCS)", m.Server.GOMAXPROCS, o.Server.GOMAXPROCS)
		refuse("what was measured", m.Server.Target, o.Server.Target)
		for _, v := range []struct{ what, x, y string }{
			{"kernel", m.Versions.Kernel, o.Versions.Kernel}, {"Go", m.Versions.Go, o.Versions.Go}, {"pacing", m.Pacing, o.Pacing},
		} {
			if v.x != v.y {
				r.warn(fmt.Sprintf("%s: %s differs: %s and %s", m.Name, v.what, v.x, v.y))
			}
		}
	}
	x, err := identity(a)
	if err != nil {
		return nil, err
	}
	y, err := identity(b)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(union(x, y))) {
		shown := strings.ReplaceAll(key, "\x00", ".")
		if x[key] == y[key] || oneSided(x, y, key) {
			continue
		}
		if mayDiffer(key) && note != nil {
			note(shown, x[key], y[key])
			continue
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s differs: %s and %s", m.Name, shown, orNothing(x[key]), orNothing(y[key])))
	}
	return reasons, nil
}

// oneSided reports whether a key is of a controller that only one side has: its points are missing on the other, which is told as such.
func oneSided(a, b map[string]string, key string) bool {
	label, ok := strings.CutPrefix(key, labelled)
	if !ok {
		return false
	}
	label, _, _ = strings.Cut(label, "\x00")
	name := labelled + label + "\x00name"
	return (a[name] == "") != (b[name] == "")
}

// near compares sizes of memory, of which the kernel takes a little more or less.
func near(a, b uint64) bool { return max(a, b)-min(a, b) <= max(a, b)/100 }

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// notCompared are the keys of a profile that say nothing about what was measured: what it is called, whose it is, what it claims, its seed and sizes. How
// often each point was measured is seen in the points.
var notCompared = []string{"name", "title", "source", "on", "seed", "repeats", "claims", "validate", "quick", "full"}

// mayDiffer reports whether a key may differ on purpose: what is compared are controllers, with their settings, and servers.
func mayDiffer(key string) bool {
	for _, part := range []string{"controllers.", "server."} {
		if strings.HasPrefix(key, part) || strings.HasPrefix(key, "variants.") && strings.Contains(key, ".set."+part) {
			return key != "server.kind" && key != "server.replicas"
		}
	}
	return false
}

// labelled begins the keys of a controller.
const labelled = "controllers."

// identity returns the keys of the profile of a run that say what was measured. Controllers go by their labels, since one may stand elsewhere in another list.
func identity(run *report.Run) (map[string]string, error) {
	if run.Manifest.ResolvedProfile == "" {
		return map[string]string{}, nil
	}
	flat, err := profiles.Flat(run.Dir, []byte(run.Manifest.ResolvedProfile))
	if err != nil {
		return nil, fmt.Errorf("the profile of the results: %w", err)
	}
	keys := make(map[string]string, len(flat))
	for key, value := range flat {
		first, rest, _ := strings.Cut(key, ".")
		if slices.Contains(notCompared, first) || first == "machine" && run.Manifest.Ground == "host" {
			continue
		}
		if first == "controllers" {
			index, setting, _ := strings.Cut(rest, ".")
			if setting == "warmup" && value == "0s" {
				continue // none of its own, which was written out once
			}
			if _, err := strconv.Atoi(index); err == nil {
				label := flat["controllers."+index+".as"]
				if label == "" {
					label = flat["controllers."+index+".name"]
				}
				key = labelled + label + "\x00" + setting // a label may have dots
			}
		}
		keys[key] = value
	}
	if log := run.Manifest.Replay; log != nil { // it is the same wherever its file lies, and another where the file has changed
		delete(keys, "workload.replay.file")
		keys["workload.replay.digest"] = log.Digest
	}
	return keys, nil
}
