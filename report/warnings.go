package report

// Verdict says what a warning means for the validity of a point.
type Verdict string

// The verdicts.
const (
	Harmless Verdict = "a warning; the numbers are valid all the same"
	Empty    Verdict = "a warning; the numbers are right, and say nothing about the controller"
	Fatal    Verdict = "the numbers must not be believed"
	Finding  Verdict = "a finding about the server or its connections; the numbers are valid all the same"
	Early    Verdict = "a warning; the numbers are right for this window, and not what the controller comes to in the end"
	Graded   Verdict = "the numbers must not be believed when it happened to more than 1 % of the requests"
)

// warning is what a code means.
type warning struct {
	code     string
	verdict  Verdict
	sentence string
}

// warnings is the one list of codes. The load driver and the harness set them, in column warnings of points.csv; the numbers behind one
// stand in the manifest.
var warnings = []warning{
	{"send_lag", Fatal, "Requests left later than they were due: the p99 send lag exceeds 10 % of the tightest SLO (without an SLO: of the p99 latency), so the generator shaped the load. Lower the rate, stop what else runs on this machine, or give the generator a core of its own (--pace spin)."},
	{"unsent", Graded, "Requests could not be handed to the transport: the generator's own fault, not the server's."},
	{"accounting", Fatal, "The counts do not add up to the requests that were due, or contradict each other. This is a defect of loadgen; please report it with the result directory."},
	{"little", Fatal, "The mean number of requests in flight is not what their times in flight give (Little's law), by more than chance explains for so many requests, so a clock or a count is wrong."},
	{"server_count", Fatal, "The server executed another number of commands than was sent and not shed: replies were lost, or somebody else used the server."},
	{"scale_too_small", Fatal, "This computer could not keep up with the modelled machine: messages came later than the modelled network takes, so servers had to decide without them. Stretch time more with --time-scale; the smallest scale that would have done stands beside each point."},
	{"capacity_unknown", Fatal, "The load is a share of a capacity that is not known: the search saw rates hold and the generator fail, and not the server, so the server may be capable of more and a load above its capacity may be none. The numbers are right for the rate that was offered; its factor means nothing. Search with --pace spin or a longer SLO, or give rates without a search (load.rates, of drive --rate)."},
	{"cut_short", Fatal, "The point was interrupted. Its row covers what was measured until then."},
	{"no_arrivals", Fatal, "No request was due in the window. Make it longer or the rate higher."},
	{"all_failed", Fatal, "No request was answered or shed, all failed or timed out, so the point says nothing about overload."},
	{"drift", Harmless, "The second half of the window differs from the first. The queue of an overloaded server without control grows for as long as the overload lasts, so its latency mostly says how long the window was."},
	{"server_died", Finding, "The server ended during the point, which is a finding. What it last wrote to its standard error is in the manifest."},
	{"unconverged", Early, "The controller was still adapting when the window began, so a claim about it decides nothing. Make the warm-up longer."},
	{"slots_unlimited", Empty, "The controller judges requests when they leave the Gate's queue, and with unlimited slots nothing waits there: every request goes straight to the cores' run queue, which the controller cannot drop from. So this says nothing about the controller. Set server.settings.slots, to the number of cores for a start."},
	{"model_late", Harmless, "A few messages came later than the modelled network takes, too few to change the numbers."},
	{"clock_step", Finding, "The calendar clock was set during the window, or the computer was suspended. Time is measured by a clock that does not notice either."},
	{"closed_loop", Finding, "The load waited for the server (a closed loop), so a slow server was asked less. It must not be compared with an open loop."},
	{"uncounted", Harmless, "The server's own counts could not be read, so ours were not held against them."},
	{"misses", Finding, "Reads did not find their key. What a workload reads is stored first, so the server's memory is too small, or somebody deleted it. Of a log that is replayed, only what it says was there is stored first: reads behind its deletes and reads that it recorded as misses, which have no size, find nothing here either, as it should be."},
	{"undrained", Harmless, "Requests were still under way when the drain ended. They count as timed out."},
	{"reconnected", Finding, "Connections were lost and established anew."},
	{"out_of_step", Finding, "Replies came that belong to no request; their connections were given up."},
	{"window_full", Finding, "A connection had its bound of requests under way, so what was due there counts as unsent. The count is of the window."},
	{"socket_full", Harmless, "The kernel did not take everything at once: the server read slower than it was written to."},
	{"overflow", Harmless, "Durations were longer than histograms resolve and count in their last bucket; mean and maximum are exact all the same."},
	{"sender_cpu", Harmless, "The sending thread used more than 90 % of a core, so it is near its limit."},
	{"preempted", Harmless, "The system took the core from the sending thread more than a thousand times a second."},
	{"gc_pause", Harmless, "The garbage collector stopped the generator for more than a thousandth of the window."},
	{"real_time_dropped", Harmless, "The sending thread hardly slept and gave its real-time priority back, so that the machine stayed usable."},
}

// Explain returns the sentence that explains a code and what it means for validity. An unknown code, which another version may have
// written, has an empty sentence.
func Explain(code string) (sentence string, v Verdict) {
	for _, w := range warnings {
		if w.code == code {
			return w.sentence, w.verdict
		}
	}
	return "", Harmless
}
