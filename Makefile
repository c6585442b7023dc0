# Everything a developer types. The logic is in hack/*.sh.
SHELL := bash
.DEFAULT_GOAL := help
export CGO_ENABLED := 0

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{ printf "  %-18s %s\n", $$1, $$2 }'

# Run
.PHONY: build
build: ## build bin/atoll, bin/atoll-syncer, bin/kubectl-atoll, bin/localcluster and bin/kubectl
	@hack/build.sh

.PHONY: quickstart
quickstart: ## start two physical clusters, one server and a sample application; Ctrl-C stops
	@hack/quickstart.sh

.PHONY: quickstart-down
quickstart-down: ## stop the quickstart and remove everything it made
	@hack/quickstart.sh down

.PHONY: smoke
smoke: ## do what the quickstart does, unattended, and check every step
	@hack/smoke.sh

# Test
.PHONY: test
test: ## run the tests that need no root and no minutes each
	@hack/test.sh unit integration e2e

.PHONY: test-unit
test-unit: ## run the tests beside the code
	@hack/test.sh unit

.PHONY: test-integration
test-integration: ## run the tests against the server in process
	@hack/test.sh integration

.PHONY: test-e2e
test-e2e: ## run the tests with real processes and kubectl
	@hack/test.sh e2e

.PHONY: test-long
test-long: ## run those of them that take a minute or more each, as with processes that stop and come back
	@hack/test.sh long

.PHONY: test-real
test-real: ## run the tests with real kubelets, pods and traffic (root, and Debian packages that it names)
	@hack/test.sh real

.PHONY: test-unit-race
test-unit-race: ## run unit tests and simulation with the race detector (needs a C compiler)
	@hack/test.sh race

.PHONY: test-race
test-race: ## run the tests that link the API server with the race detector (compiles Kubernetes once more)
	@hack/test.sh race-server

.PHONY: worlds
worlds: ## run seeded worlds of the simulation, each once (ARGS=20000, or ARGS="1000000 -budget 1h")
	@hack/worlds.sh $(ARGS)

.PHONY: attack
attack: ## attack a server and two physical clusters as a hostile tenant or syncer, and count what held (ARGS="-run webhook")
	@hack/attack.sh $(ARGS)

.PHONY: conformance
conformance: ## judge a logical cluster by upstream's conformance tests (ARGS="-tiers api -shards 3")
	@hack/conformance.sh $(ARGS)

.PHONY: conformance-sample
conformance-sample: ## judge a logical cluster by a sample of them across all tiers, in some minutes
	@hack/conformance.sh -list test/conformance/e2e/sample.txt $(ARGS)

.PHONY: conformance-crds
conformance-crds: ## run upstream's integration tests of custom resources against logical clusters
	@hack/crd-suite.sh $(ARGS)

.PHONY: suites
suites: ## run suites of others against a stock and a logical cluster (ARGS="controller-runtime kubectl")
	@hack/suites.sh $(ARGS)

.PHONY: operators
operators: ## run real operators from the module proxy against logical clusters (ARGS="sample-controller")
	@hack/operators.sh $(ARGS)

.PHONY: soak
soak: ## rounds of work while all processes are stopped again and again, with limits (ARGS=50, 90m or 6h)
	@hack/soak.sh $(ARGS)

.PHONY: bench
bench: ## compare with a stock kube-apiserver, side by side (ARGS="-parts operations")
	@hack/bench.sh $(ARGS)

.PHONY: fuzz
fuzz: ## run each fuzz test for a while (FUZZTIME=30s)
	@hack/fuzz.sh

# Keep in order
.PHONY: generate
generate: ## generate deep copies, clients, apply configurations and OpenAPI
	@hack/generate.sh

.PHONY: lint
lint: ## check style, imports and likely mistakes
	@hack/lint.sh

.PHONY: verify-generated
verify-generated: ## the part of verify that needs no analysis of Kubernetes
	@hack/verify.sh --no-lint

.PHONY: verify
verify: ## check that generated code, go.mod files and style are in order
	@hack/verify.sh

.PHONY: clean
clean: quickstart-down ## remove what was built
	@rm -rf bin .smoke
