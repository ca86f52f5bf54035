#!/usr/bin/env bash
# VictoriaMetrics 1.148.9, built from its Go module, beside the PromQL of Prometheus 3.16
# (Go module v0.316.0), Linux.
#
# VictoriaMetrics takes increase(x[range]) from the last sample before the range and does not
# extrapolate; Prometheus takes the samples in the range and extrapolates to its ends. In both
# a range leaves its beginning out. Over whole scrape intervals the two say the same. A range a
# little longer has in VictoriaMetrics a whole scrape interval more where it begins just before
# a sample. So what asks for [30s1ms], to have the sample at the beginning as Prometheus 2 has
# it in [30s], and divides by 30 s gets a rate a sixth too high at the instants of samples; an
# increase over [12s] is a quarter too high or a sixth too low. rate() is the same in both.
#
# Seen, samples each 5 s, at the instant of a sample and 3 s later:
#   increase(x[30s])      Prometheus 30.0 30.0  VictoriaMetrics 30.0 30.0
#   increase(x[30s1ms])   Prometheus 30.0 30.0  VictoriaMetrics 35.0 30.0
#   increase(x[34s])      Prometheus 34.0 34.0  VictoriaMetrics 35.0 35.0
#   increase(x[12s])      Prometheus 12.0 12.0  VictoriaMetrics 15.0 10.0
#   rate(x[30s1ms])       Prometheus 1.0 1.0  VictoriaMetrics 1.0 1.0
#
# Exits 0 where it is still so, 1 where it is not, 2 where it could not be tried.
set -euo pipefail
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
cannot() { tail -n 5 "$dir"/*.log >&2; exit 2; }
export GOFLAGS="" GOWORK=off CGO_ENABLED=0
victoria=github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics
(mkdir "$dir/build" && cd "$dir/build" && go mod init build && go get $victoria@v1.148.9 &&
	go build -trimpath -ldflags '-s -w' -o "$dir/victoria-metrics" $victoria) >"$dir/go.log" 2>&1 || cannot

mkdir "$dir/promql"
cat >"$dir/promql/main.go" <<'GO'
// Prints the values of a query at instants, over samples as VictoriaMetrics gets them.
// usage: promql DATA_DIR BEGIN QUERY SECONDS…
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
	seconds, err := strconv.ParseInt(os.Args[2], 10, 64)
	check(err)
	begin := time.Unix(seconds, 0)
	db, err := tsdb.Open(os.Args[1], nil, nil, tsdb.DefaultOptions(), nil)
	check(err)
	samples := db.Appender(ctx)
	for s := range int64(61) {
		_, err := samples.Append(0, labels.FromStrings("__name__", "x"), begin.Unix()*1000+s*5000, float64(5*s))
		check(err)
	}
	check(samples.Commit())
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	for _, at := range os.Args[4:] {
		s, err := strconv.Atoi(at)
		check(err)
		query, err := engine.NewInstantQuery(ctx, db, nil, os.Args[3], begin.Add(time.Duration(s)*time.Second))
		check(err)
		v, err := query.Exec(ctx).Vector()
		check(err)
		fmt.Println(v[0].F)
	}
	check(db.Close())
}
GO
(cd "$dir/promql" && go mod init promql && go get github.com/prometheus/prometheus/{promql,tsdb}@v0.316.0 && go build -o "$dir/prom" .) >>"$dir/go.log" 2>&1 || cannot

port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
"$dir/victoria-metrics" -storageDataPath="$dir/data" -httpListenAddr="127.0.0.1:$port" >"$dir/victoria.log" 2>&1 &
pids+=($!)
cat >"$dir/ask.py" <<'PY'
import json, subprocess, sys, time, urllib.parse, urllib.request

dir, url = sys.argv[1], "http://127.0.0.1:" + sys.argv[2]
begin = int(time.time() - 900) // 5 * 5
instants = ["290", "293"]


def get(path, data=None, **args):
    return urllib.request.urlopen(url + path + "?" + urllib.parse.urlencode(args), data, timeout=10).read()


def victoria(query, at):
    result = json.loads(get("/api/v1/query", query=query, time=begin + int(at), nocache=1))["data"]["result"]
    return float(result[0]["value"][1])


def prometheus(query):
    words = [dir + "/prom", dir + "/tsdb-" + str(time.monotonic_ns()), str(begin), query, *instants]
    return map(float, subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout.split())


for _ in range(100):
    try:
        get("/health")
        break
    except OSError:
        time.sleep(0.2)
get("/api/v1/import/prometheus", "".join("x %d %d\n" % (s, 1000 * (begin + s)) for s in range(0, 301, 5)).encode())
get("/internal/force_flush")
time.sleep(1)
for query in "increase(x[30s])", "increase(x[30s1ms])", "increase(x[34s])", "increase(x[12s])", "rate(x[30s1ms])":
    print("%-21s Prometheus %.1f %.1f  VictoriaMetrics %.1f %.1f" % (query, *prometheus(query), *(victoria(query, at) for at in instants)))
PY
echo "VictoriaMetrics 1.148.9, Prometheus 3.16"
python3 "$dir/ask.py" "$dir" "$port" >"$dir/seen" 2>"$dir/ask.log" || cannot
cat "$dir/seen"
sed -n 's/^#   //p' "$0" | cmp -s - "$dir/seen"
