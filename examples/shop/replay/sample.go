package replay

import (
	"fmt"

	"mulligan/pkg/messages"
)

// Sample makes runs of calls on the shop's own small tables: reading, changing,
// and asking for what is refused. A repetition of any of its changes would show,
// in what the shop answers or in its log.
func Sample(runs int) []messages.Submission {
	type call struct{ tool, input string }
	scripts := [][]call{
		{
			{"retail/find_user_id_by_email", `{"email": "ada.sample@example.com"}`},
			{"retail/get_user_details", `{"user_id": "ada_sample_1001"}`},
			{"retail/get_order_details", `{"order_id": "#W1000001"}`},
			{"retail/cancel_pending_order", `{"order_id": "#W1000001", "reason": "no longer needed"}`},
			{"retail/cancel_pending_order", `{"order_id": "#W1000001", "reason": "no longer needed"}`},
			{"retail/get_order_details", `{"order_id": "#W1000001"}`},
			{"retail/calculate", `{"expression": "12.5 + 12.5 + 59.95"}`},
			{"retail/get_order_details", `{"order_id": "#W0"}`},
		},
		{
			{"airline/get_user_details", `{"user_id": "bo_sample_2002"}`},
			{"airline/search_direct_flight", `{"origin": "SFO", "destination": "DEN", "date": "2024-05-20"}`},
			{"airline/send_certificate", `{"user_id": "bo_sample_2002", "amount": 50}`},
			{"airline/get_reservation_details", `{"reservation_id": "MUL4A1"}`},
			{"airline/send_certificate", `{"user_id": "bo_sample_2002", "amount": 25}`},
			{"airline/cancel_reservation", `{"reservation_id": "MUL4A1"}`},
			{"airline/get_user_details", `{"user_id": "bo_sample_2002"}`},
			{"airline/think", `{"thought": "two certificates, one cancelled flight"}`},
		},
	}
	var out []messages.Submission
	for r := range runs {
		run := fmt.Sprintf("sample/%d", r+1)
		for i, c := range scripts[r%len(scripts)] {
			out = append(out, messages.Submission{Ref: fmt.Sprintf("%s#%d", run, i+1), Run: run, Tool: c.tool, Input: []byte(c.input)})
		}
	}
	return out
}
