//go:build linux

package harness

import (
	"slices"
	"strings"
	"testing"

	"spillway/profiles"
	"spillway/report"
)

func shippedProfile(t *testing.T, name string, set ...string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	var list []profiles.Assignment
	for _, s := range set {
		a, err := profiles.ParseAssignment(s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	if p, err = p.Set(list); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStagingMailbox runs the shipped profile: a server's death is a finding of its point, with what was measured until then, and the others
// are measured all the same.
func TestStagingMailbox(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t, "staging-mailbox", "repeats=2")
	if got := Grounds(p); !slices.Equal(got, []string{groundSim, groundModel, groundHost}) {
		t.Errorf("it can be run on %v", got)
	}
	run := simulate(t, p, 2)
	points := map[string]int{}
	for _, r := range run.Rows {
		if r.Class != report.AllClasses {
			continue
		}
		points[r.Controller]++
		died := slices.Contains(r.Warnings, "server_died")
		if died != (r.Controller == "none") {
			t.Errorf("%s, repeat %d: died %v", r.Controller, r.Repeat, died)
		}
		if r.Fates.OK == 0 || died == (r.Fates.Failed == 0) {
			t.Errorf("%s, repeat %d: %+v", r.Controller, r.Repeat, r.Fates)
		}
	}
	if run.Manifest.State != report.StateComplete || points["none"] != 2 || points["staging"] != 2 || points["staging-adaptive"] != 2 {
		t.Errorf("state %s, points %v", run.Manifest.State, points)
	}
	if names := traceNames(t, run.Dir); names["level_memory"] == 0 || names["staging_state"] == 0 {
		t.Errorf("the trace has %v", names)
	}
}

// TestRivalProfile: a rival that fits beside what is in service kills no server that holds requests back; one that does not kills every one.
func TestRivalProfile(t *testing.T) {
	t.Parallel()
	for _, r := range simulate(t, shippedProfile(t, "staging-mailbox-rival"), 2).Rows {
		if r.Class != report.AllClasses || r.Controller != "staging" {
			continue
		}
		died, want := slices.Contains(r.Warnings, "server_died"), strings.HasSuffix(r.Profile, "/does-not-fit")
		if died != want {
			t.Errorf("%s, repeat %d: died %v", r.Profile, r.Repeat, died)
		}
	}
}

func TestMailboxSettings(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"server.settings.size=some":       `distribution "some"`,
		"server.settings.largest=0B":      "largest mailbox has 0 bytes",
		"server.settings.latency=5":       "has no unit",
		"server.settings.rate=0B":         "must be above 0",
		"server.settings.mailbox_seed=-1": "is not a whole number",
		"server.settings.limits=1MB":      `did you mean "limit"?`,
		"server.settings.costs=memcached": `mailbox has no setting "costs"`,
	} {
		if err := refuse(shippedProfile(t, "staging-mailbox", setting)); err == nil || !strings.Contains(err.Error(), want) {
			if _, merr := newModelled(shippedProfile(t, "staging-mailbox", setting)); merr == nil || !strings.Contains(merr.Error(), want) {
				t.Errorf("%s: %v, %v; want something about %q", setting, err, merr, want)
			}
		}
	}
	// What is of this computer stays with it.
	p := shippedProfile(t, "staging-mailbox", "server.settings.size=1MB", "server.settings.rival=1MB@1s+1s")
	for on, want := range map[string]string{
		groundHost: "--level memory --limit 400MB --rival 1MB@1s+1s --size 1MB", groundModel: "--size 1MB",
	} {
		moved := *p
		moved.On = on
		if flags, err := serverFlags(&moved); err != nil || strings.Join(flags, " ") != want {
			t.Errorf("on %s: %q, %v; want %q", on, flags, err, want)
		}
	}
}
