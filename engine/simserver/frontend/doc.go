// Package frontend is a router in front of several OpenAI-compatible engines. It
// takes the workers that there are, as often as they change, and requests over
// HTTP; it gives each request to the least loaded worker that is ready, passes
// its answer on as it comes, and counts what a client sees in Prometheus metrics
// under the names of NVIDIA Dynamo's frontend. It refuses a request where no
// worker is to be had in time, and answers with the worker's own refusals.
//
// The least loaded worker has the fewest requests, and a request without a token
// counts as four: LeastLoaded of engine/sim/fleet, with which plans are sized. An
// answer that is not streamed counts as four until it ends. Ties go to the worker
// whose last request is oldest.
//
// # Aggregated
//
// A request goes to one worker. Its body goes as it came, but a stream is asked
// for its usage, which the client gets only where it asked for it too.
//
// # Prefill and decode apart
//
// With a prefill and a decode worker ready, requests go through both; aggregated
// workers serve where one of the two kinds is missing. Requests wait in one FIFO
// queue, from which each prefill worker takes Options.PrefillConcurrency at a
// time. It is asked for one token, and answers with kv_transfer_params, which the
// least loaded decode worker gets with the request. As with vLLM's own routers, the
// client gets the decode worker's answer alone, from its first token on, also where it
// asks for one token only: TTFT has the transfer and the first decode step in it, as in
// engine/sim/fleet.
//
// # Workers that go
//
// A worker that drains or is gone gets no new requests; what it has goes on. One
// that refuses, before any byte of its answer, is left alone for a moment, and
// the request goes elsewhere. After the first byte nothing is tried again: the
// stream ends with an error event, without [DONE], and its connection breaks off.
//
// A worker whose /health has not answered, or has answered with an error, for
// Options.LostAfter gets no requests until it answers. If it gives no sign of life, the
// requests that it has left without a byte for that long go elsewhere, and streams that
// it has left in the middle end with an error. One that refuses connections may drain, and keeps the requests without
// a token. Any request ends with an error where nothing came for Options.WorkerTimeout.
package frontend
