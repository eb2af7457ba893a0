package eval

import (
	"slices"

	"mulligan/examples/shop/corpus"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// policies are what holds for the calls of each tool.
type policies struct {
	document recovery.Document
	deciders map[string]*recovery.Decider // by tool
}

// newPolicies makes a decider for each tool that has a failure.
func newPolicies(c Config) (*policies, error) {
	p := &policies{document: c.Policies, deciders: make(map[string]*recovery.Decider)}
	for _, call := range corpus.Calls(c.Runs) {
		if !call.IsError || p.deciders[call.Tool] != nil {
			continue
		}
		if _, _, err := c.Policies.Effective(queue, call.Tool, nil); err != nil {
			return nil, err
		}
		policy := p.of(call.Tool)
		strategy, err := policy.Choose(nil)
		if err != nil {
			return nil, err
		}
		if p.deciders[call.Tool], err = recovery.NewDecider(c.Reflector, strategy, policy); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// queue is where a tool is that says nothing else.
const queue = "default"

// of is the policy for a tool. Nobody looks at a delay, so that it has no
// jitter.
func (p *policies) of(tool string) recovery.Policy {
	policy, _, err := p.document.Effective(queue, tool, nil)
	if err != nil { // of another tool than those that newPolicies has seen
		policy = recovery.ServicePolicy()
	}
	policy.Jitter = 0
	return policy
}

// over gives tools the effects that they would be called with.
func (p *policies) over(tools []messages.ToolSpec) []messages.ToolSpec {
	if !p.document.Overrides("effect") {
		return tools
	}
	out := slices.Clone(tools)
	for i := range out {
		if effect := p.of(out[i].Name).Effect; effect != "" {
			out[i].Effect = effect
		}
	}
	return out
}
