# `make` lists the targets.

.DEFAULT_GOAL := help
.PHONY: help serve test check lint bench tidy

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: ## run the example API (ARGS="--help" shows its flags)
	go run ./cmd/ichido serve $(ARGS)

test: ## check everything and run all tests with the race detector (ARGS="-run Name" for some)
	scripts/test.sh $(ARGS)

check: ## format, vet, staticcheck, dependencies
	scripts/check.sh

lint: check ## the same as check

bench: ## run all comparisons and write bench/report.* (50 min; ARGS="--quick" for some seconds each)
	go run ./bench --all --json bench/report.json --markdown bench/report.md --report bench/report.html $(ARGS)

tidy: ## go mod tidy in every module
	scripts/tidy.sh $(ARGS)
