package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// Report is what one case of a scenario came to.
type Report struct {
	Scenario string
	Case     string // such as "64 slots"; empty where there is one
	Figures  []Figure
	Limits   []Limit // none of a short measurement, whose figures mean nothing
	short    bool
}

// Figure is a median over the repetitions, and how far they lie apart as a
// share of it.
type Figure struct {
	Name   string
	Value  float64
	Spread float64
}

// Limit is what a figure is held against.
type Limit struct {
	Figure string  `json:"figure"`
	Least  float64 `json:"least,omitempty"` // one of the two
	Most   float64 `json:"most,omitempty"`
	Holds  bool    `json:"holds"`
}

func (l Limit) String() string {
	word, bound := "at least", l.Least
	if l.Least == 0 {
		word, bound = "at most", l.Most
	}
	verdict := "holds"
	if !l.Holds {
		verdict = "does not hold"
	}
	return fmt.Sprintf("%s %s %s: %s", l.Figure, word, number(bound), verdict)
}

// Value gives a figure by its name.
func (r *Report) Value(name string) (float64, bool) {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

// Holds says whether all limits hold.
func (r *Report) Holds() bool {
	for _, l := range r.Limits {
		if !l.Holds {
			return false
		}
	}
	return true
}

func (r *Report) add(name string, values ...float64) {
	r.Figures = append(r.Figures, Figure{Name: name, Value: round(median(values)), Spread: round(spread(values))})
}

func (r *Report) ratioIsLeast(least float64) {
	v, ok := r.Value("ratio")
	r.limit(Limit{Figure: "ratio", Least: least, Holds: ok && v >= least})
}

func (r *Report) most(figure string, most float64) {
	v, ok := r.Value(figure)
	r.limit(Limit{Figure: figure, Most: most, Holds: ok && v <= most})
}

func (r *Report) limit(l Limit) {
	if !r.short {
		r.Limits = append(r.Limits, l)
	}
}

// round keeps four digits, and all of them before the point.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, max(0, 3-math.Floor(math.Log10(math.Abs(v)))))
	return math.Round(v*scale) / scale
}

func number(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.4g", v), ".0") }

// MarshalJSON writes the figures beside scenario and case, in their order, with
// the spread of those that were repeated.
func (r *Report) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	field := func(name string, v any) error {
		j, err := json.Marshal(v)
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", name, j)
		return err
	}
	spreads := make(map[string]float64)
	err := field("scenario", r.Scenario)
	if err == nil && r.Case != "" {
		err = field("case", r.Case)
	}
	for _, f := range r.Figures {
		if err == nil {
			err = field(f.Name, f.Value)
		}
		if f.Spread > 0 {
			spreads[f.Name] = f.Spread
		}
	}
	if err == nil {
		err = field("spread", spreads)
	}
	if err == nil && len(r.Limits) > 0 {
		err = field("limits", r.Limits)
	}
	return fmt.Appendf(nil, "{%s}", b.Bytes()), err
}

// Text is the report for people: what matters first, then the rest.
func (r *Report) Text() string {
	var b strings.Builder
	b.WriteString(r.Title())
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "\n  %-28s %10s", f.Name, number(f.Value))
		if f.Spread > 0 {
			fmt.Fprintf(&b, "   spread %.0f %%", 100*f.Spread)
		}
	}
	for _, l := range r.Limits {
		fmt.Fprintf(&b, "\n  %s", l)
	}
	return b.String()
}

// Title is scenario and case.
func (r *Report) Title() string { return strings.TrimSuffix(r.Scenario+", "+r.Case, ", ") }

// compared adds what every comparison with the raw pipeline has.
func (r *Report) compared(ours, raw []lap) {
	rate := func(l lap) float64 { return l.rate() }
	r.add("calls", each(ours, func(l lap) float64 { return float64(l.calls) })...)
	r.add("calls_per_s", each(ours, rate)...)
	r.add("raw_per_s", each(raw, rate)...)
	r.add("ratio", over(each(ours, rate), each(raw, rate))...)
	r.costs(ours, raw)
}

// costs adds what a call takes of processors and memory.
func (r *Report) costs(ours, raw []lap) {
	client := func(l lap) float64 { return micros(l.ours.CPU, l.calls) }
	broker := func(l lap) float64 { return micros(l.brokers.CPU, l.calls) }
	both := func(l lap) float64 { return client(l) + broker(l) }
	allocs := func(l lap) float64 { return float64(l.ours.Allocs) / float64(l.calls) }
	bytes := func(l lap) float64 { return float64(l.ours.Bytes) / float64(l.calls) }
	messages := func(l lap) float64 { return float64(l.brokers.Messages) / float64(l.calls) }
	r.add("cpu_us_per_call", each(ours, both)...)
	r.add("cpu_client_us_per_call", each(ours, client)...)
	r.add("cpu_server_us_per_call", each(ours, broker)...)
	r.add("allocs_per_call", each(ours, allocs)...)
	r.add("bytes_per_call", each(ours, bytes)...)
	r.add("messages_per_call", each(ours, messages)...)
	if raw == nil {
		return
	}
	r.add("raw_cpu_us_per_call", each(raw, both)...)
	r.add("raw_cpu_client_us_per_call", each(raw, client)...)
	r.add("raw_cpu_server_us_per_call", each(raw, broker)...)
	r.add("raw_allocs_per_call", each(raw, allocs)...)
	r.add("raw_messages_per_call", each(raw, messages)...)
	r.add("cpu_ratio", over(each(ours, both), each(raw, both))...)
}

func micros(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }

// held adds what the processes hold after a collection.
func (r *Report) held(ours, brokers usage) {
	r.add("client_heap_mib", mib(ours.Heap))
	r.add("server_heap_mib", mib(brokers.Heap))
}

func mib(b uint64) float64 { return float64(b) / (1 << 20) }

// latency adds the times of single calls, as medians over the repetitions of
// each repetition's quantile.
func (r *Report) latency(prefix string, laps []lap) {
	for _, q := range []struct {
		name string
		of   float64
	}{{"p50_ms", 0.5}, {"p99_ms", 0.99}} {
		r.add(prefix+q.name, each(laps, func(l lap) float64 { return quantile(l.latencies, q.of) })...)
	}
}

// latencyRatios divides what latency added for both ways.
func (r *Report) latencyRatios() {
	for _, q := range []string{"p50", "p99"} {
		ours, _ := r.Value(q + "_ms")
		raw, _ := r.Value("raw_" + q + "_ms")
		if raw > 0 {
			ours /= raw
		}
		r.add(q+"_ratio", ours)
	}
}
