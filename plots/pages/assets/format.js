// Numbers and times as text. Go's side of number is in figure.go.

const known = v => v !== null && v !== undefined && Number.isFinite(v);

const apart = s => {
  const [whole, frac] = s.replace("-", "−").split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return frac === undefined ? grouped : grouped + "." + frac;
};

// decimals are those that so many significant digits of v have.
const decimals = (v, digits) => v === 0 ? 0 : Math.min(12, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(v)))));

const trimmed = s => s.includes(".") ? s.replace(/\.?0+$/, "") : s;

// round keeps so many significant digits, but none before the point is lost.
const round = (v, digits) => v !== 0 && (Math.abs(v) < 1e-4 || Math.abs(v) >= 1e15) ? v.toExponential(digits - 1) : apart(trimmed(v.toFixed(decimals(v, digits))));

const number = v => !known(v) ? "–" : Number.isInteger(v) && Math.abs(v) < 1e15 ? apart(v.toFixed(0)) : round(v, 4);

// figure is a mean and, where there is one, half of its interval, times k: none of
// its digits is finer than the mean's.
const figure = (f, k = 1) => {
  const mean = f.mean * k, half = f.half * k;
  return number(mean) + (known(f.half) ? " ± " + apart(trimmed(half.toFixed(Math.min(decimals(mean, 4), decimals(half, 2))))) : "");
};

const withUnit = (text, unit) => !unit || text === "–" ? text : text + " " + unit;

// span is seconds as "1d 2h", "12m 30s", "0.5s".
const span = seconds => {
  const whole = Math.round(seconds * 1000) / 1000;
  if (whole < 60) return number(whole) + "s";
  const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "m"], [Math.round(whole % 60), "s"]];
  return parts.filter(p => p[0] > 0).slice(0, 2).map(p => p[0] + p[1]).join(" ");
};
