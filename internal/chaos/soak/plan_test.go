//go:build linux

package soak

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"mulligan/internal/chaos"
)

// One of each role lives through a soak, and is hurt all the same.
func TestOneOfEachRoleLives(t *testing.T) {
	hurt := make(map[string]map[chaos.Kind]int)
	for seed := range uint64(20) {
		faults := strikes(seed, 20*time.Minute)
		if len(faults) != 119 {
			t.Fatalf("seed %d: %d faults in 20 minutes, want one every ten seconds", seed, len(faults))
		}
		for i, f := range faults {
			if hurt[f.Target] == nil {
				hurt[f.Target] = make(map[chaos.Kind]int)
			}
			hurt[f.Target][f.Kind]++
			if f.At != time.Duration(i+1)*every || f.For >= 4*time.Second || f.For <= 0 {
				t.Fatalf("seed %d: %v", seed, f)
			}
		}
	}
	for _, name := range victims {
		kills := hurt[name][chaos.Kill] + hurt[name][chaos.Restart]
		if len(hurt[name]) == 0 || spared(name) != (kills == 0) {
			t.Errorf("%s: %v", name, hurt[name])
		}
	}
	if kinds := hurt[broker]; len(kinds) != 1 || kinds[chaos.Freeze] == 0 {
		t.Errorf("the broker, which no proxy stands before: %v", kinds)
	}
}

func TestABlockIsTheMixWithoutWhatKillsWorkers(t *testing.T) {
	inputs, runs, padded := make(map[string]bool), make(map[string]bool), 0
	for n := range 20 {
		wishes, err := block(1, n, 50)
		if err != nil {
			t.Fatal(err)
		}
		if len(wishes) != 500 {
			t.Fatalf("block %d has %d calls, want 50 a second for ten", n, len(wishes))
		}
		again, err := block(1, n, 50)
		if err != nil || !reflect.DeepEqual(wishes, again) {
			t.Errorf("block %d is not the same when it is made again: %v", n, err)
		}
		for _, w := range wishes {
			var o chaos.Order
			if err := json.Unmarshal(w.Call.Input, &o); err != nil || o.Die {
				t.Fatalf("%s: %v, dies: %v", w.Call.Ref, err, o.Die)
			}
			if o.Pad != "" {
				padded++
				inputs[string(w.Call.Input)] = true
			}
			if w.Call.Run != "" {
				runs[w.Call.Run] = true
			}
		}
	}
	if padded == 0 || len(inputs) != padded {
		t.Errorf("%d large inputs, %d different", padded, len(inputs))
	}
	if len(runs) != 20*5 || !runs[runOf(7, "run-0")] {
		t.Errorf("%d runs in 20 blocks, want 5 in each", len(runs))
	}
}
