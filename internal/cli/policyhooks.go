package cli

import (
	"fmt"
	"strconv"

	"mulligan/pkg/hook"
	"mulligan/pkg/recovery"
)

// hooksOf are the hooks of the policies that can be for calls of a tool, in the
// order in which they are asked.
func hooksOf(d recovery.Document, tool string) ([]hook.Rule, error) {
	rules, err := hook.ReadRules(d.Hooks)
	if err != nil {
		return nil, fmt.Errorf("hooks: %w", err)
	}
	return hook.Concerning(rules, tool), nil
}

func (a *app) printHooks(hooks []hook.Rule) error {
	if len(hooks) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(a.Out); err != nil {
		return err
	}
	var rows [][]string
	for _, h := range hooks {
		does := "veto: " + h.Veto
		if h.Veto == "" {
			does = "note: " + h.Note
		}
		rows = append(rows, []string{h.Name, strconv.Itoa(h.Priority), oneLine(h.When, 80), oneLine(does, 80)})
	}
	return table(a.Out, []string{"HOOK", "PRIORITY", "WHEN", "DOES"}, rows)
}
