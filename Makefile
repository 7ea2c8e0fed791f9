# nova: each target is short, and `make help` lists them.
.DEFAULT_GOAL := help

# Every module of the workspace, each of which also builds alone.
MODULES := $(shell sed -n 's|^\t\./||p' go.work)
BINARIES := nova novactl sequencer placer gateway
VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)
GOFLAGS_BUILD := -trimpath -ldflags "-X nova.internal/libs/runtime.version=$(VERSION)"

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

run: bin/nova ## start the whole fleet in one process, data under ./.nova
	bin/nova

demo: bin/nova ## a fleet, real input, handoffs under load and a byte-for-byte check, in under a minute
	go run ./e2e/demo --nova bin/nova

test: vet build unit race e2e-fast ## everything that needs no Docker (the one test command)

vet: ## go vet and gofmt over every module
	@unformatted=$$(gofmt -l $(MODULES) tools); [ -z "$$unformatted" ] || { echo "not formatted:"; echo "$$unformatted"; exit 1; }
	go vet $(addsuffix /...,$(addprefix ./,$(MODULES)))

build: ## build every module alone, outside the workspace
	@for m in $(MODULES); do (cd $$m && GOWORK=off go build ./... ) || { echo "$$m does not build alone"; exit 1; }; done

unit: ## unit tests of every module but e2e
	go test $(addsuffix /...,$(addprefix ./,$(filter-out e2e,$(MODULES))))

race: ## the packages whose work is concurrent, under the race detector
	go test -race $(RACE)
RACE := ./libs/epoch/... ./libs/flightlog/... ./libs/client/... ./services/sequencer/...

e2e-fast: ## the in-process end-to-end tests
	go test -count=1 ./e2e/... # the programs are built by the tests, which the cache does not see

bench: ## measure nova beside the disk, gRPC and JetStream; --only and more by FLAGS='...'
	go run ./bench $(FLAGS)

binaries: $(addprefix bin/,$(BINARIES)) ## build every binary into bin/

bin/%: FORCE
	@mkdir -p bin
	go build $(GOFLAGS_BUILD) -o $@ ./services/$*

generate: ## write the protobuf code again from libs/api/proto
	cd tools && GOWORK=off go run ./protogen ../libs/api/proto ../libs/api

tidy: ## tidy every module
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

clean: ## remove what was built
	rm -rf bin

FORCE:
.PHONY: help run demo test vet build unit race e2e-fast bench binaries generate tidy clean FORCE
