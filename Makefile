# build        the program, in bin/
# check        what a change must pass: tests, races, linters, formatting, README's commands
# integration  the same product against real servers that this project did not write
# bench        the Go benchmarks
# fmt          format everything
# fit          refit the latency model from its measured rows

GOLANGCI_VERSION := v2.15.0
CACHE            ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plimsoll
TOOLS            := $(CACHE)/tools/$(GOLANGCI_VERSION)
GOLANGCI         := $(TOOLS)/golangci-lint
VERSION          ?= $(shell git describe --tags --always --dirty 2>/dev/null)

# go-nvml's C header marks old functions deprecated, page by page.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

.PHONY: build check fmt fit bench integration lint race tidy nocgo readme

build:
	go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/plimsoll ./cmd/plimsoll

check: tidy nocgo lint race readme

race:
	go test -race -short -shuffle=on -timeout 30m ./...

lint: $(GOLANGCI)
	go vet ./...
	$(GOLANGCI) run ./...

# -diff prints what tidying would change, and changes nothing.
tidy:
	go mod tidy -diff

nocgo:
	CGO_ENABLED=0 go build ./...
	CGO_ENABLED=0 go vet ./...

readme:
	go test -count=1 -tags readme -run TestReadme -v ./cmd/plimsoll

fmt: $(GOLANGCI)
	$(GOLANGCI) fmt ./...

fit:
	go run ./engine/latency/fit

bench:
	go test -run '^$$' -bench . -benchmem ./...

integration: build
	testdata/integration/run.sh bin/plimsoll $(CACHE)/integration

$(GOLANGCI):
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
