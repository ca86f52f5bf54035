package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// secretName reports whether the flag, variable, JSON key or header of that name
// holds a credential: --api-key, HF_TOKEN, apiKey, X-Api-Key, authorization.
func secretName(name string) bool {
	flag := strings.HasPrefix(name, "-")
	name = strings.TrimLeft(name, "-")
	parts := singular(partsOf(name), !flag && name == strings.ToUpper(name))
	if len(parts) == 0 {
		return false
	}
	last, prev := parts[len(parts)-1], ""
	if n := len(parts); n > 1 {
		prev = parts[n-2]
	}
	variable := !flag && name == strings.ToUpper(name)
	switch last {
	case "password", "passwd", "passphrase", "pwd", "pgpassword", "apikey", "authorization", "credential", "cookie", "hft", "hftoken", "jwt", "bearer":
		return last != "pwd" || variable && prev != "" || flag // PWD is a folder
	case "pass":
		return variable && prev != "" || flag && len(parts) == 1 || slices.Contains([]string{"db", "user", "proxy", "http", "redis"}, prev)
	case "pgpass": // ~/.pgpass is a file
		return variable
	case "secret":
		return prev != "pull" // the name of a Secret of Kubernetes
	case "token":
		return !slices.Contains(ordinaryTokens, prev)
	case "key":
		return slices.Contains(keys, prev) || variable && prev != "" && !slices.Contains(ordinaryKeys, prev)
	case "auth":
		return variable || slices.Contains([]string{"basic", "proxy", "http"}, prev)
	case "signature":
		return prev == "amz" || prev == "goog"
	}
	return false
}

// ordinaryTokens come before "token" where a token is a piece of text: --eos-token,
// "pad_token", --image-token.
var ordinaryTokens = []string{
	"additional", "audio", "bos", "cls", "each", "end", "eos", "expected", "first", "generated", "image", "last", "mask", "max", "min",
	"new", "next", "num", "output", "pad", "per", "prompt", "reasoning", "sep", "special", "start", "stop", "think", "tool", "unexpected", "unk", "video",
}

// keys come before "key" in flags and JSON where a key is a credential: "sort_key"
// and the file of --tls-key are none.
var keys = []string{
	"access", "account", "admin", "anthropic", "api", "auth", "encryption", "hf", "license", "master", "ngc", "openai", "private", "secret", "session", "shared",
	"signing", "subscription", "wandb",
}

// ordinaryKeys come before KEY in variables where a key is none.
var ordinaryKeys = []string{"cache", "partition", "primary", "public", "sort"}

// singular are the parts of a name without what says only which of several credentials
// it is: API_KEY_2, HF_TOKEN_READ, API_KEYS. Tokens are counted far more often than they are
// listed, so "tokens" is one of them only in a variable such as HF_TOKENS.
func singular(parts []string, variable bool) []string {
	parts = slices.Clone(parts)
	for len(parts) > 1 && whichOne.MatchString(parts[len(parts)-1]) {
		parts = parts[:len(parts)-1]
	}
	if len(parts) == 0 {
		return nil
	}
	last := &parts[len(parts)-1]
	if word := strings.TrimRight(*last, "0123456789"); word != "" {
		*last = word
	}
	switch *last {
	case "tokens":
		if !variable || len(parts) == 1 || parts[0] == "max" || parts[0] == "num" {
			break
		}
		fallthrough
	case "keys", "apikeys", "secrets", "passwords", "credentials":
		*last = strings.TrimSuffix(*last, "s")
	}
	return parts
}

var whichOne = regexp.MustCompile(`^(prod|dev|read|write|value|[0-9]+)$`)

// partsOf cuts a name into its words, in lower case: api-key, API_KEY and apiKey
// are "api", "key".
func partsOf(name string) []string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			b.WriteByte('-')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return r == '-' || r == '_' || r == '.' })
}

// headerFlag reports whether a flag takes an HTTP header.
func headerFlag(name string) bool {
	return slices.Contains([]string{"-H", "--header", "--extra-header", "--add-header", "--proxy-header"}, name)
}

// plainHeaders hold no credential.
var plainHeaders = []string{
	"accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-length", "content-type", "host", "origin", "referer", "user-agent",
}

// Secret reports whether a name, such as that of an environment variable, is one of
// a credential.
func Secret(name string) bool { return wordName.MatchString(name) && secretName(name) }
