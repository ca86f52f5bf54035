//go:build real

package real

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/testdata/integration/free"
	"plimsoll/testdata/integration/planner"
	"plimsoll/testdata/integration/program"
)

// llamaDir names the folder of what get-llama-server.sh made, with a model.gguf.
const llamaDir = "PLIMSOLL_LLAMA"

// limits are those that a rate is to hold, in ms, for requests of so many tokens.
type limits struct {
	isl, osl  int
	ttft, itl float64
}

func (l limits) args() []string {
	return []string{"--isl", strconv.Itoa(l.isl), "--osl", strconv.Itoa(l.osl), "--ttft", fmt.Sprint(l.ttft), "--itl", fmt.Sprint(l.itl)}
}

// benched is what vllm bench serve says of a load, in ms and requests/s.
type benched struct {
	Prompts  int     `json:"num_prompts"`
	Done     int     `json:"completed"`
	Rate     float64 `json:"request_throughput"`
	Good     float64 `json:"request_goodput"` // within both limits
	MeanTTFT float64 `json:"mean_ttft_ms"`
	P95TTFT  float64 `json:"p95_ttft_ms"`
	MeanTPOT float64 `json:"mean_tpot_ms"`
	P95TPOT  float64 `json:"p95_tpot_ms"`
}

// poisson are arrivals for 40 s.
func (l limits) poisson(rate float64) []string {
	return []string{"--random-input-len", strconv.Itoa(l.isl), "--num-prompts", strconv.Itoa(int(math.Ceil(40 * rate))), "--request-rate", fmt.Sprintf("%.3g", rate)}
}

// streaming are so many requests at a time. A second time the cache holds their prompts but
// for a token. They have no prefix in common: 32 streams that share theirs, and so its KV
// cache in the processor's, have gaps a fifth shorter.
func (l limits) streaming(n int) []string {
	return []string{"--random-input-len", strconv.Itoa(l.isl + 1), "--num-prompts", strconv.Itoa(6 * n), "--max-concurrency", strconv.Itoa(n)}
}

