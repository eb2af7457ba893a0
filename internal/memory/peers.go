package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
)

// heardMost bounds what was heard and not yet handled; more is lost.
const heardMost = 4096

// listener is one call of Hear.
type listener struct {
	topic string
	heard chan []byte
}

// Tell says something to all who hear the topic now, the teller among them.
func (b *Broker) Tell(topic string, body []byte) error {
	lost, err := b.enter(context.Background(), OpTell, topic)
	if err != nil || lost {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.listeners {
		if l.topic != topic {
			continue
		}
		select {
		case l.heard <- bytes.Clone(body):
		default:
		}
	}
	return nil
}

// Hear calls fn with what is told until ctx is done, and returns its cause.
func (b *Broker) Hear(ctx context.Context, topic string, ready func(), fn func(body []byte)) error {
	if _, err := b.enter(ctx, OpHear, topic); err != nil {
		return err
	}
	l := &listener{topic: topic, heard: make(chan []byte, heardMost)}
	b.mu.Lock()
	b.listeners = append(b.listeners, l)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.listeners = slices.DeleteFunc(b.listeners, func(o *listener) bool { return o == l })
	}()
	ready()
	for {
		select {
		case body := <-l.heard:
			if err := b.faults.wait(ctx); err != nil {
				return err
			}
			fn(body)
		case <-ctx.Done():
			return fmt.Errorf("hear %s: %w", topic, context.Cause(ctx))
		}
	}
}
