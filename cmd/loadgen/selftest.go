package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"spillway/internal/harness"
	"spillway/profiles"
)

func selftestCommand() *cobra.Command {
	var rates []string
	var span time.Duration
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure how precisely this machine sends, without a server",
		Long: `selftest sends Poisson arrivals to nowhere, sleeping between requests and spinning, and prints the send lag: how much later than due requests
left. A rate whose p99 send lag is above a tenth of your SLO cannot be measured on this machine as it is now.`,
		Example: "  loadgen selftest --rates 1k,50k",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []float64
			for _, text := range rates {
				r, err := profiles.ParseRate(text)
				if err != nil {
					return wrong(fmt.Errorf("--rates: %w", err))
				}
				list = append(list, float64(r))
			}
			if span <= 0 || span > time.Minute {
				return wrong(fmt.Errorf("--duration %v: is longer than 0 and at most a minute", span))
			}
			var werr error
			err := harness.SelfTest(cmd.Context(), list, span, func(line string) {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil && werr == nil {
					werr = err
				}
			})
			if err == nil {
				err = werr
			}
			return failed(err)
		},
	}
	cmd.Flags().StringSliceVar(&rates, "rates", []string{"1k", "50k"}, "requests per second, each tried in turn")
	cmd.Flags().DurationVar(&span, "duration", time.Second, "how long each is tried")
	return cmd
}
