# nova: every target is a short one; `make help` lists them.
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

generate: ## write the protobuf code again from libs/api/proto
	cd tools && GOWORK=off go run ./protogen ../libs/api/proto ../libs/api

.PHONY: help generate
