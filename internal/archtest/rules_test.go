package archtest

// module is the path of this module; tables name packages relative to it.
const module = "spillway"

// mayImport has a row for every package: what it may import of ours. A name that ends in /* stands for every package below it. Tests may import
// more; what they may not is in neverImport.
//
// Rows stand in dependency order: a package imports from rows above its own.
var mayImport = map[string][]string{
	// Nothing of ours.
	"clock":             {},
	"internal/dist":     {},
	"internal/stats":    {},
	"internal/memproto": {},
	"internal/poll":     {},
	"internal/hist":     {},
	"internal/evq":      {},
	"internal/cache":    {},
	"internal/graphdb":  {},
	"internal/frames":   {},
	"internal/kernels":  {},
	"internal/archtest": {},

	// What a request is, what is asked, when, and what is written down of it.
	"control":          {"clock"},
	"machine":          {"clock", "internal/evq"},
	"workloads":        {"internal/dist", "internal/frames", "machine"},
	"internal/arrival": {"clock", "internal/dist"},
	"internal/reqlog":  {"clock"},
	"internal/replay":  {"clock", "internal/dist", "workloads"},

	// Mechanisms. They compose in Chain and in the catalog, never in each other.
	"control/aqm":         {"clock", "control"},
	"control/limit":       {"clock", "control"},
	"control/credit":      {"clock", "control"},
	"control/seda":        {"clock", "control"},
	"control/dagor":       {"clock", "control"},
	"control/bouncer":     {"clock", "control"},
	"control/staging":     {"clock", "control"},
	"control/capacity":    {"clock", "control"},
	"control/bandit":      {"clock"},
	"control/memsem":      {"clock", "control", "control/bandit"},
	"control/catalog":     {"clock", "control", "control/*"},
	"control/controltest": {"clock", "control", "control/catalog"},
	"guard":               {"clock", "control", "control/aqm"},
	"guard/levels":        {"control"},
	"machine/station":     {"clock", "control", "machine"},
	"internal/metrics":    {"control"},

	// The client side.
	"internal/load":       {"clock", "control", "workloads", "internal/arrival", "internal/dist", "internal/evq", "internal/reqlog", "internal/hist"},
	"internal/target":     {"clock", "control", "workloads", "internal/dist", "internal/evq", "internal/hist", "internal/load", "internal/reqlog", "internal/memproto", "internal/poll"},
	"internal/httptarget": {"clock", "control", "workloads", "internal/load", "internal/reqlog", "internal/poll"},
	"internal/drive":      {"clock", "workloads", "internal/arrival", "internal/hist", "internal/load", "internal/reqlog", "internal/stats"},

	// What memory, processors and scheduler are doing.
	"counters/sysfs":         {},
	"counters/perf":          {},
	"counters/pressure":      {"clock", "counters/sysfs"},
	"counters/perf/perftest": {"counters/perf"},
	"counters":               {"clock", "counters/sysfs", "counters/perf", "counters/pressure", "internal/poll"},

	// Virtual time.
	"sim": {"clock", "control", "workloads", "machine", "machine/station", "internal/dist", "internal/evq", "internal/load", "internal/reqlog"},

	"sim/allocation": {"control/capacity", "internal/dist"},

	// The server side.
	"servers":            {"clock", "control", "machine", "machine/station", "internal/evq", "internal/memproto", "internal/metrics", "internal/poll"},
	"servers/servertest": {"control", "servers"},
	"servers/synthetic":  {"servers", "internal/kernels", "internal/memproto", "machine"},
	"servers/mailbox":    {"servers", "internal/memproto", "machine", "workloads", "guard/levels"},
	"servers/web":        {"clock", "control", "control/capacity", "guard", "internal/cache", "internal/metrics", "machine", "servers/synthetic"},
	"servers/allocator":  {"clock", "control/capacity"},
	"servers/memcached":  {"servers", "internal/memproto", "internal/cache"},
	"servers/rocksdb":    {"servers", "internal/dist", "internal/memproto", "workloads"},
	"servers/graph":      {"servers", "internal/graphdb", "internal/memproto", "machine"},
	"servers/dataframe":  {"servers", "internal/frames", "internal/memproto", "machine", "workloads"},

	// Experiments and results.
	"report":   {"internal/hist", "internal/stats", "internal/reqlog"},
	"profiles": {"internal/arrival", "internal/dist", "internal/replay", "machine", "workloads"},

	"report/compare":  {"report", "profiles", "internal/stats"},
	"report/html":     {"report"},
	"report/plots":    {"report"},
	"report/export":   {"report", "internal/hist"},
	"report/document": {"report", "report/html", "report/plots"},

	"internal/harness": {
		"clock", "control", "control/catalog", "workloads", "machine", "machine/station", "sim", "sim/allocation", "control/capacity", "profiles", "report", "report/document",
		"internal/arrival", "internal/dist", "internal/frames", "internal/graphdb", "internal/kernels", "internal/load", "internal/drive", "internal/target", "internal/httptarget", "internal/replay", "internal/reqlog", "internal/hist", "internal/stats", "counters",
	},
	"internal/calibrate": {"clock", "counters", "machine", "profiles", "internal/drive", "internal/frames", "internal/kernels", "internal/load", "internal/target"},
	"internal/regress":   {"report"},

	"internal/reproduce": {"profiles", "report", "report/html", "internal/harness"},

	// Programs to start from.
	"examples/httpserver": {"control", "control/catalog", "guard"},
	"examples/workerpool": {"control", "control/catalog", "guard"},
	"examples/bouncer":    {"control", "control/catalog", "guard"},
	"examples/staging":    {"control", "control/staging", "guard", "guard/levels"},

	// Commands: flags, a config, one call.
	"cmd/loadgen": {"control/catalog", "counters", "profiles", "report", "report/compare", "report/export", "report/html", "report/plots", "internal/harness", "internal/calibrate", "internal/reproduce", "internal/dist", "internal/replay", "workloads"},
	"cmd/refserver": {
		"control", "control/catalog", "workloads", "machine", "profiles", "internal/dist", "internal/frames", "internal/graphdb", "internal/memproto", "servers", "servers/*", "guard/levels",
		"clock", "counters", "counters/pressure",
	},
}

