package redact_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/engine/redact"
)

// What a command line may hold, word by word.
func TestWords(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"vllm serve m --api-key k1 --port 80", "vllm serve m --api-key # --port 80"},
		{"vllm serve m --api-key=k1 --port 80", "vllm serve m --api-key=# --port 80"},
		{"vllm serve m --api-key k1 k2 k3 --port 80", "vllm serve m --api-key # # # --port 80"},
		{"--api-key k1 k2 --port 80", "--api-key # # --port 80"},
		{"wrap --api-key k1 vllm serve", "wrap --api-key # vllm serve"},
		{"srv --api_key k --token k --hf-token k --hf_token k -hft k --password k --secret k", "srv --api_key # --token # --hf-token # --hf_token # -hft # --password # --secret #"},
		{"srv --authorization k --client-secret k --access-token k --apiKey k --basic-auth u:k", "srv --authorization # --client-secret # --access-token # --apiKey # --basic-auth #"},
		{"srv --admin-api-key k --ngc-api-key k --aws-secret-access-key k", "srv --admin-api-key # --ngc-api-key # --aws-secret-access-key #"},
		{"env HF_TOKEN=k OPENAI_API_KEY=k S3_SECRET=k DB_PASSWORD=k X_CREDENTIALS=k AUTHORIZATION=k srv", "env HF_TOKEN=# OPENAI_API_KEY=# S3_SECRET=# DB_PASSWORD=# X_CREDENTIALS=# AUTHORIZATION=# srv"},
		{"srv --override=hf_Abcdefgh12345 sk-proj-Abcdefgh1 AKIAIOSFODNN7EXAMPLE ghp_Abcdefgh12345 nvapi-Abcdefgh1234", "srv --override=# # # # #"},
		{"srv eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "srv #"},
		{"srv http://me:pw@h:1/x https://h/?api_key=k&a=b http://h?token=k#f http://h/p?x=1&key=k", "srv http://me:#@h:1/x https://h/?api_key=#&a=b http://h?token=##f http://h/p?x=1&key=#"},
		{"srv prefill=http://u:p@h1:1,decode=http://u:q@h2:2/m redis://:pw@h https://abcdefghijklmnopqrst@h", "srv prefill=http://u:#@h1:1,decode=http://u:#@h2:2/m redis://:#@h https://#@h"},
		{"srv http://u:p@ss/w@h http://u:pa/ss@h/x", "srv http://u:#@ss/w@h http://u:#@h/x"}, // such a / has to be written %2F
		{"curl -u me:k --user me:k --user=me:k -ume:k --proxy-user p:k http://h", "curl -u me:# --user me:# --user=me:# -ume:# --proxy-user p:# http://h"},
		{"srv -u me:k --user me:k --user=me:k --auth me:k --auth=me:1234 PGPASS=k", "srv -u me:# --user me:# --user=me:# --auth me:# --auth=me:# PGPASS=#"},
		{"/usr/bin/sshpass -p k ssh -p 22 h", "/usr/bin/sshpass -p # ssh -p 22 h"},
		{"sshpass -pk ssh h", "sshpass -p# ssh h"},
		{"docker login -u me -p k", "docker login -u me -p #"},
		{"docker run -u me:you --user=me:you -p 80:80 i", "docker run -u me:you --user=me:you -p 80:80 i"},
		{"srv -u 1000640000:1000640000 --user 0:0 -u h:80 -u http://h:80/a --user me --auth basic --user --x=a:b -u", "srv -u 1000640000:1000640000 --user 0:0 -u h:80 -u http://h:80/a --user me --auth basic --user --x=a:b -u"},
		{"srv --api-keys k --tokens-secret k --password2=k --jwt k --bearer k --hfToken=k --openai-key k --hf-key k --pass=k", "srv --api-keys # --tokens-secret # --password2=# --jwt # --bearer # --hfToken=# --openai-key # --hf-key # --pass=#"},
		{"env API_KEYS=k HF_TOKENS=k API_KEY_1=k API_KEY2=k HF_TOKEN_READ=k API_KEY_PROD=k CLIENT_SECRET_VALUE=k", "env API_KEYS=# HF_TOKENS=# API_KEY_1=# API_KEY2=# HF_TOKEN_READ=# API_KEY_PROD=# CLIENT_SECRET_VALUE=#"},
		{"env DB_PASS=k JWT=k BEARER=k HFTOKEN=k openai_key=k REDISCLI_AUTH=k NUM_TOKENS=5", "env DB_PASS=# JWT=# BEARER=# HFTOKEN=# openai_key=# REDISCLI_AUTH=# NUM_TOKENS=5"},
		{"env HF_TOKEN=${X:-k} A_TOKEN=${X} srv h?auth=k h?code=1&signature=k", "env HF_TOKEN=# A_TOKEN=${X} srv h?auth=# h?code=1&signature=#"},
		{"dckr_pat_Abcdefgh12345 gsk_Abcdefgh12345 AIzaAbcdefgh1234567890abcd npm_Abcdefgh1234567890abcd xai-Abcdefgh12345 sk_live_Abcdefgh12345 ya29.Abcdefgh12345", "# # # # # # #"},
		// Values that something else fills in are no secrets.
		{"srv --api-key $(KEY) --password ${PW} HF_TOKEN=$(T) --token {{.Name}} --api-key --port 80", "srv --api-key $(KEY) --password ${PW} HF_TOKEN=$(T) --token {{.Name}} --api-key --port 80"},
		{"srv --password $ecret", "srv --password #"}, // no shell is here
		// Ordinary flags keep what they say.
		{
			"vllm serve m --max-num-batched-tokens 8192 --tokenizer X --kv-tokens 1000 --token-parallel 2 --max-tokens=5 --tokens 3 --tokenizer-mode auto",
			"vllm serve m --max-num-batched-tokens 8192 --tokenizer X --kv-tokens 1000 --token-parallel 2 --max-tokens=5 --tokens 3 --tokenizer-mode auto",
		},
		{
			"srv --eos-token </s> --pad_token=x --api-key-file f --token-file f --tls-key f --ssl-keyfile f --sort-key a --image-pull-secret n --secret-name n",
			"srv --eos-token </s> --pad_token=x --api-key-file f --token-file f --tls-key f --ssl-keyfile f --sort-key a --image-pull-secret n --secret-name n",
		},
		{
			"srv --prompt-token 5 --new-token 5 --next-token 5 --max-token 5 --first-token 5 PUBLIC_KEY=a CACHE_KEY=b SORT_KEY=c",
			"srv --prompt-token 5 --new-token 5 --next-token 5 --max-token 5 --first-token 5 PUBLIC_KEY=a CACHE_KEY=b SORT_KEY=c",
		},
		{"env MONKEY=b TOKENS=5 MAX_TOKENS=6 KEYBOARD=x PWD=/tmp VLLM_LOGGING_LEVEL=INFO srv", "env MONKEY=b TOKENS=5 MAX_TOKENS=6 KEYBOARD=x PWD=/tmp VLLM_LOGGING_LEVEL=INFO srv"},
		{"srv -H 0.0.0.0 --host h:80 http://h:9090/a@b task-Abcdefgh12 disk-Usage12345 hf_transformers sk-learn-model", "srv -H 0.0.0.0 --host h:80 http://h:9090/a@b task-Abcdefgh12 disk-Usage12345 hf_transformers sk-learn-model"},
		{"git clone git@h:x ssh://git@h/x https://me@h/x", "git clone git@h:x ssh://git@h/x https://me@h/x"},
	} {
		words := strings.Fields(c.words)
		got := redact.Words(words)
		if want := strings.Fields(strings.ReplaceAll(c.want, "#", redact.Mark)); !slices.Equal(got, want) && !slices.Equal(got, fragments(want)) {
			t.Errorf("%s\ngot  %s\nwant %s", c.words, got, want)
		}
		if !slices.Equal(redact.Words(got), got) {
			t.Errorf("%s: a second time it is %s", got, redact.Words(got))
		}
	}
}

