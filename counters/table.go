//go:build linux

package counters

import (
	"slices"
	"time"
)

// role is what a count means.
type role uint8

const (
	roleRead  role = iota // bytes read from memory
	roleWrite             // bytes written to it
	roleTotal             // both together
	roleBusy              // numerator of the pressure
	roleClock             // its denominator, where that is not the count of roleTotal
)

// want is one event of a row.
type want struct {
	role  role
	name  string  // in sysfs; where it is there, its terms and scale hold
	terms string  // where it is not; empty: then the row does not fit
	bytes float64 // of one count, where sysfs has no scale
}

// row is how one kind of PMU counts bytes. Of the rows of a provider, the first that fits a PMU holds for it, so what is more particular
// stands first.
type row struct {
	pmu    string // a name; # stands for digits
	vendor string // of the processor; empty: any
	family []int  // of the processor; nil: any
	models []int  // of the processor; nil: any
	alias  string // an event that sysfs must name; empty: none
	format string // how the field event must be encoded; empty: any

	wants     []want
	pressure  []want  // counted apart, since not every PMU has room for them
	busyShare float64 // pressure = this × busy / clock, or total
	separate  bool    // the PMU refuses groups
	counters  int     // that the PMU has; 0: not known. More events than that take turns.
	saturates int     // bits after which the hardware stops; 0: it wraps, and the kernel counts on
	hwCache   bool    // wants are of PERF_TYPE_HW_CACHE, on the processors of the PMU
	note      string
}

// perfProvider is a provider whose numbers come from perf events.
type perfProvider struct {
	name, measures string
	vendors        []string // of processors that may have it; nil: any
	kind           Kind
	scope          Scope
	minPeriod      time.Duration
	absent         string // remedy when no PMU is there, beside that of virtual machines
	rows           []row
}

// Models of Intel's processors by the generation of their memory controller.
var (
	intelSandyToCascade = []int{0x2d, 0x3e, 0x3f, 0x4f, 0x56, 0x55} // SNB-EP IVT HSX BDX BDX-DE SKX/CLX/CPX
	intelIce            = []int{0x6a, 0x6c, 0x86}                   // ICX ICX-D SNR
	intelSapphire       = []int{0x8f, 0xcf}                         // SPR EMR
	intelGranite        = []int{0xad, 0xae, 0xaf, 0xdd, 0xb6}       // GNR GNR-D SRF CWF GRR
	intelKnights        = []int{0x57, 0x85}                         // KNL KNM
	intelHybrid         = []int{0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xbd, 0xc5, 0xc6, 0xb5}
)

// amdZen3 are the models of family 0x19 before Zen 4: Milan, Vermeer, Rembrandt, Cezanne.
var amdZen3 = slices.Concat(models(0x00, 0x0f), models(0x20, 0x2f), models(0x40, 0x5f))

func models(from, to int) (list []int) {
	for m := from; m <= to; m++ {
		list = append(list, m)
	}
	return list
}

const (
	intel = "GenuineIntel"
	amd   = "AuthenticAMD"
	hygon = "HygonGenuine"
	arm   = "arm"
)

// cas returns the wants of a memory controller that counts column accesses (CAS), which move a cache line of so many bytes.
func cas(read, write string, bytes float64) []want {
	return []want{
		{roleRead, "cas_count_read", read, bytes},
		{roleWrite, "cas_count_write", write, bytes},
	}
}

// subchannels are the wants of controllers that count their two subchannels apart: one alone is half of the traffic.
var subchannels = []want{
	{roleRead, "cas_count_read_sch0", "event=0x05,umask=0xcf", 64},
	{roleRead, "cas_count_read_sch1", "event=0x06,umask=0xcf", 64},
	{roleWrite, "cas_count_write_sch0", "event=0x05,umask=0xf0", 64},
	{roleWrite, "cas_count_write_sch1", "event=0x06,umask=0xf0", 64},
}

// dataFabric returns the wants of AMD's data fabric: one event a channel.
func dataFabric(r role, first, channels int, umask string) (list []want) {
	for c := range channels {
		list = append(list, want{role: r, terms: hexTerms(first+0x40*c, umask), bytes: 64})
	}
	return list
}

// llRead is PERF_COUNT_HW_CACHE_LL, reads, misses.
const llRead = "config=0x10002"

// fine is the shortest window of counters that have no turns to take: that of the sensor of Svalinn's semaphore. A read of one takes 1 to 3 µs.
const fine = 20 * time.Microsecond

