package profiles

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/dist"
)

// Bounds on what one profile may ask for. They are far above every experiment we know and catch slips before they cost an afternoon.
const (
	maxConnections = 65536
	maxEntries     = 1000 // of any list
	maxRepeats     = 1000
	maxDuration    = 24 * time.Hour
	shareTolerance = 1e-6 // 1/3 + 1/3 + 1/3, written with six digits, still sums to 1
)

// AllClasses is the class of the rows that pool the others; no class may be called so.
const AllClasses = "all"

var (
	// nameRule keeps names fit for files, tags and spreadsheets, where a cell that begins with = + - @ is a formula.
	nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

	grounds       = []string{"sim", "model", "host"}
	serverKinds   = []string{"memcached", "rocksdb", "dataframe", "synthetic", "graph", "mailbox", "web", "external"}
	workloadKinds = []string{"kv", "synthetic", "dataframe", "graph", "mailbox", "replay", KindAllocation}
	opKinds       = []string{"get", "set", "delete", "multiget"}
	clientKinds   = []string{ClientPipelined, ClientGomemcache}
)

// checker judges a decoded profile. The first mistake wins; what follows from it would only confuse.
type checker struct {
	d         *decoder
	elsewhere string // origin of what no assignment has touched; empty when there was none
	err       error
}

// fail records a mistake at path, or at the nearest written thing above it.
func (c *checker) fail(path, format string, args ...any) {
	if c.err != nil {
		return
	}
	for at := path; ; {
		if n := c.d.at[at]; n != nil {
			c.err = n.fail(c.d.file, format, args...)
			return
		}
		at = at[:max(strings.LastIndexByte(at, '.'), 0)]
	}
}

// untouched reports whether what stands at path was there before assignments changed something else: it was right then.
func (c *checker) untouched(path string) bool {
	n := c.d.at[path]
	return c.elsewhere != "" && n != nil && n.origin == c.elsewhere
}

func (c *checker) oneOf(path, what string, known []string) {
	if slices.Contains(known, what) {
		return
	}
	key := lastKey(path)
	if path == "on" {
		key = "ground"
	}
	if what == "" {
		c.fail(path, "%s is missing; it is one of %s", path, strings.Join(known, ", "))
	} else if near := Nearest(what, known); near != "" {
		c.fail(path, "unknown %s %q; did you mean %q?", key, what, near)
	} else {
		c.fail(path, "unknown %s %q; it is one of %s", key, what, strings.Join(known, ", "))
	}
}

func (c *checker) name(path, name string) {
	if name == "" {
		c.fail(path, "%s is missing", path)
	} else if !nameRule.MatchString(name) {
		c.fail(path, "%q is not a name; use letters, digits, dots, dashes and underscores, a letter or digit first, 63 at most", name)
	}
}

func (c *checker) length(path string, n int) {
	if n > maxEntries {
		c.fail(path, "%s has %d entries, at most %d are possible", lastKey(path), n, maxEntries)
	}
}

func (p *Profile) check(c *checker) error {
	d := c.d
	c.name("name", p.Name)
	if strings.ContainsAny(p.Title, "\n\r") {
		c.fail("title", "a title is one line")
	}
	c.oneOf("on", p.On, grounds)
	c.oneOf("server.kind", p.Server.Kind, serverKinds)
	if d.at["server.replicas"] != nil && (p.Server.Replicas < 1 || p.Server.Replicas > 64) {
		c.fail("server.replicas", "replicas is 1 to 64")
	}
	c.machine(p.Machine)
	c.workload(&p.Workload, &p.Load)
	c.allocation(p)
	c.loading(p)
	c.load(p)
	c.controllers(p.Controllers)
	c.retry(p)
	c.times(p)
	c.variants(p.Variants)
	c.validation(p)
	if c.err == nil {
		c.err = p.vary(d)
	}
	c.claims(p)
	if c.err == nil {
		c.sizes(p)
	}
	return c.err
}