// fragments gives "#f" of a URL back, which the table's mark takes.
func fragments(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		out[i] = strings.Replace(w, redact.Mark+redact.Mark, redact.Mark+"#", 1)
	}
	return out
}

// Words with blanks in them: scripts, JSON and headers.
func TestWordsThatHoldMore(t *testing.T) {
	const m = redact.Mark
	for _, c := range []struct{ words, want []string }{
		{[]string{"sh", "-c", `HF_TOKEN=k vllm serve m --api-key "k 1" --port 80`}, []string{"sh", "-c", "HF_TOKEN=" + m + ` vllm serve m --api-key "` + m + `" --port 80`}},
		{[]string{"bash", "-lc", `srv --token 'k'; srv --token=k && TOKEN=k srv --password $PW`}, []string{"bash", "-lc", "srv --token '" + m + "'; srv --token=" + m + " && TOKEN=" + m + " srv --password $PW"}},
		{[]string{"env", "PASSWORD=a b;c", "srv"}, []string{"env", "PASSWORD=" + m, "srv"}},
		{[]string{"srv", "--hf-overrides", `{"token": "k", "a": {"api_key": "k", "n": 5}, "eos_token": "</s>"}`}, []string{"srv", "--hf-overrides", `{"token": "` + m + `", "a": {"api_key": "` + m + `", "n": 5}, "eos_token": "</s>"}`}},
		{[]string{"srv", `--x={"apiKey":["k1","k2"],"credentials":{"user":"k3","at":"k4"},"y":"z"}`}, []string{"srv", `--x={"apiKey":["` + m + `","` + m + `"],"credentials":{"user":"` + m + `","at":"` + m + `"},"y":"z"}`}},
		{[]string{"srv", "--x", `{\"token\": \"k\", \"a\": 1}`}, []string{"srv", "--x", `{\"token\": \"` + m + `\", \"a\": 1}`}},
		{[]string{"curl", "-H", "Authorization: Bearer k", "--header", "X-Api-Key: k", "--header=X-Mine: k k", "-H", "Accept: a/b"}, []string{"curl", "-H", "Authorization: Bearer " + m, "--header", "X-Api-Key: " + m, "--header=X-Mine: " + m, "-H", "Accept: a/b"}},
		{[]string{"sh", "-c", `curl -H 'Authorization: Basic a2V5' -H "X-Mine: k" u`}, []string{"sh", "-c", `curl -H 'Authorization: Basic ` + m + `' -H "X-Mine: ` + m + `" u`}},
		{[]string{"sh", "-c", "vllm serve m --api-key k1 k2 \\\n --port 80; curl -u me:k h | docker login -u me -p 'k'"}, []string{"sh", "-c", "vllm serve m --api-key " + m + " " + m + " \\\n --port 80; curl -u me:" + m + " h | docker login -u me -p '" + m + "'"}},
		{[]string{"srv", "--env", `[{"name":"HF_TOKEN","value":"k 1"},{"name": "A", "value": "b"}]`}, []string{"srv", "--env", `[{"name":"HF_TOKEN","value":"` + m + `"},{"name": "A", "value": "b"}]`}},
		{[]string{"srv", "--env", "- name: HF_TOKEN\n  value: k1\n- name: A\n  value: b"}, []string{"srv", "--env", "- name: HF_TOKEN\n  value: " + m + "\n- name: A\n  value: b"}},
		{[]string{"srv", "--argv", `["--api-key", "k", "--port", "80"]`}, []string{"srv", "--argv", `["--api-key", "` + m + `", "--port", "80"]`}},
	} {
		got := redact.Words(c.words)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q\ngot  %q\nwant %q", c.words, got, c.want)
		}
		if !slices.Equal(redact.Words(got), got) {
			t.Errorf("%q: a second time it is %q", got, redact.Words(got))
		}
	}
}

