package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"spillway/internal/dist"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/synthetic"
)

// syntheticFlags is the command line of refserver synthetic.
type syntheticFlags struct {
	front   frontFlags
	machine machineFlags
	memory  string
	buffer  string
	stream  string
}

func syntheticCommand() *cobra.Command {
	var f syntheticFlags
	c := &cobra.Command{
		Use:   "synthetic",
		Short: "A server that does the work that each request's key spells",
		Long: `A server that does the work that each request's key spells, so that any memcached client can ask for any work:

  c72us              compute
  s819200            move bytes over the memory bus; s819200@3000000000 at no more than so many bytes per second
  l0:10us            hold lock 0
  d1ms               wait, without a core
  m1048576           hold bytes of memory until the end of the request
  e0 ... x0          enter and leave section 0

Steps are joined by commas, and what follows a # is a comment: get c72us,l0:10us#17 computes and then holds a lock.

On this computer the work is really done. Streams are written past the caches where the processor can do that (amd64), each byte of the program being one
on the bus; elsewhere a line is read before it is written, and half as many bytes are written. With --stream load they are read instead. On a modelled machine (--machine) the instants at which it is done are computed; time then
runs slower by --time-scale, and --slo, --deadline and the controller's settings are durations of that time.

It prints one line a listener on standard output once it accepts connections, and serves until SIGTERM or SIGINT.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveSynthetic(c, &f) },
	}
	f.front.add(c)
	f.machine.add(c)
	c.Flags().StringVar(&f.memory, "memory", "1GiB", "memory that all requests together may hold on this computer; beyond it they fail")
	c.Flags().StringVar(&f.stream, "stream", "store", "what streams do on this computer: store, past the caches where that is possible, or load")
	c.Flags().StringVar(&f.buffer, "stream-buffer", "auto", "memory that streams run over on this computer; auto for four times the largest cache")
	return c
}

func serveSynthetic(c *cobra.Command, f *syntheticFlags) error {
	front, err := f.front.config()
	if err != nil {
		return usageError{err}
	}
	changed := c.Flags().Changed
	front.Model, err = f.machine.model(changed, func(spec machine.Spec) (servers.Coster, error) {
		return synthetic.Costs{Bus: spec.Bus.Total > 0}, nil
	})
	if err == nil {
		err = front.Check()
	}
	if err != nil {
		return usageError{err}
	}
	controller, err := f.front.newController(&front)
	if err != nil {
		return usageError{err}
	}
	if f.machine.modelled() {
		if changed("memory") || changed("stream-buffer") || changed("stream") {
			return usageError{errors.New("--memory and --stream-buffer are for a real machine, and so is --stream: a modelled one has its ram")}
		}
		return serve(c, synthetic.New(), controller, front)
	}
	config, err := f.host()
	if err != nil {
		return usageError{err}
	}
	backend, err := synthetic.NewHost(config)
	if err != nil {
		return err
	}
	return serve(c, backend, controller, front)
}

func (f *syntheticFlags) host() (c synthetic.Config, err error) {
	if c.Memory, err = dist.ParseMemcachedSize(f.memory, 1); err != nil {
		return c, fmt.Errorf("memory: %w", err)
	}
	switch f.stream {
	case "store":
	case "load":
		c.Stream = synthetic.Loaded
	default:
		return c, fmt.Errorf("stream %q: must be store or load", f.stream)
	}
	if f.buffer != "auto" {
		if c.Buffer, err = dist.ParseMemcachedSize(f.buffer, 1); err != nil {
			return c, fmt.Errorf("stream buffer: %w", err)
		}
	}
	return c, nil
}
