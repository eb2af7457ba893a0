package gateway

import (
	"net/http"
	"slices"
	"strings"
)

// route is one thing that can be asked. The document of OpenAPI has the same
// ones, which a test holds.
type route struct {
	pattern string // as of [http.ServeMux]
	open    bool   // also to who shows no token
	handle  func(x *exchange) error
}

func (g *Gateway) table() []route {
	return []route{
		{"GET /v1/health", true, (*exchange).health},
		{"GET /v1/openapi.json", true, (*exchange).openapi},
		{"POST /v1/calls", false, (*exchange).postCall},
		{"GET /v1/calls/{run}/{call}", false, (*exchange).getCall},
		{"GET /v1/calls/{run}/{call}/story", false, (*exchange).getStory},
		{"POST /v1/calls/{run}/{call}/cancel", false, (*exchange).cancelCall},
		{"POST /v1/batches", false, (*exchange).postBatch},
		{"POST /v1/tool_calls", false, (*exchange).postToolCalls},
		{"GET /v1/inbox", false, (*exchange).getInbox},
		{"POST /v1/inbox/{run}/{call}/answer", false, (*exchange).postAnswer},
		{"GET /v1/runs", false, (*exchange).getRuns},
		{"GET /v1/runs/{run}", false, (*exchange).getRun},
		{"PUT /v1/runs/{run}", false, (*exchange).putRun},
		{"POST /v1/runs/{run}/close", false, (*exchange).closeRun},
		{"GET /v1/runs/{run}/results", false, (*exchange).getResults},
		{"GET /v1/runs/{run}/export", false, (*exchange).exportRun},
		{"POST /v1/runs/{run}/cancel", false, (*exchange).cancelRun},
		{"GET /v1/tools", false, (*exchange).getTools},
		{"POST /mcp", false, (*exchange).postMCP},
	}
}

func (g *Gateway) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range g.table() {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) {
			x := req.Context().Value(exchangeKey{}).(*exchange) //nolint:forcetypeassert // serve puts it there
			x.r = req
			x.failed = x.answer(r)
		})
	}
	mux.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) {
		x := req.Context().Value(exchangeKey{}).(*exchange) //nolint:forcetypeassert // as above
		x.failed = g.nowhere(req)
	})
	return mux
}

func (x *exchange) answer(r route) error {
	if !r.open {
		leave, err := x.admit()
		if err != nil {
			return err
		}
		defer leave()
	}
	return r.handle(x)
}

// nowhere says what is wrong with a request that no route takes.
func (g *Gateway) nowhere(r *http.Request) error {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := g.mux.Handler(other); pattern != "/" {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		return fail(http.StatusNotFound, codeNoSuchPath, "there is nothing at this path; GET /v1/openapi.json lists what there is").about("path", r.URL.Path)
	}
	p := fail(http.StatusMethodNotAllowed, codeBadMethod, "%s is not possible here; use %s", shownMethod(r.Method), strings.Join(allow, " or "))
	p.allow = strings.Join(allow, ", ")
	return p
}

// shownMethod is a method for a text, since a client may send any word.
func shownMethod(m string) string {
	known := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	if slices.Contains(known, m) {
		return m
	}
	return "this method"
}
