package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/engine/simserver/frontend"
	"plimsoll/planner/connect/local"
	"plimsoll/planner/connect/virtual"
)

func engineFrontendCommand() *cli.Command {
	s := func(name, def, usage string) cli.Flag { return &cli.StringFlag{Name: name, Value: def, Usage: usage} }
	c := &cli.Command{
		Name: "frontend", Usage: "route requests to several OpenAI-compatible engines, prefill and decode apart or not",
		Description: "Requests go to the least loaded worker that is ready (a request without a token counts as four); with prefill and decode workers they wait in one queue for prefill. " +
			"/metrics speaks as Dynamo's frontend does, /health is 200 where a request would find a worker. " +
			"A worker whose own /health has failed or not answered for 30 s gets no requests until it answers; those that it leaves without a byte go elsewhere. " +
			"TERM takes no more requests, finishes those in flight and exits 0; a second TERM exits at once.\n\n" +
			"   plimsoll engine serve --role prefill --port 8001 &\n" +
			"   plimsoll engine serve --role decode --port 8002 &\n" +
			"   plimsoll engine frontend --workers prefill=http://127.0.0.1:8001,decode=http://127.0.0.1:8002 --port 8000",
		Flags: append([]cli.Flag{
			s("workers", "", "fixed workers, `role=URL,…`, roles aggregated, prefill and decode"),
			s("state-file", "", "without --workers, those in the state `file` of planner serve --environment local (default: that of the namespace); read again when it changes"),
			s("listen", "127.0.0.1", "`address` to listen on"), s("port", "8000", "`port` to listen on; 0 = any free one"),
			s("worker-timeout", short(frontend.DefaultWorkerTimeout), "end a request whose worker sends nothing for this `time`, up to 24h, with an error; the time until the first byte counts, which is all of an answer that is not streamed; 0 = never"),
			s("api-key-file", "", "`file` with the bearer token that /v1 asks for; it goes on to the workers"),
		}, servingFlags()...),
		Action: serveFrontend,
	}
	for _, f := range etcdFlags() {
		if e, ok := f.(*cli.StringFlag); ok && e.Name == "etcd-endpoints" {
			e.Value, e.Usage = "", "without --workers and --state-file, those with a key v1/{namespace}/workers/{name} and JSON role, url there; `URLS` of etcd's members"
		}
		c.Flags = append(c.Flags, f)
	}
	return c
}

// frontendJob is what the flags of engine frontend ask for.
type frontendJob struct {
	opts    frontend.Options
	addr    string
	workers []frontend.Worker // fixed ones
	follow  follower          // where they are not
}

// follower is where workers come and go.
type follower interface {
	Follow(ctx context.Context, to *frontend.Frontend)
}

func serveFrontend(c *cli.Context) error {
	job, err := parseFrontend(c)
	if err != nil {
		return err
	}
	f, err := frontend.New(job.opts)
	if err != nil {
		return err
	}
	if err := endsItself(c.Context); err != nil {
		return err
	}
	ln, err := listenOn(c.Context, job.addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context))
	var follows sync.WaitGroup
	defer follows.Wait()
	defer cancel() // workers are followed while requests are drained
	if job.follow == nil {
		f.SetWorkers(job.workers)
	} else {
		follows.Go(func() { job.follow.Follow(ctx, f) })
	}
	return f.Serve(c.Context, ln)
}

func parseFrontend(c *cli.Context) (frontendJob, error) {
	p := &parser{c: c}
	job := frontendJob{opts: frontend.Options{
		Namespace:     p.name("namespace"),
		WorkerTimeout: p.upTo("worker-timeout", mostDrain),
		Serving:       p.serving(),
		Log:           c.App.ErrWriter,
	}}
	job.addr = net.JoinHostPort(p.name("listen"), itoa(p.integer("port", 0, 65535, 0)))
	list, state := p.name("workers"), p.name("state-file")
	job.opts.APIKey = p.secretFile("api-key-file")
	if p.err != nil {
		return job, p.err
	}
	if c.Bool("quiet") {
		job.opts.Log = nil
	}
	return job, job.findWorkers(c, list, state)
}

// findWorkers is where the workers come from.
func (j *frontendJob) findWorkers(c *cli.Context, list, file string) error {
	if list != "" {
		if file != "" {
			return field.Errorf("--workers and --state-file: want one of them")
		}
		var err error
		if j.workers, err = frontend.ParseWorkers(list); err != nil {
			return field.Errorf("--workers: %v", err).Hint("such as prefill=http://127.0.0.1:8001,decode=http://127.0.0.1:8002")
		}
		return nil
	}
	path, err := local.Path(j.opts.Namespace)
	if err != nil {
		return field.Errorf("--namespace: %v", err)
	}
	if file == "" && c.String("etcd-endpoints") != "" {
		// It lives as long as the program.
		etcd, err := virtual.Dial(etcdOptions(c))
		if err != nil {
			return field.Errorf("--etcd-endpoints: %v", err)
		}
		j.follow = frontend.Leases{Etcd: etcd, Namespace: j.opts.Namespace}
		return nil
	}
	j.follow = frontend.File{Path: cmp.Or(file, path), Read: stateFile}
	return nil
}

// stateFile reads the workers that planner/connect/local keeps.
func stateFile(path string) ([]frontend.Worker, error) {
	list, err := local.Workers(path)
	if err != nil {
		return nil, err
	}
	out := make([]frontend.Worker, len(list))
	for i, w := range list {
		out[i] = frontend.Worker{Name: w.Name, Role: w.Role, URL: strings.TrimRight(w.URL, "/"), State: frontend.State(w.State)}
	}
	return out, nil
}

// listenOn listens, and says what to do where the port is taken.
func listenOn(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil && strings.Contains(err.Error(), "address already in use") {
		return nil, field.WithHint(fmt.Errorf("%s is in use", addr), "choose another --port, or 0 for a free one")
	}
	return ln, err
}