// bench sends a load with vllm bench serve.
func bench(t *testing.T, s server, tokenizer string, l limits, load []string, seed int) (b benched) {
	t.Helper()
	out := t.TempDir()
	args := append([]string{
		"bench", "serve", "--backend", "openai", "--base-url", s.url, "--endpoint", "/v1/completions", "--model", "words", "--tokenizer", tokenizer,
		"--dataset-name", "random", "--random-output-len", strconv.Itoa(l.osl), "--ignore-eos",
		"--seed", strconv.Itoa(seed),
		"--goodput", fmt.Sprintf("ttft:%v", l.ttft), fmt.Sprintf("tpot:%v", l.itl), "--percentile-metrics", "ttft,tpot", "--metric-percentiles", "95",
		"--save-result", "--result-dir", out, "--result-filename", "out.json", "--disable-tqdm",
	}, load...)
	if seed == 1 {
		t.Logf("vllm %s", strings.Join(args, " "))
	}
	c := exec.CommandContext(t.Context(), filepath.Join(dir(t, vllmDir), "bin", "vllm"), args...)
	c.Env = append(os.Environ(), vllmEnv(t)...)
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("vllm bench serve: %v\n%s", err, said)
	}
	text, err := os.ReadFile(filepath.Join(out, "out.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// tally is how many observations of an engine's histogram there are, and how many below
// some milliseconds, which must be a bucket's bound.
type tally struct{ all, below float64 }

func tallied(t *testing.T, s server, family string, ms float64) (c tally) {
	t.Helper()
	text, err := planner.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(family+`_bucket\{.*le="([^"]*)".*\} (\S+)`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		if le, _ := strconv.ParseFloat(m[1], 64); math.IsInf(le, 1) {
			c.all += n
		} else if le == ms/1000 {
			c.below += n
		}
	}
	return c
}

// within is the share of an engine's own observations below a limit since an earlier count.
func (c tally) within(t *testing.T, s server, family string, ms float64) float64 {
	now := tallied(t, s, family, ms)
	return (now.below - c.below) / (now.all - c.all)
}

const (
	ttfts = "vllm:time_to_first_token_seconds"
	tpots = "vllm:request_time_per_output_token_seconds"
)

// heldByOthers profiles a server and sends it loads of an independent client at the lower
// end of the rate's interval and at 1.25 times the upper one, in turn. The engine's own
// histograms decide where it has them, as client and engine share the cores.
func heldByOthers(t *testing.T, s server, tokenizer string, l limits, histograms bool) {
	t.Helper()
	p := profileFor(t, 0, l.args(), append(aggregated, "--endpoint", s.url, "--max-in-flight", "64", "--max-time", maxTime)...)
	low, high := p.rec.Aggregated.RateInterval.Low, p.rec.Aggregated.RateInterval.High
	if low <= 0 || high <= 0 {
		t.Fatalf("at least %v, at most %v requests/s", low, high)
	}
	const runs, most = 5, 1
	held, above := 0, 0
	for run := range runs {
		for _, rate := range []float64{low, 1.25 * high} {
			var ttft, tpot tally
			if histograms {
				ttft, tpot = tallied(t, s, ttfts, l.ttft), tallied(t, s, tpots, l.itl)
			}
			b := bench(t, s, tokenizer, l, l.poisson(rate), run+1)
			holds := b.P95TTFT <= l.ttft && b.P95TPOT <= l.itl
			text := fmt.Sprintf("%.2f/s, %d of %d: p95 TTFT %.0f ms, TPOT %.1f ms, %.1f %% within both", rate, b.Done, b.Prompts, b.P95TTFT, b.P95TPOT, 100*b.Good/b.Rate)
			if histograms {
				first, per := ttft.within(t, s, ttfts, l.ttft), tpot.within(t, s, tpots, l.itl)
				holds = first >= 0.95 && per >= 0.95
				text += fmt.Sprintf("; by the engine %.1f %% within TTFT, %.1f %% within TPOT", 100*first, 100*per)
			}
			t.Logf("%s: holds %v", text, holds)
			if holds && rate == low {
				held++
			} else if holds {
				above++
			}
		}
	}
	t.Logf("at %.2f/s held in %d of %d runs, at %.2f/s in %d", low, held, runs, 1.25*high, above)
	if held < runs-most || above > most {
		t.Error("the client says otherwise than the profile")
	}
}

func TestClientPaced(t *testing.T) {
	heldByOthers(t, paced(t, 10, 200*time.Millisecond, 20*time.Millisecond), model(t, "words"), limits{isl: 32, osl: 32, ttft: 250, itl: 30}, false)
}

func TestClientLlamaCpp(t *testing.T) {
	address := free.Address(t)
	_, port, _ := strings.Cut(address, ":")
	llama := dir(t, llamaDir)
	s := server{program.StartOther(t, nil, filepath.Join(llama, "llama-server"), "-m", filepath.Join(llama, "model.gguf"), "--alias", "words",
		"--host", "127.0.0.1", "--port", port, "-np", "6", "-c", "6144", "--poll", "0", "--metrics", "--offline", "--no-ui"), "http://" + address}
	s.wait(t, "/health")
	heldByOthers(t, s, tinyTokenizer(t), limits{isl: 256, osl: 32, ttft: 2000, itl: 100}, false)
}

// tinyTokenizer is a folder with a tokenizer of which each word is one token of
// make_gguf.py's too.
func tinyTokenizer(t *testing.T) string {
	t.Helper()
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	vocab := map[string]int{}
	for _, a := range consonants {
		for _, b := range vowels {
			for _, c := range consonants {
				for _, d := range "ao" {
					vocab[string([]rune{a, b, c, d})] = len(vocab)
				}
			}
		}
	}
	dir := t.TempDir()
	for name, content := range map[string]any{
		"tokenizer.json": map[string]any{
			"version": "1.0", "added_tokens": []any{}, "pre_tokenizer": map[string]string{"type": "Whitespace"},
			"model": map[string]any{"type": "WordLevel", "vocab": vocab, "unk_token": "baba"},
		},
		"tokenizer_config.json": map[string]string{"tokenizer_class": "PreTrainedTokenizerFast"},
	} {
		b, err := json.Marshal(content)
		write(t, filepath.Join(dir, name), b, err)
	}
	return dir
}

func TestClientVLLM(t *testing.T) {
	l := limits{isl: 256, osl: 32, ttft: 1500, itl: 80}
	s := serve(t, "words", "--custom-histogram-buckets", fmt.Sprintf(`{"time_to_first_token": [%v], "inter_token_latency": [%v]}`, l.ttft/1000, l.itl/1000))
	heldByOthers(t, s, model(t, "words"), l, true)
}

// The picks of the two phases held against the client. At prefill's rate, prompts of one
// output token have a mean TTFT within the limit. As many requests as decode has in flight
// have about its ITL, and a quarter more than the fewest that missed the limit miss it too.
func TestClientPhases(t *testing.T) {
	l := limits{isl: 256, osl: 32, ttft: 1500, itl: 60}
	s := serve(t, "words")
	p := profileFor(t, 0, l.args(), "--endpoint", s.url, "--max-in-flight", "64", "--endpoint-gpus", "1", "--max-time", "100s")
	pick, missed := p.rec.Decode, 64
	for _, x := range p.run.Points {
		if x.Phase == profile.Decode && x.Stage == profile.StageSweep && x.TPOT.Mean.Seconds()*1000 > l.itl {
			missed = min(missed, x.Asked)
		}
	}
	// Loads of two seconds on two cores of a virtual machine differ by a tenth.
	const runs, most, about = 3, 1, 0.15
	prefill, near, above := 0, 0, 0
	for run := range runs {
		one := limits{isl: l.isl, osl: 1, ttft: l.ttft, itl: l.itl}
		b := bench(t, s, model(t, "words"), one, one.poisson(p.rec.Prefill.SustainedRPS), 10+run)
		t.Logf("prefill at %.2f/s: mean TTFT %.0f ms", p.rec.Prefill.SustainedRPS, b.MeanTTFT)
		if b.MeanTTFT <= l.ttft {
			prefill++
		}
	}
	for seed, n := range []int{int(pick.InFlight), missed * 5 / 4} {
		for run := range runs + 1 {
			b := bench(t, s, model(t, "words"), l, l.streaming(n), seed+1)
			t.Logf("%d in flight: mean TPOT %.1f ms", n, b.MeanTPOT)
			switch {
			case run == 0: // it filled the cache
			case seed == 0 && math.Abs(b.MeanTPOT/pick.ITLMillis-1) < about:
				near++
			case seed == 1 && b.MeanTPOT > l.itl:
				above++
			}
		}
	}
	t.Logf("the pick for decode has %.1f ms at %.1f in flight, the client about as much in %d of %d runs; with %d the limit is missed in %d", pick.ITLMillis, pick.InFlight, near, runs, missed*5/4, above)
	if least := runs - most; prefill < least || near < least || above < least {
		t.Error("the client says otherwise than the profile")
	}
}
