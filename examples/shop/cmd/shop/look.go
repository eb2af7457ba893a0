package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"mulligan/examples/shop/effectlog"
	"mulligan/examples/shop/tools"
)

// effectsReport is what `shop effects` prints.
type effectsReport struct {
	Effects int `json:"effects"`
	Calls   int `json:"calls"`
	// Repeated are the calls that took effect more than once.
	Repeated []effectlog.CallID `json:"repeated"`
	Torn     int                `json:"torn"`
}

func effectsCommand(_ context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("effects", flag.ContinueOnError)
	file := flags.String("file", "", "`log` that shop serve --effects wrote")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	if *file == "" {
		fmt.Fprintln(stderr, "shop effects: --file is missing")
		return errUsage
	}
	record, err := effectlog.ReadFile(*file)
	if err != nil {
		return err
	}
	report := effectsReport{
		Effects:  len(record.Effects),
		Calls:    len(record.PerCall()),
		Repeated: record.Repeated(),
		Torn:     record.Torn,
	}
	if report.Repeated == nil {
		report.Repeated = []effectlog.CallID{}
	}
	return json.NewEncoder(stdout).Encode(report)
}

// toolLine is one line of `shop tools`.
type toolLine struct {
	Name        string          `json:"name"`
	Effect      string          `json:"effect"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

func toolsCommand(_ context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("tools", flag.ContinueOnError)
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	lines := json.NewEncoder(stdout)
	lines.SetEscapeHTML(false)
	for _, s := range tools.Tools() {
		if err := lines.Encode(toolLine{s.Name, s.Effect, s.Description, s.Schema}); err != nil {
			return err
		}
	}
	return nil
}
