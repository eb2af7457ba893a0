package gateway

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
)

// requestID is what is taken over from whoever asks as the id of its request.
var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

const headerRequestID = "X-Request-ID"

// serve is every request: it gets an id, is let in or not, and leaves a line in
// the log.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	x := &exchange{g: g, w: w, r: r, conn: http.NewResponseController(w), id: r.Header.Get(headerRequestID)}
	if !requestID.MatchString(x.id) {
		x.id = uuid.NewString()
	}
	if r.Body != http.NoBody {
		// Also of a body that is not wanted: the server reads on before it answers.
		_ = x.conn.SetReadDeadline(begun.Add(g.cfg.Limits.Stall)) // as in Write
	}
	h := w.Header()
	h.Set(headerRequestID, x.id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, route := g.mux.Handler(r)
	p, err := x.settle(x.guarded())
	x.log(route, begun, p, err)
}

// settle answers with what went wrong, if nothing was answered yet.
func (x *exchange) settle(err error) (*problem, error) {
	if err == nil {
		return nil, nil
	}
	p := problemOf(err)
	if x.status == 0 {
		if x.r.Body != http.NoBody {
			// The server looks for the rest of a body before it sends this, which must not take the time to send it.
			_ = x.conn.SetReadDeadline(time.Now().Add(x.g.cfg.Limits.Stall / 2)) // as in Write
		}
		p.complete(x.id)
		p.send(x)
	}
	return p, err
}

// guarded handles a request, and makes an error of a panic.
func (x *exchange) guarded() (err error) {
	defer func() {
		if v := recover(); v != nil {
			x.g.cfg.Log.Error("a request panicked", "request", x.id, "panic", v, "stack", string(debug.Stack()))
			err = fail(http.StatusInternalServerError, codeInternal, "the gateway failed; its log says why, under this request_id")
		}
	}()
	if err := x.sameSite(); err != nil {
		return err
	}
	select {
	case x.g.slots <- struct{}{}:
		defer func() { <-x.g.slots }()
	default:
		return fail(http.StatusServiceUnavailable, codeBusy, "%d requests are under way, which is the limit; try again in a moment", cap(x.g.slots)).after(retryWhenBusy)
	}
	x.g.mux.ServeHTTP(x, x.r.WithContext(context.WithValue(x.r.Context(), exchangeKey{}, x)))
	return x.failed
}

// exchangeKey is under which a handler finds its exchange.
type exchangeKey struct{}

// sameSite refuses what a browser sends on behalf of another site: CORS is off,
// and where there are no tokens a page of anybody must not reach the pool
// through the browser of who has it on this machine.
func (x *exchange) sameSite() error {
	if err := http.NewCrossOriginProtection().Check(x.r); err != nil {
		return fail(http.StatusForbidden, codeCrossOrigin, "this is a request of a page of another site; the gateway serves none")
	}
	if x.g.cfg.Tokens != nil {
		return nil
	}
	host, _, err := net.SplitHostPort(x.r.Host)
	if err != nil {
		host = strings.Trim(x.r.Host, "[]")
	}
	if !loopback(host) {
		return fail(http.StatusForbidden, codeForeignHost, "without tokens the gateway answers to the names of this machine alone; ask 127.0.0.1 or localhost").about("Host", x.r.Host)
	}
	return nil
}

// admit finds out who asks, and whether it may now.
func (x *exchange) admit() (leave func(), err error) {
	if x.who, err = x.g.known(x.r); err != nil {
		return nil, err
	}
	if r := x.who.rate.Reserve(); r.Delay() > 0 {
		wait := r.Delay()
		r.Cancel()
		return nil, fail(http.StatusTooManyRequests, codeTooManyAsked, "token %s may ask %g times a second", x.who.Name, x.who.Rate).after(wait)
	}
	select {
	case x.who.slots <- struct{}{}:
		return func() { <-x.who.slots }, nil
	default:
		return nil, fail(http.StatusTooManyRequests, codeTooManyAsked, "%d requests of token %s are under way, which is its limit", x.who.AtOnce, x.who.Name).after(retryWhenBusy)
	}
}

// known is whose token a request shows.
func (g *Gateway) known(r *http.Request) (*Token, error) {
	if g.cfg.Tokens == nil {
		return g.nobody, nil
	}
	kind, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") || shown == "" {
		return nil, fail(http.StatusUnauthorized, codeUnauthorized, "no token is shown; give the header Authorization: Bearer TOKEN")
	}
	if k := g.cfg.Tokens.find(shown); k != nil {
		return k, nil
	}
	return nil, fail(http.StatusUnauthorized, codeUnauthorized, "the token that is shown is none of those that may ask here")
}

// log tells of a request: never what it holds, nor what it shows.
func (x *exchange) log(route string, begun time.Time, p *problem, err error) {
	args := []any{"request", x.id, "route", route, "status", x.status, "duration_ms", time.Since(begun).Milliseconds()}
	if x.who != nil {
		args = append(args, "token", x.who.Name)
	}
	switch {
	case err == nil:
		x.g.cfg.Log.Info("request", args...)
	case x.ctx().Err() != nil:
		x.g.cfg.Log.Info("request, and whoever asked is gone", args...)
	case p.Code == codeInternal:
		x.g.cfg.Log.Error("request failed", append(args, "error", err)...)
	default:
		x.g.cfg.Log.Info("request", append(args, "code", p.Code)...)
	}
}