// Text that engines print and servers answer.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		`non-default args: {'api_key': ['k1', "k2"], 'port': 80}`:      `non-default args: {'api_key': ['#', "#"], 'port': 80}`,
		`Namespace(host=None, api_key='k1', token=None, port=80)`:      `Namespace(host=None, api_key='#', token=None, port=80)`,
		"Authorization: Bearer k1\nHost: h":                            "Authorization: Bearer #\nHost: h",
		`invalid token for "Bearer abc.def"`:                           `invalid token for "Bearer #"`,
		"want a bearer token; the token is missing":                    "want a bearer token; the token is missing",
		"it's the flag --api-key k1 that isn't there":                  "it's the flag --api-key # that isn't there",
		`vllm serve --api-key 'it'\''s' --port {{.Port}}`:              `vllm serve --api-key # --port {{.Port}}`,
		"password: k1\ntoken: k2 # of me\nport: 80":                    "password: #\ntoken: # # of me\nport: 80",
		"GPU KV cache size: 1,000 tokens; 5 tokens/s, eos_token: </s>": "GPU KV cache size: 1,000 tokens; 5 tokens/s, eos_token: </s>",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END":              "-----BEGIN RSA PRIVATE KEY-----#-----END",
		"vllm serve --api-key \\\n   k1 \\\n   --port 80":              "vllm serve --api-key \\\n   # \\\n   --port 80",
		"vllm serve --api-key \\\r\n   k1\\\r\n   --port 80":           "vllm serve --api-key \\\r\n   #\\\r\n   --port 80",
		`"vllm serve --api-key \\\n   k1 --port 80"`:                   `"vllm serve --api-key \\\n   # --port 80"`,
		"it ran srv --auth me:k1 -u 'me:k2' and failed":                "it ran srv --auth me:# -u 'me:#' and failed",
		`it's sh -c "curl -u me:k1" that didn't run`:                   `it's sh -c "curl -u me:#" that didn't run`,
		`argv ["curl","-u","me:k1"], PGPASS=k2`:                        `argv ["curl","-u","me:#"], PGPASS=#`,
		"reading .pgpass: denied; --user name: docker run -u me:you i": "reading .pgpass: denied; --user name: docker run -u me:you i",
		"time to first token: 12.5 ms; per output token: 4 ms":         "time to first token: 12.5 ms; per output token: 4 ms",
		`unexpected token: '}' in {"first_token": 5}`:                  `unexpected token: '}' in {"first_token": 5}`,
		"": "",
	} {
		want = strings.ReplaceAll(want, "#", redact.Mark)
		if got := redact.Text(text); got != want && got != strings.Replace(want, redact.Mark+" of", "# of", 1) {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// A credential does not survive in any of the places that it may have, nothing else
// is lost, the number of words stays, and a second time nothing changes.
func TestNoCredentialSurvives(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9]{9}[A-Za-z0-9+/_.~=-]{0,30}[0-9][A-Z]`).Draw(t, "secret")
		quoted, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		name := rapid.SampledFrom([]string{"api-key", "token", "hf-token", "password", "secret", "authorization", "api_key", "auth-token", "client-secret", "access-token"}).Draw(t, "name")
		variable := rapid.SampledFrom([]string{"HF_TOKEN", "VLLM_API_KEY", "MY_SECRET", "DB_PASSWORD", "X_CREDENTIALS", "AUTHORIZATION", "APP_KEY"}).Draw(t, "variable")
		placed := rapid.SampledFrom([][]string{
			{"--" + name, secret},
			{"--" + name + "=" + secret},
			{"-H", "Authorization: Bearer " + secret},
			{"--header=X-Secret: " + secret},
			{variable + "=" + secret},
			{"http://me:" + strings.NewReplacer("/", "%2F").Replace(secret) + "@host:80/x"},
			{"http://host:80/x?a=b&" + strings.ReplaceAll(name, "-", "_") + "=" + secret},
			{"--json", fmt.Sprintf(`{"a": {%q: %s, "b": 5}}`, name, quoted)},
			{"--json", fmt.Sprintf(`{"a":[{%q:[%s]}]}`, name, quoted)},
			{"sh", "-c", fmt.Sprintf("%s=%s run --port 80", variable, secret)},
			{"sh", "-c", fmt.Sprintf("run --%s '%s' --port 80", name, secret)},
			{"sh", "-c", fmt.Sprintf(`run "--%s" "%s" --port 80`, name, secret)},
			{"sh", "-c", fmt.Sprintf(`bash -c "run --%s=%s --port 80"`, name, secret)},
			{"sh", "-c", fmt.Sprintf(`bash -c "run --%s '%s'" && true`, name, secret)},
			{"nvapi-" + secret[:9]},
			{"Bearer " + secret},
			{"--auth", "me:" + secret},
			{"--user=me:" + secret},
			{"sh", "-c", "run -u me:" + secret},
			{"PGPASS=" + secret},
		}).Draw(t, "placed")
		ordinary := rapid.SliceOf(rapid.SampledFrom([]string{"vllm", "serve", "--port", "8000", "--tokenizer", "Qwen/Qwen3-8B", "--max-num-batched-tokens=8192", "--host", "0.0.0.0", "it's", `{"a":1}`}))
		before, after := ordinary.Draw(t, "before"), ordinary.Draw(t, "after")
		words := slices.Concat(before, placed, after)
		got := redact.Words(words)
		if strings.Contains(strings.Join(got, "\x00"), secret) {
			t.Fatalf("%q survives in %q", secret, got)
		}
		if len(got) != len(words) || !slices.Equal(got[:len(before)], before) {
			t.Fatalf("%q became %q", words, got)
		}
		vllmTakesMore := strings.HasPrefix(placed[0], "--api")
		if !vllmTakesMore && !slices.Equal(got[len(before)+len(placed):], after) {
			t.Fatalf("%q became %q", words, got)
		}
		if again := redact.Words(got); !slices.Equal(again, got) {
			t.Fatalf("%q becomes %q", got, again)
		}
		for _, text := range []string{strings.Join(placed, " "), fmt.Sprintf("%q", placed), strings.Join(placed, "\n")} {
			if placed[0] == "sh" {
				continue // a script is one word
			}
			clean := redact.Text(text)
			if strings.Contains(clean, secret) || redact.Text(clean) != clean {
				t.Fatalf("%q became %q, and then %q", text, clean, redact.Text(clean))
			}
		}
		if found := redact.Find(words); !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, secret[:9]) }) {
			t.Fatalf("%q: found %q", words, found)
		}
	})
}

// Redacting twice changes nothing more, and no known credential is left.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		`sh -c "vllm --api-key 'x y'" {"token": "abc"}`, "http://a:b@c?token=d", `--token "`, `{"secret":[`, "Authorization: Basic", `token=\`, "--password '[redacted]'x",
		"token: [redacted]]", `password={"a":"b`, "http://u:[redacted]@h",
	} {
		f.Add(s)
	}
	for _, s := range []string{"passwd=", "_=x", "--token=", "a:", "--api-key "} { // nothing follows
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean := redact.Text(s)
		if again := redact.Text(clean); again != clean {
			t.Errorf("%q becomes %q, and then %q", s, clean, again)
		}
		words := strings.Split(s, "\x00")
		once := redact.Words(words)
		if len(once) != len(words) {
			t.Errorf("%q becomes %q", words, once)
		}
		known := redact.Of(redact.Find(words)...)
		if again := known.Text(known.Text(s)); again != known.Text(s) {
			t.Errorf("%q becomes %q, and then %q", s, known.Text(s), again)
		}
	})
}

