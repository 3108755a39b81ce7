package plots

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/report"
)

// there returns what is in a folder, by name.
func there(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestDrawSweeps: a second rendering leaves no figure of the first that it does not draw itself, and everything of somebody else's.
func TestDrawSweeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, FolderName)
	of := func(ids ...string) (list []report.Chart) {
		for _, id := range ids {
			list = append(list, *chart(id, false, map[string][]float64{"none": {1, 2}}, "none"))
		}
		return list
	}
	if _, err := Draw(dir, of("kept", "gone", "edited")); err != nil {
		t.Fatal(err)
	}
	first := there(t, folder)
	sound(t, "kept", []byte(first["kept.svg"]))
	own := map[string]string{
		"edited.svg": first["edited.svg"] + "<!-- my own words -->\n", "copy-of-gone.svg": first["gone.svg"], "drawing.svg": "<svg/>", "notes.txt": "mine",
		"figure.svg": "<svg/>\n" + sealBegin + "0" + sealEnd,
	}
	for name, text := range own {
		put(t, filepath.Join(folder, name), text)
	}
	names, err := Draw(dir, of("kept", "new"))
	if diff := cmp.Diff([]string{"plots/kept.svg", "plots/new.svg"}, names); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	got := there(t, folder)
	if got["new.svg"] == "" {
		t.Error("the new figure is not there")
	}
	own["kept.svg"], own["new.svg"] = first["kept.svg"], got["new.svg"]
	if diff := cmp.Diff(own, got); diff != "" {
		t.Errorf("in the folder (-want +got):\n%s", diff)
	}
}

// TestDrawNothingSweeps: without a figure there is no folder, unless somebody else has something in it.
func TestDrawNothingSweeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := []report.Chart{*chart("one", false, map[string][]float64{"none": {1, 2}}, "none")}
	for _, others := range []bool{false, true} {
		if _, err := Draw(dir, list); err != nil {
			t.Fatal(err)
		}
		if others {
			put(t, filepath.Join(dir, FolderName, "notes.txt"), "mine")
		}
		if names, err := Draw(dir, nil); err != nil || names != nil {
			t.Fatal(names, err)
		}
		_, err := os.Stat(filepath.Join(dir, FolderName))
		if os.IsNotExist(err) == others {
			t.Errorf("with something of others %v: the folder: %v", others, err)
		}
	}
	if diff := cmp.Diff(map[string]string{"notes.txt": "mine"}, there(t, filepath.Join(dir, FolderName))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	taken := t.TempDir()
	put(t, filepath.Join(taken, FolderName), "a file of that name")
	if _, err := Draw(taken, nil); err != nil {
		t.Error(err)
	}
}
