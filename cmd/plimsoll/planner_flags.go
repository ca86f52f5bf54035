package main

import "github.com/urfave/cli/v2"

// plannerFlags are of planner serve; all of them are keys of its file, too.
func plannerFlags() []cli.Flag {
	flags := append(deploymentFlags(), ruleFlags()...)
	flags = append(append(flags, targetFlags()...), etcdFlags()[1:]...) // whose first is --namespace
	flags = append(flags, forecastFlags()...)
	flags = append(flags, metricsFlags()...)
	flags = append(flags, environmentFlags()...)
	return append(flags, runningFlags()...)
}

func deploymentFlags() []cli.Flag {
	return append(stringFlags("deployment", [][3]string{
		{"config", "", "YAML `FILE` whose keys are these flags; flags win. A list under deployments: makes several under one budget"},
		{"profile profile-results-dir", "", "`DIR` of profile-sla: engines, SLA, thresholds and surfaces come from it"},
		{"served-model-name model-name", "", "`MODEL` that metrics and the deployment must name (default: the one that is served)"},
		{"mode", "", "`disaggregated|aggregated` (default: the profile's)"},
		{"ttft", "", "TTFT to keep, `ms` (default: the profile's; needed without it, but for --policy load)"},
		{"itl", "", "ITL to keep, each request's mean over its output tokens, `ms` (default: the profile's; needed without it, but for --policy load)"},
		{"sla-stat", "", "what of both is promised: `mean|p50|p90|p95|p99` (default: the profile's, or mean)"},
		{"prefill-engine-num-gpu", "", "`GPUs` of a prefill engine (default: the profile's, or 1)"},
		{"decode-engine-num-gpu", "", "`GPUs` of a decode engine, or of an aggregated one (default: the profile's, or 1)"},
		{"max-gpu-budget", "8", "`GPUs` that are never exceeded; -1: no bound; local workers may have all of --gpus or --slots where this is not given"},
		{"min-gpu-budget", "1", "`GPUs` that are kept at least; -1: no bound; with --min-endpoint 0 none are, where this is not given"},
		{"min-endpoint", "1", "`replicas` of each pool at least; 0 lets pools be switched off when idle, where a frontend or Prometheus sees what comes then"},
		{"max-endpoint", "0", "`replicas` of each pool at most; 0: no bound"},
		{"accept-provenance", "measured", "weakest profile to plan by: `measured|simulated|estimated|published`"},
		{"priority", "0", "among deployments under one budget, higher is served first, `N`"},
		{"weight", "1", "share of the budget among equal priorities, `N`"},
	}), &cli.StringFlag{Name: "namespace", Value: "dynamo", Usage: "`NAME` of the deployment", EnvVars: []string{"DYN_NAMESPACE"}, Category: "deployment"},
		&cli.BoolFlag{Name: "no-operation", Usage: "decide and say so, change nothing; local workers are then only looked at, where no command says how they are started", Category: "deployment"})
}

func ruleFlags() []cli.Flag {
	return append(stringFlags("policy", [][3]string{
		{"policy", "default", "`default|upstream|load`; without --profile it is load"},
		{"adjustment-interval", "", "`seconds` between decisions (default: 30 for load, else 180); the default policy may go up twelve times as often, every 15 s at most"},
		{"metric-pulling-interval", "1", "`seconds` between looks at replicas and gauges"},
		{"on-metrics-loss", "hold", "without metrics: `hold|hold-if-higher`; hold-if-higher scales up to its replicas then, and neither scales down"},
		{"static-prefill", "1", "`replicas` that hold-if-higher has at least"},
		{"static-decode", "1", "`replicas` that hold-if-higher has at least, aggregated ones too"},
		{"decode-kv-scale-up-threshold", "", "load: KV use of decode to grow at, `fraction` (default: the profile's, or 0.9)"},
		{"decode-kv-scale-down-threshold", "", "load: to shrink at, `fraction` (default: the profile's, or 0.5)"},
		{"prefill-queue-scale-up-threshold", "", "load: requests waiting per prefill engine, mean of the interval, to grow at, `N` (default: the profile's, or 0.5)"},
		{"prefill-queue-scale-down-threshold", "", "load: to shrink at, `N` (default: the profile's, or 0.2)"},
		{"startup-time", "120s", "default: `time` from asking for a replica to its serving; where this is not given, the profile's, if its launches were measured, until replicas were seen to start"},
		{"headroom", "2", "default: standard deviations of the forecast's error to size for, `N`"},
		{"scale-down-after", "3m", "default: shrink to the most that was wanted within this `time`, or twice the start-up time, where that is longer; 0: at once"},
		{"scale-to-zero-after", "10m", "default, with --min-endpoint 0: switch off after this `time` without a request"},
		{"max-scale-up", "0", "default: `replicas` more at a time; 0: twice what there is, or 4"},
		{"max-scale-down", "0", "default: `replicas` fewer at a time; 0: half of what there is, or 1"},
		{"min-prefill-decode-ratio", "0", "prefill per decode replica at least, `N`, where bounds and budget allow it; 0: no bound"},
		{"max-prefill-decode-ratio", "0", "likewise at most, `N`"},
	}), &cli.BoolFlag{Name: "no-correction", Usage: "take the profile as it is, whatever is observed", Category: "policy"},
		&cli.BoolFlag{Name: "blocking", Usage: "wait for a scaling to finish before anything else (load always does)", Category: "policy"})
}