// neverImport are pairs of ours that hold for tests too, and for packages that do not exist yet.
var neverImport = []struct{ from, to, reason string }{
	{"sim", "servers", "the real and the simulated world agree only through control, workloads and internal/load"},
	{"servers", "sim", "the real and the simulated world agree only through control, workloads and internal/load"},
	{"sim", "internal/target", "the simulator has no sockets"},
	{"sim", "internal/drive", "the simulator has no real time"},
	{"internal/harness", "servers", "the harness measures a process, not a package"},
	{"report", "control", "a report must be makeable from files alone, on another machine"},
	{"report", "servers", "a report must be makeable from files alone, on another machine"},
	{"report", "internal/load", "a report must be makeable from files alone, on another machine"},
	{"workloads", "control", "a workload says what to ask, never when nor whether"},
	{"workloads", "clock", "a workload says what to ask, never when nor whether"},
	{"counters", "internal/harness", "a measuring instrument knows nothing of what it measures"},
	{"counters", "internal/load", "a measuring instrument knows nothing of what it measures"},
}

type importer struct {
	module string
	by     []string
	reason string
}

// importers names, for every third-party module we use, who may import it. Entries name packages as in mayImport; "test" stands for
// any test file.
var importers = []importer{
	{"github.com/HdrHistogram/hdrhistogram-go", []string{"internal/hist", "test"}, "internal/hist is the one door: it counts what the library would drop"},
	{"github.com/bradfitz/gomemcache", []string{"internal/target", "test"}, "it cannot pipeline or carry credits; it is the client of record that our servers are tested against, and a second target for compatibility"},
	{"github.com/linxGnu/grocksdb", []string{"servers/rocksdb"}, "one package knows cgo and has a twin without it"},
	{"github.com/spf13/cobra", []string{"cmd/*"}, "flags end in cmd; everything else takes a config"},
	{"github.com/spf13/pflag", []string{"cmd/*"}, "flags end in cmd; everything else takes a config"},
	{"github.com/olekukonko/tablewriter", []string{"report", "cmd/*"}, "tables are made where results are printed"},
	{"github.com/vbauerster/mpb/v8", []string{"cmd/*"}, "progress is drawn by the command, never in a measured path"},
	{"github.com/goccy/go-yaml", []string{"profiles"}, "the strict loader, with line and column, is the only reader of YAML"},
	{"github.com/prometheus/client_golang", []string{"internal/metrics"}, "metrics are an endpoint of the server, not a habit of every package"},
	{"github.com/prometheus/procfs", []string{"counters", "internal/harness"}, "kernel figures come from one place"},
	{"golang.org/x/sys", []string{"cmd/loadgen", "counters", "counters/*", "test", "internal/cache", "internal/calibrate", "internal/drive", "internal/poll", "internal/target", "servers"}, "system calls stay where sockets, pacing, mapped memory, counters and a progress bar are; the rest is portable"},
	{"gonum.org/v1/gonum", []string{"internal/frames", "internal/stats", "machine", "test"}, "numerical methods stay behind our own names"},
	{"gonum.org/v1/plot", []string{"report/plots"}, "figures are drawn in one place, so that a controller looks alike in all"},
	{"golang.org/x/perf", []string{"internal/stats", "test"}, "its tests of significance stay behind our own names"},
	{"github.com/google/go-cmp", []string{"test"}, "it is for tests"},
	{"pgregory.net/rapid", []string{"test"}, "it is for tests"},
	{"github.com/cockroachdb/datadriven", []string{"test"}, "it is for tests"},
	{"github.com/rogpeppe/go-internal", []string{"test"}, "it is for tests"},
	{"go.uber.org/goleak", []string{"test"}, "it is for tests"},
	{"github.com/chromedp", []string{"test"}, "it is for tests, which open the page of results in a real browser (docs/adr/0026)"},
}

