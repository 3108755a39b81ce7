//go:build linux

package harness

import (
	"fmt"
	"strconv"

	"spillway/internal/dist"
	"spillway/profiles"
	"spillway/workloads"
)

const kindMailbox = "mailbox"

// mailboxFlags are the keys of server.settings of a mailbox server, beside those that every server has. The first five say what a mailbox
// is, on every ground.
var mailboxFlags = map[string]string{
	"size": "--size", "largest": "--largest", "latency": "--latency", "rate": "--rate", "mailbox_seed": "--mailbox-seed",
	"limit": "--limit", "limit_by": "--limit-by", "level": "--level", "put_back": "--put-back", "take_again": "--take-again", "rival": "--rival",
	"max_conns": "--max-conns", "threads": "--threads", "slots": "--slots", "queue": "--queue", "deadline": "--deadline", "slo": "--slo",
}

// ofThisComputer reports whether a key of server.settings is about the computer that a server runs on, so that it says nothing where a machine is
// modelled. The machine's own ram is the limit there, and its level.
func ofThisComputer(key string) bool {
	switch key {
	case settingThreads, "parallelism", "limit", "limit_by", "level", "put_back", "take_again", "rival", "stream", "stream_buffer":
		return true
	}
	return false
}

// hasCosts reports whether what a kind of server does is priced by a cost table; of a synthetic one, what it does beside the work that requests
// spell. The others know themselves.
func hasCosts(kind string) bool {
	return kind != kindMailbox && kind != kindGraph
}

// describesMailboxes reports whether a key of server.settings says what a mailbox is, and sets that in c.
func describesMailboxes(c *workloads.MailboxConfig, key, text string) (ours bool, err error) {
	switch key {
	case "size":
		c.Size, err = dist.Parse(text, dist.Bytes)
	case "largest":
		c.Largest, err = dist.ParseSize(text)
	case "latency":
		c.Latency, err = dist.ParseDuration(text)
	case "rate":
		var n int64
		n, err = dist.ParseSize(text)
		c.Rate = float64(n)
	case "mailbox_seed":
		if c.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			err = fmt.Errorf("%q is not a whole number from 0", text)
		}
	default:
		return false, nil
	}
	if err == nil {
		err = c.Check()
	}
	return true, err
}

// mailboxLoad returns the workload of a profile of mailboxes, as large as its server has them.
func mailboxLoad(p *profiles.Profile) (*workloads.MailboxLoad, error) {
	c := workloads.DefaultMailboxes()
	for key, text := range p.Server.Settings {
		if _, err := describesMailboxes(&c, key, text); err != nil {
			return nil, mistake(p, "server.settings."+key, "server.settings.%s: %w", key, err)
		}
	}
	classes, err := p.Workload.MailboxClasses()
	if err != nil {
		return nil, err
	}
	return workloads.NewMailboxLoad(c, classes)
}
