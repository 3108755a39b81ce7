//go:build linux

package harness

import (
	"context"
	"time"

	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/target"
	"spillway/report"
)

// The self-test at the start of a run is short: its figures say what is to be expected, the send lag of each point what was.
const (
	selfTestRate = 2000
	selfTestSpan = 100 * time.Millisecond
	// searchTestSpan is for runs that search the capacity: what stalls now and then fails a probe of a second, and a tenth of that seldom shows it.
	searchTestSpan = time.Second
)

func openSink(_ context.Context, o drive.Opening) (load.Target, error) {
	return target.NewSink(o.Clock, o.Settle, o.Spin)
}

// SelfTest measures how late requests leave on this computer at some rates, sleeping and spinning, and hands each finding to tell.
func SelfTest(ctx context.Context, rates []float64, window time.Duration, tell func(line string)) error {
	for _, pace := range []drive.Pace{drive.PaceSleep, drive.PaceSpin} {
		for _, rate := range rates {
			p, err := drive.SelfTest(ctx, pace, rate, window, openSink)
			if err != nil {
				return err
			}
			tell(p.String())
		}
	}
	return nil
}

// pacing is the short self-test as the manifest has it.
func pacing(ctx context.Context, span time.Duration) (list []report.Pacing, err error) {
	for _, pace := range []drive.Pace{drive.PaceSleep, drive.PaceSpin} {
		p, err := selfTest(ctx, pace, span)
		if err != nil {
			return nil, err
		}
		list = append(list, report.Pacing{
			Pace: string(p.Pace), RPS: p.Rate, LagP50US: micros(p.P50), LagP99US: micros(p.P99), LagMaxUS: micros(p.Max),
		})
	}
	return list, nil
}
