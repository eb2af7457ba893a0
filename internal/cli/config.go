package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mulligan/internal/suggest"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// source is where the value of a flag came from; a higher one wins.
type source int

const (
	fromDefault source = iota
	fromUserFile
	fromFolderFile
	fromEnvironment
	fromFlag
)

const (
	configName = "mulligan.yaml"
	envPrefix  = "MULLIGAN_"
	// noDelimiter stands in no key: keys are the names of flags and never nested.
	noDelimiter = "\x00"
)

// configure gives each flag that was not on the command line its value from
// the environment (MULLIGAN_STORE_LIMIT for --store-limit), else from
// mulligan.yaml in the folder, else from that of the user.
func (a *app) configure(cmd *cobra.Command) error {
	layers := []struct {
		from source
		load func() (*koanf.Koanf, string, error)
	}{
		{fromEnvironment, a.loadEnv},
		{fromFolderFile, func() (*koanf.Koanf, string, error) { return loadFile(filepath.Join(a.Dir, configName)) }},
		{fromUserFile, func() (*koanf.Koanf, string, error) { return loadFile(a.userConfig()) }},
	}
	known := a.knownKeys(cmd.Root())
	values := make([]*koanf.Koanf, len(layers))
	names := make([]string, len(layers))
	for i, l := range layers {
		k, name, err := l.load()
		if err != nil {
			return err
		}
		values[i], names[i] = k, name
		if l.from != fromEnvironment { // others may have variables of this prefix
			if err := checkKeys(name, k, known); err != nil {
				return err
			}
		}
	}
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			a.sources[f.Name] = fromFlag
			return
		}
		for i, l := range layers {
			if !values[i].Exists(f.Name) {
				continue
			}
			if err := setFlag(f, values[i].Get(f.Name)); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", names[i], f.Name, err))
			}
			a.sources[f.Name] = l.from
			return
		}
	})
	return errors.Join(errs...)
}

// setFlag sets a flag from a value of a file; a list goes into a list.
func setFlag(f *pflag.Flag, value any) error {
	if list, ok := value.([]any); ok {
		s, ok := f.Value.(pflag.SliceValue)
		if !ok {
			return errors.New("is a list; give one value")
		}
		var texts []string
		for _, v := range list {
			texts = append(texts, fmt.Sprint(v))
		}
		return s.Replace(texts)
	}
	text := fmt.Sprint(value)
	if err := f.Value.Set(text); err != nil {
		return fmt.Errorf("%q cannot be used: %w", text, err)
	}
	return nil
}

// toldToTools are the variables in which a worker tells a program about its call.
// No flag is set by them: a mulligan that a tool starts would take the call's
// run for its own.
var toldToTools = []string{"MULLIGAN_TOOL", "MULLIGAN_CALL", "MULLIGAN_KEY", "MULLIGAN_ATTEMPT", "MULLIGAN_DISPATCH", "MULLIGAN_RUN", "MULLIGAN_REF", "MULLIGAN_DEADLINE"}

func (a *app) loadEnv() (*koanf.Koanf, string, error) {
	k := koanf.New(noDelimiter)
	p := env.Provider(noDelimiter, env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return a.Env },
		TransformFunc: func(key, value string) (string, any) {
			if slices.Contains(toldToTools, key) {
				return "", nil
			}
			if value == "" {
				return "", nil // as unset, which some who start processes cannot leave it
			}
			return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(key, envPrefix)), "_", "-"), value
		},
	})
	if err := k.Load(p, nil); err != nil {
		return nil, "", fmt.Errorf("environment: %w", err)
	}
	return k, "environment", nil
}

func loadFile(path string) (*koanf.Koanf, string, error) {
	k := koanf.New(noDelimiter)
	if path == "" {
		return k, path, nil
	}
	err := k.Load(file.Provider(path), yaml.Parser())
	if errors.Is(err, fs.ErrNotExist) {
		return k, path, nil
	}
	if err != nil {
		return nil, path, fmt.Errorf("configuration %s: %w", path, err)
	}
	return k, path, nil
}

func (a *app) userConfig() string {
	if dir := a.getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "mulligan", configName)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "" // a user without a home has no configuration
	}
	return filepath.Join(dir, "mulligan", configName)
}

func (a *app) getenv(name string) string {
	for _, e := range slices.Backward(a.Env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// knownKeys are the names of all flags of all programs, since they share a file.
func (a *app) knownKeys(own *cobra.Command) map[string]bool {
	known := make(map[string]bool)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		add := func(f *pflag.Flag) { known[f.Name] = true }
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(own)
	for _, tree := range trees() {
		walk(tree(newApp("", IO{})))
	}
	return known
}

func checkKeys(name string, k *koanf.Koanf, known map[string]bool) error {
	for _, key := range k.Keys() {
		if known[key] {
			continue
		}
		if outer, _, nested := strings.Cut(key, noDelimiter); nested && known[outer] {
			return fmt.Errorf("configuration %s: %s is a mapping; give one value", name, outer)
		}
		if meant := suggest.Meant(key, slices.Sorted(maps.Keys(known))); meant != "" {
			return fmt.Errorf("configuration %s: %q is not known%s", name, key, meant)
		}
		return fmt.Errorf("configuration %s: %q is not known; keys are the names of flags", name, key)
	}
	return nil
}
