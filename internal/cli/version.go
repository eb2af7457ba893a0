package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"mulligan/pkg/messages"
)

// build is what is known about how a program was made.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Wire     string `json:"wire"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() build {
	b := build{Version: "unknown", Wire: messages.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  " + a.program + " version -o json", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if a.json() {
				return a.printJSON(b)
			}
			_, err := fmt.Fprintf(a.Out, "%s %s (wire %s, %s, %s)\n", a.program, b.Version, b.Wire, b.Go, b.Platform)
			return err
		},
	}
}
