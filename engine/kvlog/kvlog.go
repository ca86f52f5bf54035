// Package kvlog finds in an engine's log how many tokens its KV cache holds.
//
// It takes a log and the kinds of line in which an engine states its capacity; it
// gives tokens, over all data-parallel ranks. Which lines an engine has is known
// in that engine's own package. Colours are taken out, very long lines are cut,
// and a number that no machine could hold is refused. Everything here is pure.
package kvlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxTokens is beyond every machine: a larger number is a misread line.
const maxTokens = 1 << 40

// ErrSilent is what Tokens returns of a log in which no line states the capacity.
var ErrSilent = errors.New("the engine's log does not state its KV capacity in a known way")

// Line is a kind of log line that states a KV capacity.
type Line struct {
	// Pattern has one group, the number of tokens, or two, whose product it is
	// ("for T tokens per request: Cx"). Numbers may have commas.
	Pattern *regexp.Regexp
	// Least says which number holds where lines of the same mark state several: the
	// smallest, for each worker's number is stated by their rank; else the last, for an
	// engine states estimates before it knows.
	Least bool
	// Whole says that the number is of the whole engine, whatever rank a line names.
	Whole bool
}

// Tokens reads a log for the KV capacity of an engine of so many data-parallel
// ranks, in tokens over all of them. Ranks, and the tensor- and pipeline-parallel
// workers of a rank, are told apart by what stands in front of a line's number. A rank
// has what the least of its workers has; one that states nothing, because its engine
// lets a single rank speak for all, counts with the mean of those that do. Of several
// kinds of line the one that the most ranks state holds, among equals the first.
func Tokens(log io.Reader, lines []Line, ranks int) (int, error) {
	found, odd, err := scan(log, lines)
	if err != nil {
		return 0, err
	}
	best := stated{}
	for _, s := range found {
		if s.ranks() > best.ranks() {
			best = s
		}
	}
	if n := best.total(ranks); n > 0 {
		return n, nil
	}
	return 0, cmp.Or(odd, ErrSilent)
}

// Kinds reads a log as Tokens does and gives what each kind of line states; 0
// where it states nothing, and Tokens's error where none does.
func Kinds(log io.Reader, lines []Line, ranks int) ([]int, error) {
	found, odd, err := scan(log, lines)
	if err != nil {
		return nil, err
	}
	tokens := make([]int, len(lines))
	for i, s := range found {
		tokens[i] = s.total(ranks)
	}
	if slices.Max(append(tokens, 0)) == 0 {
		return tokens, cmp.Or(odd, ErrSilent)
	}
	return tokens, nil
}

// scan reads the whole log. odd is a line that states no number of tokens.
func scan(log io.Reader, lines []Line) (found []stated, odd, err error) {
	found = make([]stated, len(lines))
	err = eachLine(log, func(text string) {
		for i, l := range lines {
			if err := found[i].take(l, text); err != nil {
				odd = err
			}
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the engine's log: %w", err)
	}
	return found, odd, nil
}

// stated is what one kind of line says, by rank and worker; "" for lines that name none.
type stated struct {
	byRank map[string]map[string]float64
	whole  bool
}

// take looks at one line of the log.
func (s *stated) take(l Line, text string) error {
	at := l.Pattern.FindStringSubmatchIndex(text)
	if at == nil {
		return nil
	}
	n, err := product(l.Pattern.FindStringSubmatch(text)[1:])
	if err != nil {
		return fmt.Errorf("log line %q: %w", text[at[0]:at[1]], err)
	}
	if s.byRank == nil {
		s.byRank, s.whole = map[string]map[string]float64{}, l.Whole
	}
	rank, worker := "", ""
	if !l.Whole {
		rank, worker = marksOf(text[:at[0]])
	}
	if s.byRank[rank] == nil {
		s.byRank[rank] = map[string]float64{}
	}
	if old, seen := s.byRank[rank][worker]; !seen || !l.Least || n < old {
		s.byRank[rank][worker] = n
	}
	return nil
}

// ranks is how many ranks state something. Lines that name none count only where
// no line names one: they are of whatever came before the ranks.
func (s stated) ranks() int {
	n := len(s.byRank)
	if _, unnamed := s.byRank[""]; unnamed && n > 1 {
		n--
	}
	return n
}

// total is the capacity of so many ranks; 0 where nothing, or nonsense, is stated.
func (s stated) total(ranks int) int {
	named := s.ranks()
	if named == 0 {
		return 0
	}
	var sum float64
	for rank, workers := range s.byRank {
		if rank != "" || len(s.byRank) == 1 {
			sum += slices.Min(slices.Collect(maps.Values(workers)))
		}
	}
	if !s.whole && ranks > named {
		sum *= float64(ranks) / float64(named)
	}
	if sum > maxTokens {
		return 0
	}
	return int(sum)
}

// rankMark is how a line names its data-parallel rank: vLLM's "(EngineCore_DP1
// pid=…)" and "(Worker_DP1_PP0_TP1 pid=…)", before 0.10 "(EngineCore_1 pid=…)",
// SGLang's "[… DP1 PP0 TP0]". vLLM without data parallelism has "(EngineCore pid=…)".
// workerMark is how it names a worker of the rank: those, before 0.10 "(VllmWorker
// rank=1 pid=…)", TensorRT-LLM's "[RANK 1]" and "[MPI_Rank 1]", mpirun's
// "[1,3]<stdout>:" (quoted in issues, 2025 and 2026; vLLM's multiproc_executor.py and
// SGLang's scheduler.py; testdata of the engines' packages).
var (
	rankMark   = regexp.MustCompile(`(?:\(EngineCore_|(?:^|[^A-Za-z0-9])DP)([0-9]+)`)
	workerMark = regexp.MustCompile(`(?:^|[^A-Za-z0-9])(?:PP|P?CP|TP|(?i:rank)[= ])[0-9]+|\[[0-9]+,[0-9]+\]<`)
)

func marksOf(prefix string) (rank, worker string) {
	if m := rankMark.FindStringSubmatch(prefix); m != nil {
		rank = m[1]
	}
	return rank, strings.Join(workerMark.FindAllString(prefix, -1), "")
}

// product multiplies what the groups of a pattern hold.
func product(groups []string) (float64, error) {
	p := 1.0
	for _, g := range groups {
		n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(g), ",", ""), 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", g)
		}
		p *= n
	}
	if math.IsNaN(p) || p < 1 || p > maxTokens {
		return 0, fmt.Errorf("%g is no number of tokens", p)
	}
	return p, nil
}
