package main

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"spillway/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMoreThanItCanDo submits five jobs in the time that the workers need for one, for a second. As many are done as two workers can do, the
// others are turned away before anybody has begun with them, and none is lost. Time is that of a bubble, so the counts do not depend on
// the speed of the computer.
func TestMoreThanItCanDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const workers, jobs, service = 2, 1000, 10 * time.Millisecond
		p, err := newPool(workers, 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var done, turnedAway, begun int
		var submitters sync.WaitGroup
		ticker := time.NewTicker(service / workers / 5)
		defer ticker.Stop()
		for range jobs {
			<-ticker.C
			submitters.Go(func() {
				err := p.submit(t.Context(), func(*guard.Ticket) error {
					mu.Lock()
					begun++
					mu.Unlock()
					<-time.After(service)
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				var overloaded *guard.Overloaded
				switch {
				case err == nil:
					done++
				case errors.Is(err, errTurnedAway) && errors.As(err, &overloaded):
					turnedAway++
				default:
					t.Error(err)
				}
			})
		}
		submitters.Wait()
		p.close()
		stats := p.guard.Stats()
		t.Logf("%d done, %d turned away, longest queue %d", done, turnedAway, stats.MaxQueued)
		if done+turnedAway != jobs || begun != done || stats.InService != 0 {
			t.Errorf("%d done, %d turned away and %d begun of %d jobs, %d still in service", done, turnedAway, begun, jobs, stats.InService)
		}
		// The workers are busy all the time, and nobody is let in once the oldest has waited longer than its budget, which is less than the
		// objective: no more wait than come in that time.
		if least := jobs / 5 * 9 / 10; done < least {
			t.Errorf("%d done, want at least %d", done, least)
		}
		if most := 50 * time.Millisecond / (service / workers / 5); stats.MaxQueued > int(most) {
			t.Errorf("%d waited together, more than %d", stats.MaxQueued, most)
		}
		if most := jobs/5 + stats.MaxQueued + workers; done > most {
			t.Errorf("%d done, more than %d, which is all that two workers can do", done, most)
		}
	})
}

// Jobs that the memory section does not let in are dropped halfway, with what they hold; a job done is not.
func TestDroppedHalfway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := newPool(4, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		held := make(chan error, 4)
		release := make(chan struct{})
		for range 4 {
			go func() {
				held <- p.submit(t.Context(), func(ticket *guard.Ticket) error {
					leave, err := ticket.Memory()
					if err != nil {
						return err
					}
					defer leave()
					<-release
					return nil
				})
			}()
		}
		synctest.Wait() // the section begins with one place
		dropped := 0
		for range 3 {
			if err := <-held; err != nil && !errors.Is(err, errTurnedAway) {
				dropped++
			}
		}
		close(release)
		if err := <-held; err != nil || dropped != 3 {
			t.Errorf("the one inside: %v; %d of 3 dropped", err, dropped)
		}
		if s, m := p.guard.Stats(), p.guard.Meters(); s.Failed != 3 || m["memsem_inside"] != 0 {
			t.Errorf("%+v, %v", s, m)
		}
	})
}

// The program itself, with more than it can do: everything submitted is accounted for.
func TestSubmitAll(t *testing.T) {
	t.Parallel()
	p, err := newPool(2, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	c := submitAll(t.Context(), p, 200, time.Millisecond/10)
	t.Logf("%+v", c)
	if c.done+c.turnedAway+c.dropped != 200 || c.done == 0 {
		t.Errorf("of 200 jobs: %+v", c)
	}
	if s := p.guard.Stats(); s.InService != 0 || s.Queued != 0 {
		t.Errorf("left behind: %+v", s)
	}
}
