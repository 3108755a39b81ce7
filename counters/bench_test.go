//go:build linux

package counters

import (
	"context"
	"testing"
	"time"

	"spillway/clock"
	"spillway/counters/pressure"
)

// BenchmarkSampling runs a sampler at 10 ms with everything that this machine has, for as long as the benchmark says, and prints what a sample took and
// what share of a core that is.
func BenchmarkSampling(b *testing.B) {
	m := Here()
	in, err := Instrument(context.Background(), m, Config{Account: NewAccount(32 << 20)})
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	s, err := NewSampler(SamplerConfig{Machine: m, Sources: in.Sources, Gauges: in.Gauges})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		m.Wait(context.Background(), DefaultPeriod)
	}
	b.StopTimer()
	if err := s.Stop(); err != nil {
		b.Fatal(err)
	}
	c := s.Cost()
	b.ReportMetric(float64(c.PerSample()), "cpu-ns/sample")
	b.ReportMetric(100*c.Share(), "core-%")
	b.ReportMetric(float64(c.Longest), "longest-ns")
}

// BenchmarkSources is what reading each source and gauge of this machine takes.
func BenchmarkSources(b *testing.B) {
	m := Here()
	for _, p := range Providers(NewAccount(32<<20), 0) {
		s, err := p.Open(m)
		if err != nil {
			continue
		}
		b.Run(p.Name(), func(b *testing.B) {
			b.ReportAllocs()
			var r Reading
			for b.Loop() {
				s.Read(&r)
			}
		})
		_ = s.Close()
	}
	gauges, _ := pressure.Open(m.Root)
	for _, g := range gauges {
		b.Run(g.Columns()[0].Name, func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]float64, len(g.Columns()))
			for b.Loop() {
				g.Sample(m.Clock.Now(), dst)
			}
		})
		_ = g.Close()
	}
}

// BenchmarkCredit is what crediting a chunk takes, and a scan around it.
func BenchmarkCredit(b *testing.B) {
	a := NewAccount(32 << 20)
	l, r := a.Lane(), a.Region(1<<30)
	r.Touched(1 << 30)
	b.Run("credit", func(b *testing.B) {
		for b.Loop() {
			l.Credit(r, UseRead, chunk, chunk)
		}
	})
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			l.Begin()
			l.Credit(r, UseRead, chunk, chunk)
			l.End()
		}
	})
}

// BenchmarkCachedLoad is what a request path pays for a look at the sensor.
func BenchmarkCachedLoad(b *testing.B) {
	s, err := (Accounted{Account: NewAccount(0)}).Open(Here())
	if err != nil {
		b.Fatal(err)
	}
	k, err := NewCached(CachedConfig{Source: s, Clock: clock.NewReal(), Period: time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	for b.Loop() {
		k.Load()
	}
}