// Groups of packages that calls and imports are forbidden in.
var (
	// pure runs under virtual time as well as real time.
	pure = []string{
		"control", "control/*", "workloads", "sim", "sim/*", "machine", "machine/*",
		"internal/arrival", "internal/dist", "internal/load", "internal/stats", "internal/hist", "internal/reqlog",
	}
	// timeless is pure and what must give the same bytes for the same input.
	timeless = append([]string{"report", "report/compare", "report/document", "report/export", "report/plots"}, pure...)
	// decides is what decides on requests or models them.
	decides = []string{"control", "control/*", "workloads", "sim", "sim/*", "machine", "machine/*"}
	// paced is where a wrong sleep becomes a wrong measurement.
	paced = []string{"servers", "servers/*", "internal/drive", "internal/target", "internal/httptarget", "internal/poll"}
	all   = []string{"*"}
)

// forbiddenImports bans packages of the standard library, as direct imports of what is not a test.
var forbiddenImports = []struct {
	in      []string
	imports []string
	reason  string
}{
	{
		decides,
		[]string{"context", "io", "log", "log/slog", "net", "net/*", "os", "os/*", "sync", "sync/*", "syscall"},
		"a state machine without goroutine, lock, clock or input and output is what runs under virtual time; package guard adds the blocking face",
	},
	{timeless, []string{"math/rand", "crypto/rand"}, "randomness is a seeded *rand.Rand of math/rand/v2, handed in"},
	{all, []string{"io/ioutil", "plugin"}, "there is a better one"},
}

// forbiddenCalls bans functions of the standard library. A name that ends in * stands for all that begin so.
var forbiddenCalls = []struct {
	in     []string
	tests  bool // also in tests
	main   bool // allowed in main.go
	pkg    string
	names  []string
	reason string
}{
	{
		in: timeless, pkg: "time",
		names:  []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
		reason: "`now` is an argument (docs/adr/0001)",
	},
	{
		in: timeless, pkg: "math/rand/v2",
		names: []string{
			"ExpFloat64", "Float32", "Float64", "Int", "Int32", "Int32N", "Int64", "Int64N", "IntN", "N", "NormFloat64", "Perm", "Shuffle",
			"Uint", "Uint32", "Uint32N", "Uint64", "Uint64N", "UintN",
		},
		reason: "the global source cannot be seeded, so a run could not be repeated",
	},
	{in: paced, pkg: "time", names: []string{"Sleep"}, reason: "it oversleeps by about a millisecond on Linux (docs/adr/0006)"},
	{in: all, tests: true, pkg: "time", names: []string{"Sleep"}, reason: "a test that sleeps is slow on a good day and wrong on a bad one: use testing/synctest, or wait for the thing itself"},
	{in: all, main: true, pkg: "os", names: []string{"Exit"}, reason: "only main.go ends the process; everything else returns an error"},
	{in: all, pkg: "log", names: []string{"Fatal*", "Panic*"}, reason: "only main.go ends the process; everything else returns an error"},
}

// Limits of size and tidiness.
const (
	maxFileLines        = 600 // of what is not a test; aim at 400
	maxFuncLines        = 100 // of what is not a test; aim at 70
	maxInterfaceMethods = 4   // aim at 3
)