// perfProviders are in order of belief.
var perfProviders = []perfProvider{
	{
		name: "intel-imc", measures: "column accesses of Intel's memory controllers", vendors: []string{intel}, kind: Counted, scope: ScopeHost, minPeriod: fine,
		rows: []row{
			{pmu: "uncore_imc_#", alias: "cas_count_read_sch0", wants: subchannels},
			{pmu: "uncore_imc_#", vendor: intel, models: intelGranite, wants: subchannels},
			{pmu: "uncore_imc_#", alias: "cas_count_read", wants: cas("", "", 64)},
			{pmu: "uncore_imc_#", vendor: intel, models: intelSandyToCascade, wants: cas("event=0x04,umask=0x03", "event=0x04,umask=0x0c", 64)},
			{pmu: "uncore_imc_#", vendor: intel, models: intelIce, wants: cas("event=0x04,umask=0x0f", "event=0x04,umask=0x30", 64)},
			{pmu: "uncore_imc_#", vendor: intel, models: intelSapphire, wants: cas("event=0x05,umask=0xcf", "event=0x05,umask=0xf0", 64)},
			{
				pmu: "uncore_hbm_#", vendor: intel, models: intelSapphire, wants: cas("event=0x05,umask=0xcf", "event=0x05,umask=0xf0", 32),
				note: "high-bandwidth memory moves 32 B an access according to others' scripts; not verified",
			},
			{pmu: "uncore_imc_#", vendor: intel, models: intelKnights, wants: cas("event=0x03,umask=0x01", "event=0x03,umask=0x02", 64)},
			{pmu: "uncore_imc_#", vendor: intel, models: intelHybrid, wants: cas("event=0x22", "event=0x23", 64)},
		},
	},
	{
		name: "amd-umc", measures: "column accesses of AMD's memory controllers, and how busy their data bus is", vendors: []string{amd}, kind: Counted, scope: ScopeHost,
		minPeriod: fine, absent: "Zen 4 or later with Linux 6.7 or later has it",
		rows: []row{{
			pmu: "amd_umc_#", vendor: amd, saturates: 48,
			wants: []want{
				{roleRead, "", "event=0x0a,rdwrmask=0x1", 64},
				{roleWrite, "", "event=0x0a,rdwrmask=0x2", 64},
			},
			pressure:  []want{{roleBusy, "", "event=0x14", 0}, {roleClock, "", "event=0x00", 0}},
			busyShare: 0.5, // two slots a clock
		}},
	},
	{
		name: "nvidia-scf", measures: "what Grace's fabric moves to and from its memory, without the GPU's traffic", vendors: []string{arm}, kind: Counted, scope: ScopeHost,
		minPeriod: fine,
		rows: []row{{
			pmu: "nvidia_scf_pmu_#",
			wants: []want{ // two units in one PMU: reads in beats, writes in bytes
				{roleRead, "cmem_rd_data", "event=0x1a5", 32},
				{roleWrite, "cmem_wr_total_bytes", "event=0x1db", 1},
			},
		}},
	},
	{
		name: "intel-imc-free", measures: "free-running byte counters of Intel's memory controllers", vendors: []string{intel}, kind: Counted, scope: ScopeHost,
		minPeriod: fine,
		rows: []row{
			{pmu: "uncore_imc_free_running_#", alias: "data_read", wants: []want{{roleRead, "data_read", "", 64}, {roleWrite, "data_write", "", 64}}},
			{
				pmu: "uncore_imc_free_running_#", alias: "read", wants: []want{{roleRead, "read", "", 64}, {roleWrite, "write", "", 64}},
				note: "traffic to persistent memory is not in it",
			},
			{
				pmu: "uncore_imc_free_running", alias: "data_read",
				wants: []want{{roleRead, "data_read", "", 64}, {roleWrite, "data_write", "", 64}},
			},
			{
				pmu:   "uncore_imc",
				wants: []want{{roleRead, "data_reads", "event=0x01", 64}, {roleWrite, "data_writes", "event=0x02", 64}},
			},
		},
	},
	{
		name: "amd-df", measures: "requests with data through AMD's data fabric, reads and writes together before Zen 4", vendors: []string{amd, hygon}, kind: Counted,
		scope: ScopeHost, minPeriod: fine,
		rows: []row{
			{
				pmu: "amd_df", vendor: amd, family: []int{0x1a}, format: formatDF2, counters: 4,
				wants: append(dataFabric(roleRead, 0x1f, 12, "0xffe"), dataFabric(roleWrite, 0x1f, 12, "0xfff")...),
				note:  noteDF2,
			},
			{
				pmu: "amd_df", vendor: amd, family: []int{0x19}, format: formatDF2, counters: 4,
				wants: append(dataFabric(roleRead, 0x1f, 12, "0x7fe"), dataFabric(roleWrite, 0x1f, 12, "0x7ff")...),
				note:  noteDF2,
			},
			{
				pmu: "amd_df", vendor: amd, family: []int{0x17}, format: formatDF1, counters: 4,
				wants: dataFabric(roleTotal, 0x07, 8, "0x38"), note: noteDF1,
			},
			{
				pmu: "amd_df", vendor: amd, family: []int{0x19}, models: amdZen3, format: formatDF1, counters: 4,
				wants: dataFabric(roleTotal, 0x07, 8, "0x38"), note: noteDF1,
			},
			{pmu: "amd_df", vendor: hygon, format: formatDF1, counters: 4, wants: dataFabric(roleTotal, 0x07, 8, "0x38"), note: noteDF1},
		},
	},
	{
		name: "arm-cmn", measures: "requests of Arm's mesh to the memory controllers, and the share of them that had to be repeated", vendors: []string{arm}, kind: Counted,
		scope: ScopeHost, minPeriod: fine, absent: "`modprobe arm-cmn`, which some distributions ship in linux-modules-extra",
		rows: []row{
			{
				pmu: "arm_cmn_#", alias: "hns_mc_reqs_local_all",
				wants:    []want{{roleTotal, "hns_mc_reqs_local_all", "", 64}},
				pressure: []want{{roleBusy, "hns_mc_retries_local", "", 0}}, busyShare: 1,
				note: noteRequests,
			},
			{
				pmu:      "arm_cmn_#",
				wants:    []want{{roleTotal, "hnf_mc_reqs", "type=0x5,eventid=0xd", 64}},
				pressure: []want{{roleBusy, "hnf_mc_retries", "type=0x5,eventid=0xc", 0}}, busyShare: 1,
				note: noteRequests,
			},
		},
	},
	{
		name: "arm-dmc620", measures: "reads and writes of Arm's DMC-620 memory controllers", vendors: []string{arm}, kind: Counted, scope: ScopeHost, minPeriod: fine,
		rows: []row{{
			pmu: "arm_dmc620_#", separate: true,
			wants: []want{{roleTotal, "clkdiv2_rdwr", "event=0x12,clkdiv2=1", 64}},
		}},
	},
	{
		name: "hisi-ddrc", measures: "reads and writes of HiSilicon's memory controllers", vendors: []string{arm}, kind: Counted, scope: ScopeHost, minPeriod: fine,
		rows: []row{{
			pmu: "hisi_sccl#_ddrc#", separate: true, // each event is one register
			wants: []want{{roleRead, "flux_rd", "config=0x01", 32}, {roleWrite, "flux_wr", "config=0x00", 32}},
			note:  "a count is 16 or 32 B by chip; the ratio to our stream tells",
		}, {
			pmu: "hisi_sccl#_ddrc#_#", separate: true,
			wants: []want{{roleRead, "flux_rd", "", 32}, {roleWrite, "flux_wr", "", 32}},
			note:  "a count is 16 or 32 B by chip; the ratio to our stream tells",
		}},
	},
}

