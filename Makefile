# build        the program, in bin/
# gate         what every change must pass, in minutes
# check        tidy modules, the build without cgo, linters, races
# guide        the commands of README and docs/guide.md, as written, in real time
# integration  the same product against real servers that this project did not write
# full         all of the above and the tests tagged full: before a release
# real         the product against vLLM on the CPU and Dynamo: make real CASE=TestDynamo
# bench        every Go benchmark, six times, for benchstat
# release      archives for every system in dist/, with checksums
# fmt          format everything
# fit          refit the operators' curves from the measured kernels in TABLES
# accuracy     refit the latency model from the measured rows in ROWS, and say how far off it is
# lines        lines of Go by room, without tests and of tests

GOLANGCI_VERSION := v2.15.0
CACHE            ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plimsoll
TOOLS            := $(CACHE)/tools/$(GOLANGCI_VERSION)
GOLANGCI         := $(TOOLS)/golangci-lint
VERSION          ?= $(shell git describe --tags --always --dirty 2>/dev/null)

# go-nvml's C header marks old functions deprecated, page by page.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

.PHONY: build gate check guide integration real full fmt fit accuracy lines bench release lint race tidy nocgo

build:
	go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/plimsoll ./cmd/plimsoll

gate:
	.ci/run

check: tidy nocgo lint race

# The race detector can find something only where goroutines run: in packages that
# start some, or whose tests do. One package at a time: cmd/plimsoll's engines and
# clients, slowed down too, need the cores.
STARTS     := (^|[[:space:]])go (func|[a-zA-Z_.]+)\(|\.Go\(|httptest\.
CONCURRENT  = $(sort $(dir $(shell grep -rlE --include='*.go' --exclude-dir=testdata '$(STARTS)' .)))

race:
	go test -race -shuffle=on -p 1 -timeout 30m $(CONCURRENT)

lint: $(GOLANGCI)
	$(GOLANGCI) run ./...

# -diff prints what tidying would change, and changes nothing.
tidy:
	go mod tidy -diff
	go -C testdata/integration mod tidy -diff

# -trimpath, because releases are built so: what is built here is not built again there.
nocgo:
	CGO_ENABLED=0 go build -trimpath ./...

guide:
	go test -count=1 -timeout 30m -tags full -run '^(TestReadme|TestGuide)$$' -v ./cmd/plimsoll

full: gate check guide integration
	go test -count=1 -timeout 4h -tags full -skip '^(TestReadme|TestGuide)$$' ./...

fmt: $(GOLANGCI)
	$(GOLANGCI) fmt ./...

fit:
	go run ./engine/operator/fit -tables $(TABLES)

accuracy:
	go run ./engine/accuracy/fit -rows $(ROWS)

bench:
	GOGC=100 go test -run '^$$' -bench . -benchmem -count 6 ./...

release:
	deploy/release.sh $(VERSION) dist

integration: build
	testdata/integration/run.sh bin/plimsoll $(CACHE)/integration

real: build
	testdata/integration/real.sh bin/plimsoll $(CACHE)/real $(CASE)

$(GOLANGCI):
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

lines:
	@printf '%-14s %7s %7s\n' room code tests
	@git ls-files -z '*.go' | xargs -0 wc -l | awk '$$2 != "total" { room = "."; if (index($$2, "/")) { split($$2, path, "/"); room = path[1] } \
		n[room, $$2 ~ /_test\.go$$/] += $$1; n["all", $$2 ~ /_test\.go$$/] += $$1; rooms[room]; rooms["all"] } \
		END { for (room in rooms) printf "%-14s %7d %7d\n", room, n[room, 0], n[room, 1] }' | sort -k 2n
