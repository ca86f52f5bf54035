package scrape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Props is what llama.cpp's server says of itself at /props.
type Props struct {
	Slots   int    // requests that it can run at once
	Context int    // tokens that one slot can hold
	Build   string // its version
}

// KVTokens is the capacity if each slot has a context of its own. With
// --kv-unified, which is its default where -np is not given, the slots share one
// and Context is the whole; /props does not say which, the log does (package command).
func (p Props) KVTokens() int { return p.Slots * p.Context }

// maxInfo is beyond every engine's slots or context: what is larger is no such number.
const maxInfo = 1 << 31

// ParseProps reads the answer of llama.cpp's /props.
func ParseProps(answer io.Reader) (Props, error) {
	var a struct {
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Slots int    `json:"total_slots"`
		Build string `json:"build_info"`
	}
	if err := decode(answer, &a); err != nil {
		return Props{}, err
	}
	p := Props{Slots: a.Slots, Context: a.Settings.Context, Build: a.Build}
	if p.Slots < 1 || p.Context < 1 || p.Slots > maxInfo || p.Context > maxInfo {
		return Props{}, fmt.Errorf("not an answer of llama.cpp's /props: %d slots of %d tokens", p.Slots, p.Context)
	}
	return p, nil
}

// ReadProps asks url, the /props of llama.cpp's server, once.
func ReadProps(ctx context.Context, client *http.Client, url string) (Props, error) {
	var p Props
	err := get(ctx, client, url, func(body io.Reader) (err error) {
		p, err = ParseProps(body)
		return err
	})
	return p, err
}

// ReadServerInfo asks the SGLang server at base once, by both of the names.
func ReadServerInfo(ctx context.Context, client *http.Client, base string) (ServerInfo, error) {
	var info ServerInfo
	parse := func(body io.Reader) (err error) {
		info, err = ParseServerInfo(body)
		return err
	}
	err := get(ctx, client, base+"/server_info", parse)
	if err != nil {
		err = get(ctx, client, base+"/get_server_info", parse)
	}
	return info, err
}

func decode(answer io.Reader, into any) error {
	if err := json.NewDecoder(bound(answer)).Decode(into); err != nil {
		if errors.Is(err, errTooLong) {
			return errTooLong
		}
		return fmt.Errorf("not the JSON that was expected: %w", err)
	}
	return nil
}
