package binding

import (
	"context"
	"errors"
	"net/http"

	"mulligan/examples/shop/shopclient"
	"mulligan/pkg/tool"
)

// failure says what the shop's silence or refusal means to Mulligan (S6.1,
// S7.3). The client's errors tell apart what may have had an effect.
func failure(ctx context.Context, err error) error {
	var refused *shopclient.RefusedError
	var rejected *shopclient.RejectedError
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests:
		return tool.RateLimited(err, refused.RetryAfter)
	case errors.As(err, &refused):
		return tool.Unavailable(err, refused.RetryAfter)
	case errors.As(err, &rejected) && aboutInput(rejected.Status):
		return tool.Invalid(err)
	case errors.As(err, &rejected):
		return tool.Definite(err) // this is no shop, or not one that we know
	case ctx.Err() != nil:
		return err // the worker knows why it ended, and that this is ambiguous
	}
	return tool.ConnectionLost(err)
}

// aboutInput says whether other arguments could change the shop's mind; 0 stands
// for a request that could not even be written.
func aboutInput(status int) bool {
	return status == 0 || status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge
}
