package observe

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// labels are what series must have, each exactly.
type labels map[string]string

// selector is series by name and labels. Values are quoted as PromQL's strings,
// whose escapes are Go's, so that no value can end the string that it is in.
func (l labels) selector(metric string) string {
	name, fixed := split(metric)
	return l.with(fixed).matching("=", name)
}

// anyOf is series by any of several names.
func (l labels) anyOf(metrics []string) string {
	alternatives := make([]string, len(metrics))
	for i, m := range metrics {
		alternatives[i] = regexp.QuoteMeta(m)
	}
	return l.matching("=~", strings.Join(alternatives, "|"))
}

func (l labels) matching(operator, metric string) string {
	matchers := []string{"__name__" + operator + strconv.Quote(metric)}
	for name, value := range l {
		matchers = append(matchers, name+"="+strconv.Quote(value))
	}
	slices.Sort(matchers[1:])
	return "{" + strings.Join(matchers, ",") + "}"
}

// over is a function of a window of a selector, all series together:
// over("sum", "increase", s, w) is sum(increase(s[w])).
func over(aggregate, function, selector string, window time.Duration) string {
	return fmt.Sprintf("%s(%s(%s[%s]))", aggregate, function, selector, model.Duration(window))
}

// promDuration is a duration as PromQL has it, in whole milliseconds.
func promDuration(d time.Duration) string { return model.Duration(d).String() }
