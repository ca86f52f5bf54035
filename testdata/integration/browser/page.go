package browser

import (
	"encoding/json"
	"os"
	"time"
)

// Eval is the value of a JavaScript expression, which may be a promise.
func (b *Browser) Eval(expression string, into any) {
	b.t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	if x := out.Exception; x != nil {
		b.t.Fatalf("%s: %s %s", expression, x.Text, x.Exception.Description)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(out.Result.Value, into); err != nil {
		b.t.Fatalf("%s gave %s: %v", expression, out.Result.Value, err)
	}
}

// Until waits until an expression is true.
func (b *Browser) Until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var is bool
		b.Eval("!!("+expression+")", &is)
		if is {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("not so in %v: %s", patience, expression)
		}
	}
}

// Size makes the window so many CSS pixels wide and high.
func (b *Browser) Size(width, height int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.frames()
}

// Media sets the medium, "screen" or "print", and the scheme of colours, "light" or "dark".
func (b *Browser) Media(medium, scheme string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": medium, "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.frames()
}

// frames lets the page draw what has changed.
func (b *Browser) frames() {
	b.t.Helper()
	b.Eval("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))", nil)
}

// Mouse moves the pointer, "mouseMoved", or presses and releases its left button,
// "mousePressed", "mouseReleased", at a point of the window.
func (b *Browser) Mouse(what string, x, y float64) {
	b.t.Helper()
	m := map[string]any{"type": what, "x": x, "y": y}
	if what != "mouseMoved" {
		m["button"], m["clickCount"] = "left", 1
	}
	b.call("Input.dispatchMouseEvent", m, nil)
}

// Key presses a key, by its name and its Windows code: "ArrowRight", 39.
func (b *Browser) Key(name string, code int) {
	b.t.Helper()
	for _, what := range []string{"rawKeyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": what, "key": name, "code": name, "windowsVirtualKeyCode": code}, nil)
	}
}

// Screenshot writes the whole page as a PNG.
func (b *Browser) Screenshot(path string) {
	b.t.Helper()
	b.frames()
	var out struct {
		Data []byte `json:"data"`
	}
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &out)
	if err := os.WriteFile(path, out.Data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