func (c *checker) retry(p *Profile) {
	r := p.Retry
	if r == nil {
		return
	}
	c.oneOf("retry.to", r.To, []string{"other"})
	c.ratio("retry.budget", r.Budget)
	if r.Budget == 0 {
		c.fail("retry.budget", "a retry has a budget above 0: how many retries each first attempt earns, such as 0.1")
	}
	if r.Primary != "" {
		c.oneOf("retry.primary", r.Primary, []string{PrimarySpread, PrimaryFirst})
	}
	if p.Server.Replicas < 2 {
		c.fail("retry", "there is no other server to retry at; give server.replicas: 2 or more")
	}
}

func (c *checker) ratio(path string, v float64) {
	if v < 0 || v > 1 {
		c.fail(path, "%s is between 0 and 1", lastKey(path))
	}
}

func (c *checker) times(p *Profile) {
	for _, t := range []struct {
		key   string
		value time.Duration
		least time.Duration
	}{
		{"timeout", p.Timeout, time.Microsecond}, {"drain", p.Drain, 0}, {"warmup", p.WarmUp, 0}, {"window", p.Window, time.Microsecond},
	} {
		if t.value < t.least || t.value > maxDuration {
			c.fail(t.key, "%s is between %s and 24h", t.key, dist.FormatDuration(t.least))
		}
	}
	if p.Repeats < 1 || p.Repeats > maxRepeats {
		c.fail("repeats", "repeats is between 1 and %d", maxRepeats)
	}
}

func (c *checker) load(p *Profile) {
	l := &p.Load
	if p.Workload.Kind == KindAllocation { // which says itself who asks for how much
		return
	}
	given := 0
	for _, n := range []int{len(l.Rates), len(l.OfCapacity), len(l.Phases), len(l.Speeds)} {
		if n > 0 {
			given++
		}
	}
	if given != 1 {
		c.fail("load", "load has exactly one of rates, of_capacity and phases (of a replay speeds too), with at least one entry")
	}
	c.length("load.rates", len(l.Rates))
	c.length("load.of_capacity", len(l.OfCapacity))
	c.length("load.phases", len(l.Phases))
	for i, r := range l.Rates {
		if slices.Contains(l.Rates[:i], r) {
			c.fail("load.rates."+strconv.Itoa(i), "rate %s stands here a second time; use repeats", r)
		}
	}
	for i, f := range l.OfCapacity {
		if slices.ContainsFunc(l.OfCapacity[:i], func(o Factor) bool { return o.Value() == f.Value() }) {
			c.fail("load.of_capacity."+strconv.Itoa(i), "factor %s stands here a second time; use repeats", f)
		}
	}
	c.phases(p)
	c.drift(p)
	c.speeds(p)
}

// shares checks that a mapping of shares names only known things and sums to 1.
func (c *checker) shares(path string, shares map[string]float64, known []string) {
	sum := 0.0
	for _, name := range sortedKeys(shares) {
		c.oneOf(path+"."+name, name, known)
		c.ratio(path+"."+name, shares[name])
		sum += shares[name]
	}
	if math.Abs(sum-1) > shareTolerance {
		c.fail(path, "the shares sum to %s, not to 1", strconv.FormatFloat(sum, 'g', 6, 64))
	}
}

func (c *checker) controllers(list []Controller) {
	if len(list) == 0 {
		c.fail("controllers", "controllers is missing; to measure without control write [{name: none}]")
	}
	c.length("controllers", len(list))
	seen := map[string]bool{}
	for i := range list {
		path := fmt.Sprintf("controllers.%d", i)
		c.name(path+".name", list[i].Name)
		label := list[i].Label()
		if list[i].As != "" {
			c.name(path+".as", label)
		}
		if seen[label] {
			c.fail(path, "the label %q stands here a second time; give one of them another with `as:`", label)
		}
		seen[label] = true
		if w := list[i].WarmUp; w > maxDuration {
			c.fail(path+".warmup", "warmup is at most 24h")
		}
		for j, part := range list[i].Parts {
			at := fmt.Sprintf("%s.parts.%d", path, j)
			c.name(at, part)
			if slices.Contains(list[i].Parts[:j], part) {
				c.fail(at, "the part %q stands here a second time", part)
			}
		}
		c.length(path+".parts", len(list[i].Parts))
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
