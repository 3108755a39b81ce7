package plots

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"spillway/report"
)

// A file that Draw writes ends in a seal, a hash of its name and of all that stands before. By it the next Draw knows what is its own: a figure that
// somebody has put there, copied to another name, or changed by hand has no seal, or one that is not right.
const (
	sealBegin = "<!-- drawn by loadgen "
	sealEnd   = " -->\n"
)

// sealed returns the content of a file that is called name within its folder.
func sealed(name string, svg []byte) []byte {
	if !bytes.HasSuffix(svg, []byte("\n")) {
		svg = append(svg, '\n')
	}
	return append(svg, seal(name, svg)...)
}

func seal(name string, svg []byte) string {
	h := sha256.New()
	h.Write([]byte(name + "\n"))
	h.Write(svg)
	return fmt.Sprintf("%s%x%s", sealBegin, h.Sum(nil), sealEnd)
}

// isOwn reports whether a file of that name was written by Draw and is as it was.
func isOwn(name string, content []byte) bool {
	at := bytes.LastIndex(content, []byte(sealBegin))
	return at >= 0 && string(content[at:]) == seal(name, content[:at])
}

// sweep removes the figures of an earlier rendering that list does not have, and the folder if nothing is left in it. What is not a figure of ours, as we
// left it, stays.
func sweep(dir string, list []report.Chart) error {
	folder := filepath.Join(dir, FolderName)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // nobody has drawn there
	}
	if err != nil {
		return fmt.Errorf("plots: %w", err)
	}
	wanted := map[string]bool{}
	for i := range list {
		wanted[filepath.Base(Name(&list[i]))] = true
	}
	var errs []error
	removed := false
	for _, e := range entries {
		if wanted[e.Name()] || !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		path := filepath.Join(folder, e.Name())
		content, err := os.ReadFile(path)
		if err != nil || !isOwn(e.Name(), content) {
			continue // what cannot be read cannot be known for ours
		}
		if err := os.Remove(path); err != nil {
			errs = append(errs, fmt.Errorf("plots: a figure of an earlier rendering: %w", err))
			continue
		}
		removed = true
	}
	if removed {
		_ = os.Remove(folder) // fails when something is in it, as it should
	}
	return errors.Join(errs...)
}
