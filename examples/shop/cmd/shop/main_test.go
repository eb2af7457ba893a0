package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mulligan/examples/shop/effectlog"
	"mulligan/examples/shop/shopclient"
)

func TestUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "shop serve"},
		{[]string{"help"}, exitOK, "shop serve"},
		{[]string{"buy"}, exitUsage, `unknown command "buy"`},
		{[]string{"serve", "--help"}, exitOK, "fault-before"},
		{[]string{"serve", "--nope"}, exitUsage, "nope"},
		{[]string{"serve", "extra"}, exitUsage, `"extra" is not expected`},
		{[]string{"serve", "--addr", "0.0.0.0:0"}, exitUsage, "not a loopback address"},
		{[]string{"serve", "--addr", ":0"}, exitUsage, "not a loopback address"},
		{[]string{"serve", "--addr", "127.0.0.1"}, exitUsage, "--addr"},
		{[]string{"serve", "--max-runs", "0"}, exitUsage, "--max-runs"},
		{[]string{"serve", "--fault-before", "0.9", "--fault-after", "0.2"}, exitUsage, "more than 1 together"},
		{[]string{"serve", "--fault-retry-after", "1500ms"}, exitFailed, "whole seconds"},
		{[]string{"serve", "--data", missing}, exitFailed, "airline_flights"},
		{[]string{"serve", "--effects", filepath.Join(missing, "x")}, exitFailed, "effect log"},
		{[]string{"serve", "--addr-file", filepath.Join(missing, "x")}, exitFailed, "--addr-file"},
		{[]string{"effects"}, exitUsage, "--file is missing"},
		{[]string{"effects", "--file", missing}, exitFailed, "effect log"},
	} {
		code, stdout, stderr := command(t, c.args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("shop %q: exit %d, %s%s", c.args, code, stdout, stderr)
		}
	}
}

func TestToolsCommand(t *testing.T) {
	code, stdout, stderr := command(t, "tools")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != exitOK || len(lines) != 30 {
		t.Fatalf("exit %d, %d lines, %s", code, len(lines), stderr)
	}
	for _, line := range lines {
		var tool toolLine
		if err := json.Unmarshal([]byte(line), &tool); err != nil || tool.Name == "" || tool.Effect == "" {
			t.Errorf("%v in %s", err, line)
		}
	}
}