// llcProvider stands behind the kernel's resource control: what it sees are the causes of traffic and not the traffic.
var llcProvider = perfProvider{
	name: "llc-miss", measures: "reads that miss the last-level cache, 64 B each; without write-backs, most prefetches and devices", kind: Estimate,
	scope: ScopeCores, minPeriod: time.Millisecond,
	rows: []row{
		{pmu: "amd_l3", vendor: amd, wants: []want{{roleTotal, "", "event=0x04,umask=0x01", 64}}, note: noteLLC},
		{pmu: "cpu_core", hwCache: true, wants: []want{{roleTotal, "", llRead, 64}}, note: noteLLC},
		{pmu: "cpu_atom", hwCache: true, wants: []want{{roleTotal, "", llRead, 64}}},
		// On AMD the generic event of the core PMU counts misses of the L2.
		{pmu: "cpu", vendor: intel, hwCache: true, wants: []want{{roleTotal, "", llRead, 64}}, note: noteLLC},
		{pmu: "armv8_pmuv3_#", vendor: arm, hwCache: true, wants: []want{{roleTotal, "", llRead, 64}}, note: noteLLC},
	},
}

// The field event of amd_df before and since PerfMonV2, and remarks that several rows share.
const (
	formatDF1 = "config:0-7,32-35,59-60"
	formatDF2 = "config:0-7,32-37"

	noteDF1      = "AMD documents these events for one memory domain a socket (NPS1); elsewhere they may be wrong by a factor of 2"
	noteDF2      = "12 channels are counted whatever the socket has; on 10 channels others saw 14 to 19 % too much"
	noteRequests = "counts requests, not bursts of the memory"
	noteLLC      = "a lower bound: write-backs, most prefetches and devices are not in it"
)
