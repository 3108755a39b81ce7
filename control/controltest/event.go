package controltest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/control"
)

// event carries out one line of the directive run: "at T VERB [ID] [key=value]…".
func (w *world) event(line string) error {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "at" {
		return errors.New("want: at T arrive|finish|withdraw|enter|leave|lock|unlock|poll|forget|tick|bus|level …")
	}
	t, err := instant(words[1])
	if err != nil {
		return err
	}
	if t < w.now {
		return fmt.Errorf("it is %v already", w.now)
	}
	w.advance(t)
	verb, args := words[2], words[3:]
	if verb == "tick" {
		s, err := signals(args)
		if err != nil {
			return err
		}
		w.print("tick", w.tick(s))
		return nil
	}
	switch verb {
	case "bus":
		return w.setBus(args)
	case "level":
		return w.setLevels(args)
	}
	if len(args) == 0 {
		return fmt.Errorf("%s what?", verb)
	}
	id, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	return w.request(verb, id, args[1:])
}

// request carries out an event of one request.
func (w *world) request(verb string, id uint64, args []string) error {
	w.settleBus()
	if ours, err := w.section(verb, id, args); ours {
		return err
	}
	if ours, err := w.client(verb, id, args); ours {
		return err
	}
	what := fmt.Sprintf("%s %d", verb, id)
	_, waits := w.places[id]
	_, served := w.inService[id]
	switch verb {
	case "arrive":
		if waits || served {
			return errors.New("it is here already")
		}
		args, demand, err := cutDemand(args)
		if err != nil {
			return err
		}
		r, err := request(id, args)
		if err == nil && demand >= 0 {
			err = w.demand(r, demand)
		}
		if err != nil {
			return err
		}
		w.print(what, w.arrive(r))
	case "finish":
		if !served {
			return errors.New("it is not in service")
		}
		failed := len(args) == 1 && args[0] == "failed"
		if len(args) > 0 && !failed {
			return fmt.Errorf("unknown %q", args)
		}
		actions := w.finish(id, failed)
		w.print(what+w.credits.finished, actions)
	case "withdraw":
		if !waits {
			return errors.New("it does not wait")
		}
		_, actions := w.gate.Withdraw(w.now, w.places[id], nil)
		delete(w.places, id)
		w.print(what, w.apply(actions))
	default:
		return fmt.Errorf("unknown event %q", verb)
	}
	return nil
}

// request reads the properties of a request.
func request(id uint64, args []string) (control.Request, error) {
	r := control.Request{ID: id}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		var n uint64
		var err error
		switch key {
		case "class":
			n, err = strconv.ParseUint(value, 10, 16)
			r.Class = uint16(n)
		case "priority":
			n, err = strconv.ParseUint(value, 10, 16)
			r.Priority = uint16(n)
		case "queue-delay":
			r.QueueDelay, err = time.ParseDuration(value)
		case "client":
			n, err = strconv.ParseUint(value, 10, 32)
			r.Client = uint32(n)
		case "bytes":
			r.Bytes, err = strconv.ParseInt(value, 10, 64)
		case "deadline":
			r.Deadline, err = instant(value)
		case "budget":
			r.Budget, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("unknown %q", arg)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// signals reads what a tick tells the controller.
func signals(args []string) (s control.Signals, err error) {
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "queue-delay":
			s.QueueDelay, err = time.ParseDuration(value)
		case "saturated":
			s.Saturated = true
		case "membytes":
			s.MemBytes, err = strconv.ParseUint(value, 10, 64)
		case "memat":
			s.MemAt, err = instant(value)
		default:
			err = fmt.Errorf("unknown %q", arg)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// setLevels changes how full resources are from here on.
func (w *world) setLevels(args []string) error {
	for _, arg := range args {
		name, text, _ := strings.Cut(arg, "=")
		used, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(w.levels, func(l control.Level) bool { return l.Name == name })
		if i < 0 {
			i = len(w.levels)
			w.levels = append(w.levels, control.Level{Name: name})
		}
		w.levels[i].Used = used
	}
	return nil
}

// instant reads a time since the beginning of the file.
func instant(text string) (clock.Instant, error) {
	d, err := time.ParseDuration(text)
	return clock.Instant(d), err
}
