package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/lifecycle"
	"mulligan/pkg/tool/mcptool"
)

func mcpFlag(c *cobra.Command, files *[]string) {
	c.Flags().StringSliceVar(files, "mcp", nil, "file with an mcpServers block, whose servers' tools are served; may be given several times")
	_ = c.RegisterFlagCompletionFunc("mcp", jsonFiles)
}

func jsonFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
}

// loadServers reads the MCP servers of files.
func loadServers(files []string) ([]mcptool.Config, error) {
	var out []mcptool.Config
	names, queues := make(map[string]string), make(map[string]string)
	for _, path := range files {
		servers, err := mcptool.Load(path)
		if err != nil {
			return nil, fmt.Errorf("--mcp: %w", err)
		}
		for _, s := range servers {
			queue := s.WithDefaults().Queue
			if other, twice := names[s.Name]; twice {
				return nil, fmt.Errorf("--mcp: %s: server %q is in %s too: give it another name", path, s.Name, other)
			}
			if other, twice := queues[queue]; twice {
				return nil, fmt.Errorf("--mcp: %s: servers %q and %q have the same queue, %q: give each its own", path, other, s.Name, queue)
			}
			names[s.Name], queues[queue] = path, s.Name
		}
		out = append(out, servers...)
	}
	return out, nil
}

func newServers(configs []mcptool.Config, log *slog.Logger) ([]*mcptool.Server, error) {
	var out []*mcptool.Server
	for _, c := range configs {
		s, err := mcptool.New(c, log)
		if err != nil {
			return nil, notFound(fmt.Errorf("--mcp: %w", err))
		}
		out = append(out, s)
	}
	return out, nil
}

// serversPatience is how long a start waits for the first tools of MCP servers;
// those of slower ones come when they come.
const serversPatience = 5 * time.Second

// withServers runs MCP servers for as long as the service that calls them.
func withServers(servers []*mcptool.Server, s service) service {
	if len(servers) == 0 {
		return s
	}
	return lifecycle.New(func(ctx context.Context, started func()) (err error) {
		stopping := context.WithoutCancel(ctx)
		defer func() {
			for _, m := range servers {
				err = errors.Join(err, m.Stop(stopping))
			}
		}()
		for _, m := range servers {
			if err := m.Start(stopping); err != nil {
				return err
			}
		}
		patience, cancel := context.WithTimeout(ctx, serversPatience)
		defer cancel()
		for _, m := range servers {
			select {
			case <-m.Started():
			case <-patience.Done():
			}
		}
		return during(ctx, s, started)
	})
}

// during runs s until ctx is done, or s has ended by itself.
func during(ctx context.Context, s service, started func()) error {
	if err := s.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	for begun := s.Started(); ; {
		select {
		case <-begun:
			started()
			begun = nil
		case <-s.Stopped():
			return s.Err()
		case <-ctx.Done():
			return s.Stop(context.WithoutCancel(ctx))
		}
	}
}

// all makes one service of several. It has started when all have, and ends with
// the first that does.
func all(services []service) service {
	if len(services) == 1 {
		return services[0]
	}
	return lifecycle.New(func(ctx context.Context, started func()) error {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		errs := make([]error, len(services))
		var running, begun sync.WaitGroup
		begun.Add(len(services))
		for i, s := range services {
			running.Go(func() {
				begins := sync.OnceFunc(begun.Done)
				defer begins()
				errs[i] = during(ctx, s, begins)
				stop(lifecycle.ErrStopping)
			})
		}
		running.Go(func() {
			begun.Wait()
			if ctx.Err() == nil {
				started()
			}
		})
		running.Wait()
		return errors.Join(errs...)
	})
}
