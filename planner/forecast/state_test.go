package forecast

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestStatesOfOthersAreRefused(t *testing.T) {
	saved := func(k Kind) json.RawMessage {
		s, err := of(t, DefaultOptions(k), 5, 6, 8, 5, 6, 9, 7).Save()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	replaced := func(k Kind, old, with string) json.RawMessage {
		// Behind the options, which have words in common with the models.
		head, tail, _ := strings.Cut(string(saved(k)), `}`)
		head += "}"
		if !strings.Contains(tail, old) {
			t.Fatalf("no %s in %s", old, tail)
		}
		return json.RawMessage(head + strings.Replace(tail, old, with, 1))
	}
	for _, c := range []struct {
		kind  Kind
		state json.RawMessage
		want  string
	}{
		{Constant, saved(Kalman), "options"},
		{Constant, nil, "restoring a constant predictor"},
		{Constant, json.RawMessage("{}"), "options"},
		{Constant, replaced(Constant, `"last":7`, `"last":-7`), "last value"},
		{Constant, replaced(Constant, `[5,6,8`, `[-5,6,8`), "value -5"},
		{Constant, replaced(Constant, `"model":{"last":7}`, `"model":null`), "no model"},
		{Kalman, replaced(Kalman, `"begun":true`, `"begun":false`), "not begun"},
		{Kalman, replaced(Kalman, `"p":[`, `"p":[-`), "negative variance"},
		{Kalman, replaced(Kalman, `"trend":`, `"trend":1e200,"x":`), "out of range"},
		{ARIMA, replaced(ARIMA, `"p":`, `"p":9,"x":`), "order"},
		{ARIMA, replaced(ARIMA, `"params":`, `"params":[1,2,3,4,5,6,7],"x":`), "parameters"},
		{ARIMA, replaced(ARIMA, `"age":`, `"age":0,"x":`), "no order"},
		{Prophet, replaced(Prophet, `"model":{}`, `"model":null`), "no model"},
		{Auto, replaced(Auto, `"losses":[`, `"losses":[1,`), "number of predictors"},
		{Auto, replaced(Auto, `"losses":[`, `"losses":[-`), "loss"},
		{Auto, replaced(Auto, `"excess":`, `"excess":1e99,"x":`), "excess"},
		{Auto, replaced(Auto, `"level":`, `"level":-1,"x":`), "smoothed"},
	} {
		p := of(t, DefaultOptions(c.kind), 1, 2, 3, 4, 3, 2)
		same := of(t, DefaultOptions(c.kind), 1, 2, 3, 4, 3, 2)
		if err := p.Restore(c.state); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a word of %q, restoring %s", c.kind, err, c.want, c.state)
		}
		sameForecasts(t, p, same)
	}
}

// Whatever is restored, what is forecast afterwards is a forecast.
func FuzzRestore(f *testing.F) {
	for i, k := range Kinds() {
		for _, n := range []int{0, 1, 4, 12} {
			p := of(f, DefaultOptions(k), []float64{gap, 5, 6, 8, gap, 6, 9, 7, 0, 3, 4, 5}[:n]...)
			s, err := p.Save()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(i, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, kind int, saved []byte) {
		kinds := Kinds()
		p, err := New(DefaultOptions(kinds[uint(kind)%uint(len(kinds))]))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Restore(saved); err != nil {
			return
		}
		for _, v := range []float64{3, gap, 1e6, 2} {
			checkFinite(t, p, 1)
			checkFinite(t, p, 100)
			p.Observe(v)
		}
		if _, err := p.Save(); err != nil {
			t.Fatal(err)
		}
	})
}
