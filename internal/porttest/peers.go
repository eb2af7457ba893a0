package porttest

import (
	"context"
	"fmt"
	"slices"
)

func peerCases() []Case {
	return []Case{{"what is told is heard by all, in order, and by nobody of another topic", toldHeard}}
}

func toldHeard(e *Env) {
	const n = 20
	hear := func(topic string) <-chan string {
		ready, heard := make(chan struct{}), make(chan string, 2*n)
		e.background(func(ctx context.Context) error {
			return e.B.Hear(ctx, topic, func() { close(ready) }, func(b []byte) { heard <- string(b) })
		})
		wait(e, "hearing", ready)
		return heard
	}
	first, second, other := hear("a"), hear("a"), hear("b")
	var told []string
	for i := range n {
		told = append(told, fmt.Sprint(i))
		e.must(e.B.Tell("a", []byte(told[i])))
	}
	e.must(e.B.Tell("b", []byte("last")))
	for _, who := range []<-chan string{first, second} {
		var got []string
		for range n {
			got = append(got, wait(e, "a word", who))
		}
		if !slices.Equal(got, told) {
			e.Errorf("heard %q, want %q", got, told)
		}
	}
	if got := wait(e, "the word of the other topic", other); got != "last" {
		e.Errorf("heard %q on another topic", got)
	}
}