func TestValues(t *testing.T) {
	v := redact.Of("p\"w<1", "Bearer key-12345678", "abcde", "x", "none", "3000", "12345678901", "123456789012", "prefill decode 3000", redact.Mark, "")
	for text, want := range map[string]string{
		`{"a": "p\"w\u003c1"}`:           `{"a": "#"}`,
		"GET /?k=p%22w%3C1":              "GET /?k=#",
		"Bearer key-12345678":            "#",
		"its key-12345678key":            "its #key",
		"abcde abcdef xabcde (abcde)":    "# abcdef xabcde (#)", // short ones are words of their own
		"none of 3000 x 12345678901":     "none of 3000 x 12345678901",
		"id 123456789012":                "id #",
		"prefill, decode, 3000":          "prefill, decode, 3000",
		"prefill decode 3000":            "#",
		"[redacted] Bearer x nothing is": "[redacted] Bearer x nothing is",
	} {
		want = strings.ReplaceAll(want, "#", redact.Mark)
		if got := v.Text(text); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
	if said := fmt.Sprintf("%v %+v %#v %s", v, v, v, v); strings.Contains(said, "key-1") {
		t.Error(said)
	}
	if n := v.Longest(); n < len("Bearer key-12345678") {
		t.Error(n)
	}
	if got := (redact.Values{}).Text("a b"); got != "a b" {
		t.Error(got)
	}
}

func TestSecret(t *testing.T) {
	for name, want := range map[string]bool{"HF_TOKEN": true, "api_key": true, "X-Api-Key": true, "PATH": false, "TOKENIZERS_PARALLELISM": false, "": false, "a b_token": false} {
		if redact.Secret(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}
