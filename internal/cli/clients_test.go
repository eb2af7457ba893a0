//go:build mcpservers

package cli

import (
	"os"
	"testing"
)

// TestForeignClients runs testdata/clients: the pool in the hands of clients of
// MCP that others wrote, as npm has them (make mcpclients).
func TestForeignClients(t *testing.T) {
	if os.Getenv("MULLIGAN_MCP_CLIENTS") == "" {
		t.Fatal("MULLIGAN_MCP_CLIENTS is not set: it names the folder that make mcpclients installs into")
	}
	runScripts(t, "clients")
}
