//go:build linux

package harness

import (
	"context"
	"errors"
	"net"

	"spillway/internal/httptarget"
	"spillway/internal/target"
	"spillway/profiles"
)

// unstatedControl labels the rows of a server that runs already and does not say which controller it has. It claims nothing: there may be one or none.
const unstatedControl = "unknown"

// nameControl labels the rows of a server that runs already with the controller that it says it has, unless the profile gives them a label. A server that
// cannot be asked now says nothing; why is told when it is measured.
func (c *Config) nameControl(ctx context.Context) error {
	p := c.Profile
	if p.Server.Kind != "external" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statsDeadline)
	defer cancel()
	var err error
	c.stated, err = statedControl(ctx, p.Server.Settings["target"])
	var dial *net.OpError
	c.unreached = errors.As(err, &dial)
	if p.Controllers[0].As != "" {
		return nil
	}
	for _, label := range []string{c.stated, unstatedControl} {
		switch {
		case label == "":
			continue
		case label == p.Controllers[0].Name:
			return nil
		}
		named, err := p.Set([]profiles.Assignment{{Key: "controllers.0.as", Value: label, Origin: "the controller of the server"}})
		if err == nil {
			c.Profile = named
			return nil
		}
		c.stated = "" // it is no name of a controller
	}
	return usage("%s: controllers: give the server's own controller a label: [{name: none, as: LABEL}]", p.File())
}

// statedControl returns which controller a server says it has: in `stats spillway`, or over HTTP in its metrics. It is empty for a server that does not say,
// which only those of ours do, and for several that say different things. The error is that of asking.
func statedControl(ctx context.Context, url string) (string, error) {
	if overHTTP(url) {
		return httptarget.Control(ctx, url)
	}
	stats, err := target.Stats(ctx, url, "spillway")
	return stats["control"], err
}

// controlRemark says whose controller the rows are labelled with.
func (e *experiment) controlRemark() {
	p := e.config.Profile
	if p.Server.Kind != "external" {
		return
	}
	switch label, stated := p.Controllers[0].Label(), e.config.stated; {
	case e.config.unreached: // that it is not there is said in a moment
	case stated == "" && label == unstatedControl:
		e.note("the server does not say which controller it has, if any; its rows are labelled %s", unstatedControl)
	case stated != "" && label != stated:
		e.note("the server says that its controller is %s; its rows are labelled %s, as the profile has it", stated, label)
	}
}