func TestServeAndStop(t *testing.T) {
	folder := t.TempDir()
	addrFile := filepath.Join(folder, "addr")
	effects := filepath.Join(folder, "effects.jsonl")
	shop := start(t, "--addr-file", addrFile, "--effects", effects)
	url, err := shopclient.ReadAddress(addrFile)
	if err != nil || url != shop.address.URL || shop.address.PID != shop.command.Process.Pid {
		t.Errorf("the file says %q (%v), the shop %+v", url, err, shop.address)
	}
	client := shop.client(t)
	output, isError, err := client.Call(t.Context(), "r", "c1", "k1", "retail/cancel_pending_order",
		[]byte(`{"order_id":"#W1000001","reason":"no longer needed"}`))
	if err != nil || isError || !strings.Contains(output, `"status": "cancelled"`) {
		t.Errorf("cancelling gives %q, %t, %v", output, isError, err)
	}
	output, isError, err = client.Call(t.Context(), "r", "c2", "", "retail/cancel_pending_order",
		[]byte(`{"order_id":"#W1000001","reason":"no longer needed"}`))
	if err != nil || !isError || output != "Error: non-pending order cannot be cancelled" {
		t.Errorf("cancelling again gives %q, %t, %v", output, isError, err)
	}
	client.Close()
	if code := shop.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("after SIGTERM the exit code is %d: %s", code, shop.stderr)
	}
	code, stdout, stderr := command(t, "effects", "--file", effects)
	if want := `{"effects":1,"calls":1,"repeated":[],"torn":0}` + "\n"; code != exitOK || stdout != want {
		t.Errorf("shop effects: exit %d, %s%s", code, stdout, stderr)
	}
	if left, err := filepath.Glob(addrFile + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What was answered is in the log, even if the shop is killed at once.
func TestKilledShopLeavesWitness(t *testing.T) {
	effects := filepath.Join(t.TempDir(), "effects.jsonl")
	shop := start(t, "--effects", effects)
	client := shop.client(t)
	var mu sync.Mutex
	answered := make(map[effectlog.CallID]bool)
	var wg sync.WaitGroup
	enough := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := effectlog.CallID{Run: fmt.Sprint(w, "/", i), Call: fmt.Sprint("call ", w, "/", i)}
				if _, _, err := certificate(t, client, id); err != nil {
					return
				}
				mu.Lock()
				answered[id] = true
				if len(answered) == 200 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	if code := shop.end(t, syscall.SIGKILL); code != -1 {
		t.Errorf("a killed shop exits with %d", code)
	}
	wg.Wait()
	record, err := effectlog.ReadFile(effects)
	if err != nil {
		t.Fatal(err)
	}
	counts := record.PerCall()
	for id := range answered {
		if counts[id] != 1 {
			t.Errorf("call %v was answered and is in the log %d times", id, counts[id])
		}
	}
}

func certificate(t *testing.T, client *shopclient.Client, id effectlog.CallID) (string, bool, error) {
	return client.Call(t.Context(), id.Run, id.Call, "", "airline/send_certificate", []byte(`{"user_id":"bo_sample_2002","amount":1}`))
}

// Faults strike where the seed says, and the log tells a caller who repeats
// what was ambiguous from one who does not.
func TestFaultsAndWitness(t *testing.T) {
	const calls = 150
	outcome := func(repeatAmbiguous bool) (ends map[string]int, record effectlog.Record) {
		effects := filepath.Join(t.TempDir(), "effects.jsonl")
		shop := start(t, "--effects", effects, "--fault-before", "0.2", "--fault-after", "0.1", "--fault-seed", "42",
			"--fault-timeout", "1ms")
		client := shop.client(t)
		ends = make(map[string]int)
		for i := range calls {
			id := effectlog.CallID{Run: fmt.Sprint("run ", i), Call: fmt.Sprint("call ", i)}
			ends[settle(t, client, id, repeatAmbiguous)]++
		}
		client.Close()
		if code := shop.end(t, syscall.SIGTERM); code != exitOK {
			t.Errorf("the exit code is %d: %s", code, shop.stderr)
		}
		record, err := effectlog.ReadFile(effects)
		if err != nil {
			t.Fatal(err)
		}
		return ends, record
	}

	careful, record := outcome(false)
	if again, _ := outcome(false); fmt.Sprint(again) != fmt.Sprint(careful) {
		t.Errorf("the same course ended as %v, then as %v", careful, again)
	}
	if careful["unknown"] == 0 || careful["done"]+careful["unknown"] != calls {
		t.Errorf("the careful caller ended with %v", careful)
	}
	if repeated := record.Repeated(); len(repeated) != 0 {
		t.Errorf("the careful caller repeated %v", repeated)
	}
	if n := len(record.Effects); n < careful["done"] || n == calls {
		t.Errorf("%d effects for %v", n, careful)
	}
	careless, record := outcome(true)
	if careless["done"] != calls {
		t.Errorf("the careless caller ended with %v", careless)
	}
	if len(record.Repeated()) == 0 || len(record.PerCall()) != calls {
		t.Errorf("the careless caller repeated %v of %d", record.Repeated(), len(record.PerCall()))
	}
}

// settle calls until the end of the call is known, or may not be known.
func settle(t *testing.T, client *shopclient.Client, id effectlog.CallID, repeatAmbiguous bool) string {
	t.Helper()
	for range 100 {
		output, isError, err := certificate(t, client, id)
		var refused *shopclient.RefusedError
		var ambiguous *shopclient.AmbiguousError
		switch {
		case err == nil && !isError:
			return "done"
		case err == nil && strings.Contains(output, "Expecting property name"):
		case err == nil:
			t.Fatalf("call %v: %s", id, output)
		case errors.As(err, &refused):
		case errors.As(err, &ambiguous) && !repeatAmbiguous:
			return "unknown"
		case errors.As(err, &ambiguous):
		default:
			t.Fatalf("call %v: %v", id, err)
		}
	}
	return "endless"
}

func TestDataFolder(t *testing.T) {
	shop := start(t, "--data", filepath.Join("..", "..", "data"))
	output, isError, err := shop.client(t).Call(t.Context(), "r", "c", "", "airline/list_all_airports", []byte(`{}`))
	if err != nil || isError || !strings.HasPrefix(output, `{"SFO"`) {
		t.Errorf("got %q, %t, %v", output, isError, err)
	}
	if code := shop.end(t, os.Interrupt.(syscall.Signal)); code != exitOK {
		t.Errorf("after an interrupt the exit code is %d", code)
	}
}
