package controltest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spillway/control"
)

// credits is what a driver keeps of clients that say how much they would like to send.
type credits struct {
	issuer    control.Issuer // the controllers, if they are one
	polls     control.Polls
	questions uint64
	demands   map[uint64]bool  // requests that came with a demand and are not answered yet
	told      map[uint64]int32 // what the refusals that are about to be printed say
	finished  string           // what the last reply to a served request says, as it is printed
}

func newCredits(c control.Controller) credits {
	issuer, _ := c.(control.Issuer)
	return credits{issuer: issuer, demands: make(map[uint64]bool), told: make(map[uint64]int32)}
}

// cutDemand returns args without the demand that a request carries; -1 when it carries none.
func cutDemand(args []string) (rest []string, demand int, err error) {
	demand = -1
	for _, arg := range args {
		value, ok := strings.CutPrefix(arg, "demand=")
		if !ok {
			rest = append(rest, arg)
			continue
		}
		if demand, err = strconv.Atoi(value); err != nil || demand < 0 {
			return nil, 0, fmt.Errorf("%s: want a number of requests", arg)
		}
	}
	return rest, demand, nil
}

// demand brings the demand that a request carries.
func (w *world) demand(r control.Request, n int) error {
	if w.credits.issuer == nil {
		return errors.New("the controllers hand out no credits")
	}
	w.credits.issuer.Demand(w.now, r.Client, n)
	w.credits.demands[r.ID] = true
	return nil
}

// reply returns what the reply to a request says of credits; ok is false when it says nothing, because the request did not ask.
func (w *world) reply(r control.Request) (n int, ok bool) {
	if !w.credits.demands[r.ID] {
		return 0, false
	}
	delete(w.credits.demands, r.ID)
	return w.credits.issuer.Credits(w.now, r.Client), true
}

// note returns what is to be printed behind an action about credits.
func (w *world) note(a control.Action) string {
	id := a.Request.ID
	switch a.Kind {
	case control.Refuse:
		if n, ok := w.credits.told[id]; ok {
			delete(w.credits.told, id)
			return fmt.Sprintf(" credits=%d", n)
		}
	case control.Credit:
		if _, ok := w.credits.polls.Tell(&a); !ok {
			return " unasked"
		}
	}
	return ""
}

// client carries out an event of a client; ours is false when verb is none.
func (w *world) client(verb string, id uint64, args []string) (ours bool, err error) {
	if verb != "poll" && verb != "forget" {
		return false, nil
	}
	if w.credits.issuer == nil {
		return true, errors.New("the controllers hand out no credits")
	}
	client := uint32(id)
	what := fmt.Sprintf("%s %d", verb, client)
	if verb == "forget" {
		w.credits.issuer.Forget(w.now, client)
		w.credits.polls.Drop(client)
		fmt.Fprintf(&w.log, "%v %s\n", w.now, what)
		return true, nil
	}
	value, ok := strings.CutPrefix(strings.Join(args, " "), "demand=")
	n, err := strconv.Atoi(value)
	if !ok || err != nil {
		return true, errors.New("want: poll CLIENT demand=N")
	}
	w.credits.questions++
	answers := w.credits.polls.Ask(w.now, w.credits.issuer, client, n, w.credits.questions, nil)
	list := []string{"wait"}
	if len(answers) > 0 {
		list = list[:0]
		for _, a := range answers {
			text := fmt.Sprintf("credits=%d", a.Credits)
			if a.Token != w.credits.questions {
				text += " to the older question"
			}
			list = append(list, text)
		}
		if answers[len(answers)-1].Token != w.credits.questions {
			list = append(list, "wait")
		}
	}
	fmt.Fprintf(&w.log, "%v %s: %s\n", w.now, what, strings.Join(list, ", "))
	return true, nil
}
