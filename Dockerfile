# plimsoll in an image that holds nothing else but the authorities of TLS: for
# `planner serve`, `capacity` and profiles of an --endpoint. A profile that launches
# an engine runs in that engine's own image, with the program copied into it; so does
# what asks NVML, with the linux_amd64 release instead of this static one.
#
#   docker build --build-arg VERSION=v1 -t plimsoll:v1 .
#
# BASE may be a distroless image that is your own registry's.
ARG BASE=scratch

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$VERSION" -o /plimsoll ./cmd/plimsoll

FROM $BASE
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build /plimsoll /plimsoll
USER 65532:65532
ENTRYPOINT ["/plimsoll"]
