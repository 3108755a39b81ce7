package controltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/control"
)

// half is a client's half of the controllers under test: the directive client acts on it.
type half struct {
	outbox *control.Outbox
	now    clock.Instant
}

// newHalf returns a client of the controllers, and none where they have no half at clients.
func newHalf(s *control.Stack) *half {
	if s.NewClient == nil {
		return nil
	}
	return &half{outbox: s.NewClient(rand.New(rand.NewPCG(1, 1)))}
}

// outboxEvent carries out one line of the directive client.
func (w *world) outboxEvent(line string) error {
	h := w.half
	words := strings.Fields(line)
	switch {
	case h == nil:
		return errors.New("the controllers have no half at clients")
	case len(words) < 3 || words[0] != "at":
		return errors.New("want: at T offer|reply|lose|told|part|tick …")
	}
	t, err := instant(words[1])
	if err != nil {
		return err
	}
	if t < h.now {
		return fmt.Errorf("it is %v already", h.now)
	}
	for next := h.outbox.Next(); next <= t; next = h.outbox.Next() {
		h.now = max(h.now+1, next) // whatever Next says, time must go on
		if h.now > t {
			break
		}
		if list := h.outbox.Tick(h.now, nil); len(list) > 0 {
			w.printDispatches("tick", list)
		}
	}
	h.now = t
	list, err := h.event(words[2], words[3:])
	if err != nil {
		return err
	}
	w.printDispatches(strings.Join(words[2:], " "), list)
	return nil
}

// event brings a request, or news from the server.
func (h *half) event(verb string, args []string) ([]control.Dispatch, error) {
	switch verb {
	case "tick":
		return h.outbox.Tick(h.now, nil), nil
	case "offer":
		if len(args) == 0 {
			return nil, errors.New("offer what?")
		}
		token, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return nil, err
		}
		r, err := request(token, args[1:])
		return h.outbox.Offer(h.now, control.Outgoing{Token: token, Class: r.Class, Priority: r.Priority}, nil), err
	}
	kind, ok := map[string]control.NoticeKind{
		"reply": control.Replied, "lose": control.Lost, "told": control.Told, "part": control.Parted,
	}[verb]
	if !ok {
		return nil, fmt.Errorf("unknown event %q", verb)
	}
	n := control.Notice{Kind: kind, Credits: -1}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "credits":
			n.Credits, err = strconv.Atoi(value)
		case "latency":
			n.Latency, err = time.ParseDuration(value)
		case "shed":
			n.Shed = true
		default:
			err = fmt.Errorf("unknown %q", arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return h.outbox.Hear(h.now, n, nil), nil
}

func (w *world) printDispatches(what string, list []control.Dispatch) {
	var texts []string
	for _, d := range list {
		switch d.Kind {
		case control.Send:
			texts = append(texts, fmt.Sprintf("send %d demand=%d", d.Token, d.Demand))
		case control.Shun:
			texts = append(texts, fmt.Sprintf("refuse %d", d.Token))
		case control.Inform:
			texts = append(texts, fmt.Sprintf("ask demand=%d", d.Demand))
		}
	}
	if len(texts) == 0 {
		texts = []string{"nothing"}
	}
	fmt.Fprintf(&w.log, "%v %s: %s\n", w.half.now, what, strings.Join(texts, ", "))
}
