package messages

// Usage is what asking a model about a failure took. The zero value is nothing.
type Usage struct {
	Model        string `json:"model,omitempty"`
	Requests     int    `json:"requests"` // also those that failed
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	// CostMicros is the price in millionths of the currency that the prices of
	// the configuration are in; 0 when it knows none.
	CostMicros int64 `json:"cost_micros,omitempty"`
}

// Tokens are those of both directions.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Plus adds up. The model is kept where both name the same.
func (u Usage) Plus(v Usage) Usage {
	switch u.Model {
	case "":
		u.Model = v.Model
	case v.Model:
	default:
		if v.Model != "" {
			u.Model = ""
		}
	}
	u.Requests += v.Requests
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CostMicros += v.CostMicros
	return u
}

// Fault says whose a failure is, as far as an analysis tells. A breaker does
// not count what was the call's (S8.2).
type Fault string

// The faults; the empty one is not known.
const (
	FaultCall Fault = "call" // the call was wrong; the tool is well
	FaultTool Fault = "tool" // the tool, or what stands behind it, is ill
)

// UnmarshalText refuses an unknown value; the empty one is not known.
func (f *Fault) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*f = ""
		return nil
	}
	return parseEnum("fault", f, text, []Fault{FaultCall, FaultTool})
}
