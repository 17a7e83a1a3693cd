// Numbers as people read them: no more digits than the error leaves, a true minus sign.

const formats = new Map();

function format(places) {
  if (!formats.has(places)) {
    formats.set(places, new Intl.NumberFormat("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }));
  }
  return formats.get(places);
}

// How many decimals are meaningful in a number with this standard error.
export function placesFor(error) {
  if (!(error > 0)) return 0;
  return Math.min(6, Math.max(0, Math.ceil(-Math.log10(error / 2))));
}

export function shown(number, places = 0) {
  const text = format(places).format(Math.abs(number));
  return number < 0 && /[1-9]/.test(text) ? "−" + text : text;
}

export function counted(number, noun) {
  return `${shown(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function percent(share, places = 1) {
  return shown(share * 100, places) + " %";
}

// Round numbers, about so many, that span a range.
export function ticks(low, high, about) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(about, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
}

// A tick's text: 1,500, 20 k, 3 M.
export function tickText(value, step) {
  const size = Math.abs(value);
  if (size >= 1e6 && step >= 1e5) return shown(value / 1e6, step < 1e6 ? 1 : 0) + " M";
  if (size >= 1e4 && step >= 100) return shown(value / 1e3, step < 1e3 ? 1 : 0) + " k";
  return shown(value, step >= 1 ? 0 : Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)));
}
