package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/testdata/integration/browser"
)

// pictures is the environment variable that names a folder for screenshots.
const pictures = "PLIMSOLL_PICTURES"

// looks tries what people look with: a phone, a wide window, light and dark.
// Nothing may be wider than the window, and texts have to stand out.
func looks(t *testing.T, b *browser.Browser, name string) {
	dir := os.Getenv(pictures)
	if dir == "" {
		dir = t.TempDir()
	}
	for _, scheme := range []string{"light", "dark"} {
		b.Media("", scheme)
		for _, width := range []int{320, 390, 1280} {
			b.Size(width, 900)
			var wide int
			b.Eval("document.documentElement.scrollWidth", &wide)
			if wide > width {
				t.Errorf("%s at %d pixels is %d wide", scheme, width, wide)
			}
			b.Screenshot(filepath.Join(dir, fmt.Sprintf("%s_%s_%d.png", name, scheme, width)))
		}
		for _, what := range []string{"body", ".hint", "dt", "thead th", ".band", "footer", "svg text.tick"} {
			var contrast float64
			b.Eval(fmt.Sprintf(contrastOf, what), &contrast)
			if contrast < 4.5 {
				t.Errorf("%s: %s has a contrast of %.2f, want 4.5 or more", scheme, what, contrast)
			}
		}
	}
	b.Media("", "light")
}

// contrastOf is WCAG 2.2's contrast ratio of an element's text with what is behind it.
const contrastOf = `(() => {
  const of = c => { const v = c.match(/[\d.]+/g).map(Number); return v.length > 3 && v[3] === 0 ? null : v.slice(0, 3); };
  const light = rgb => rgb.map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const e = document.querySelector(%q), style = getComputedStyle(e);
  let behind = e;
  while (behind.parentElement && !of(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  const ground = of(getComputedStyle(behind).backgroundColor) || [255, 255, 255];
  const [a, b] = [light(of(e instanceof SVGElement ? style.fill : style.color)), light(ground)].sort((x, y) => y - x);
  return (a + .05) / (b + .05);
})()`

// named wants a name for everything that a screen reader stops at.
func named(t *testing.T, b *browser.Browser) {
	var without []string
	b.Eval(`[...document.querySelectorAll('button, input, summary, svg[role], [role=region], [role=group], [role=img]')].filter(e =>
	  !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.[0]?.textContent.trim() || e.closest('label')?.textContent.trim() || document.getElementById(e.getAttribute('aria-labelledby'))?.textContent.trim())).map(e => e.outerHTML.slice(0, 80))`, &without)
	if len(without) > 0 {
		t.Errorf("without a name: %q", without)
	}
	var headings []int
	b.Eval("[...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))", &headings)
	for i := 1; i < len(headings); i++ {
		if headings[i] > headings[i-1]+1 {
			t.Errorf("headings of levels %v: one is left out", headings)
		}
	}
}

// closed tries what an attacker would: the page's policy lets nothing in or out.
func closed(t *testing.T, b *browser.Browser) {
	var got struct{ Script, Handler, Fetch, Image bool }
	b.Eval(`(async () => {
	  document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.in1 = true' }));
	  document.body.insertAdjacentHTML('beforeend', '<button id="x" onclick="window.in2 = true">x</button>');
	  document.getElementById('x').click();
	  const image = new Image();
	  return {
	    fetch: await fetch('http://127.0.0.1:1/').then(() => true, () => false), script: !!window.in1, handler: !!window.in2,
	    image: await new Promise(r => { image.onerror = () => r(false); image.onload = () => r(true); image.src = 'http://127.0.0.1:1/x.png'; }),
	  };
	})()`, &got)
	if got.Script || got.Handler || got.Fetch || got.Image {
		t.Errorf("let in or out: %+v", got)
	}
	blocked := 0
	for _, c := range b.Noted().Complaints {
		if strings.Contains(c, "Content Security Policy") {
			blocked++
		}
	}
	if blocked < 4 {
		t.Errorf("%d complaints of the policy, want one of each attempt: %q", blocked, b.Noted().Complaints)
	}
}

func text(b *browser.Browser, of string) (s string) {
	b.Eval(fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", of), &s)
	return s
}

func attribute(b *browser.Browser, of, name string) (s string) {
	b.Eval(fmt.Sprintf("document.querySelector(%q)?.getAttribute(%q) ?? ''", of, name), &s)
	return s
}

func count(b *browser.Browser, of string) (n int) {
	b.Eval(fmt.Sprintf("document.querySelectorAll(%q).length", of), &n)
	return n
}