func forecastFlags() []cli.Flag {
	return append(stringFlags("forecast", [][3]string{
		{"load-predictor", "", "`arima|constant|kalman|prophet|auto`; auto weighs all by how well they did lately (default: auto, for --policy upstream arima as there)"},
		{"load-prediction-window-size", "50", "`intervals` that a forecast looks back at"},
		{"load-predictor-warmup-trace", "", "`FILE` of arrivals and lengths that came before, gzip or not"},
		{"kalman-q-level", "1", "variance that the level gains per interval, `N`"},
		{"kalman-q-trend", "0.1", "variance that the trend gains per interval, `N`"},
		{"kalman-r", "10", "variance of a measurement, `N`"},
		{"kalman-min-points", "5", "`intervals` before a forecast is more than the last value"},
	}), &cli.BoolFlag{Name: "load-predictor-log1p", Usage: "forecast the logarithm, for spiky loads", Category: "forecast"})
}

func metricsFlags() []cli.Flag {
	prometheus := cli.StringFlag{
		Name: "prometheus-endpoint", Aliases: []string{"metric-pulling-prometheus-endpoint"}, Category: "metrics",
		Usage: "`URL` of Prometheus, which is best to scrape every 5s; where it scrapes more rarely than decisions come, load is seen as of the last four scrapes (default: with worker commands or --metrics-endpoints the engines' own /metrics, else as Dynamo's planner $PROMETHEUS_ENDPOINT, " + localPrometheus + ", or in a cluster the server of the monitoring namespace)",
	}
	return append([]cli.Flag{&prometheus}, stringFlags("metrics", [][3]string{
		{"backend", "vllm", "whose metric names: `vllm|sglang|trtllm|dynamo|auto`; in a replay without --profile and --fit, whose step times"},
		{"prometheus-bearer-token-file", "", "`FILE` with the token that Prometheus asks for"},
		{"metrics-endpoints", "", "without Prometheus: `URLs` as role=URL, separated by commas; local workers are found by themselves"},
		{"metrics-namespace", "", "Prometheus: `NAME` in the metrics' own namespace label (default: all)"},
		{"prefill-selector", "", "Prometheus: `label=value` pairs of the prefill pool's series, separated by commas"},
		{"decode-selector", "", "Prometheus: likewise of the decode pool, or of aggregated engines"},
		{"prefill-queue-metric", "", "without Prometheus: `NAME` of a frontend's gauge of requests waiting for prefill, such as plimsoll_frontend_prefill_queue (default: the engines' own queues)"},
		{"prefill-queue-query", "", "Prometheus: `PromQL` that gives the requests waiting for prefill in all, such as plimsoll_frontend_prefill_queue (default: the engines' own queues)"},
	})...)
}

func environmentFlags() []cli.Flag {
	flags := stringFlags("environment", [][3]string{
		{"environment", "local", "where replicas live: `local|kubernetes|virtual`; virtual writes them into etcd"},
		{"kubeconfig", "", "kubernetes: `FILE` (default: $KUBECONFIG, ~/.kube/config, or the pod's own)"},
		{"context", "", "kubernetes: `NAME` in the kubeconfig"},
		{"kube-namespace", "", "kubernetes: `NAME` (default: the context's)"},
		{"lease", "", "kubernetes: `NAME` of the Lease by which one of several planners acts (default: no election)"},
		{"scaling-max-wait", "1800s", "virtual: `time` that a decision waits for its acknowledgement"},
		{"prefill-command", "", "local: command `TEMPLATE` of a prefill worker, as of profile-sla --command"},
		{"decode-command", "", "local: `TEMPLATE` of a decode worker"},
		{"aggregated-command", "", "local: `TEMPLATE` of an aggregated worker"},
		{"env-from", "", "local: `NAMES` of variables with credentials, separated by commas, that workers take from the planner's own environment; written to no file"},
		{"ready-path", "/health", "local: URL `path` that answers 2xx when a worker is ready"},
		{"ready-timeout", "30m", "local: `time` for a worker to become ready, then another is started in its place"},
		{"stop-grace", "30m", "local: `time` for a stopped worker to finish its requests, at most 24h; then it gets TERM and 30 s later KILL, and requests are lost"},
		{"idle-after", "10m", "local: `time` without a change in its metrics after which a stopped worker counts as idle, whatever its gauges say; more than the longest prompt takes, and for TensorRT-LLM without iteration statistics the longest answer"},
		{"prefill-component", "PrefillWorker", "local: `NAME` of prefill workers in the state file"},
		{"decode-component", "VllmWorker", "local: `NAME` of decode or aggregated workers there"},
		{"gpus", "", "local: `devices` for workers, such as 0-7 (default: all that plimsoll gpus lists)"},
		{"slots", "0", "local: without GPUs, how many GPUs' worth of workers fit, `N`"},
	})
	return append(flags,
		&cli.BoolFlag{Name: "drains-on-term", Usage: "local: a worker that gets TERM takes no new request and finishes what it has (vLLM does not); without it, it gets TERM when it has no request", Category: "environment"},
		&cli.BoolFlag{Name: "stop-workers", Usage: "local: on exit stop the workers too, when their requests are finished or --stop-grace is over; a second signal kills them", Category: "environment"})
}

func runningFlags() []cli.Flag {
	return stringFlags("running", [][3]string{
		{"listen", "127.0.0.1:9085", "`ADDRESS` of the read-only page, metrics and probes; empty: none"},
		{"allow-host", "", "`NAMES` by which a browser may reach the planner, separated by commas (addresses and localhost always may)"},
		{"state-file", "", "`FILE` that remembers over a restart (default: in $XDG_STATE_HOME/plimsoll); none: nothing"},
		{"event-log", "", "`FILE` that every event is appended to, as a line of JSON"},
		{"log-dir", "", "`DIR` for TensorBoard"},
		{"start-timeout", "5m", "`time` that the deployment has to be there"},
	})
}
