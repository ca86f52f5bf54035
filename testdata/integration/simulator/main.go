// Command simulator is llm-d's vLLM simulator on the loopback interface alone.
//
// llm-d's own command (github.com/llm-d/llm-d-inference-sim, cmd/llm-d-inference-sim,
// v0.10.2) listens on every interface and has no flag for another address. This one
// gives its HTTP server a listener on 127.0.0.1; all else is llm-d's: flags,
// configuration, latencies, tokens, KV cache, metrics. A signal ends it at once.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/llm-d/llm-d-inference-sim/pkg/common"
	"github.com/llm-d/llm-d-inference-sim/pkg/communication"
	simulator "github.com/llm-d/llm-d-inference-sim/pkg/llm-d-inference-sim"
	"k8s.io/klog/v2"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "simulator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := common.ParseCommandParamsAndLoadConfig()
	if err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	logger := klog.Background()
	engines, err := simulator.Start(ctx, config, logger)
	if err != nil {
		return fmt.Errorf("starting the engine: %w", err)
	}
	if len(engines) != 1 {
		return fmt.Errorf("%d data-parallel engines: this command serves one", len(engines))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(config.Port)))
	if err != nil {
		return err
	}
	return communication.New(logger, engines[0]).StartHTTPServer(ctx, listener)
}
