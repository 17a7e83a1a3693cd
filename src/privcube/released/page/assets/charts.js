// Charts: bars or dots with intervals, heat maps, small multiples. All are plain SVG with its colors in attributes, so that
// what is downloaded looks like what is shown.

import { cut, h, isolated, s, svgLabel } from "./elements.js";
import { shownEnds, trustOf } from "./values.js";
import { textOf } from "./pivot.js";
import { tickText, ticks } from "./format.js";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif";
const MOST_BARS = 240; // of a chart: more are in the table
const MOST_SERIES = 7;
const MOST_PANELS = 24;
const LIGHT = {
  ink: "#1c2733", soft: "#52606d", line: "#d5dbe1", paper: "#ffffff", interval: "#1c2733", low: [235, 242, 249], high: [8, 69, 122],
  series: ["#2c6fad", "#d1660a", "#12805c", "#a1508a", "#7a6a00", "#4b4fa8", "#6b7580"],
};
const DARK = {
  ink: "#e6ebf0", soft: "#a8b3be", line: "#3a4550", paper: "#161c22", interval: "#f2f5f8", low: [30, 42, 54], high: [126, 190, 245],
  series: ["#5ba3e0", "#ef9a4d", "#4cbf95", "#d78bc1", "#cdb94a", "#9a9df0", "#9aa5b0"],
};

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

// The chart of a grid, and a note on what is left out.
export function chart(grid, width) {
  const colors = isDark() ? DARK : LIGHT;
  const draw = { bars: series, dots: series, heat, multiples }[grid.state.view];
  const panels = grid.panels.slice(0, MOST_PANELS);
  const notes = [];
  if (panels.length < grid.panels.length) notes.push(`The chart shows the first ${panels.length} of ${grid.panels.length} panels.`);
  const limits = rangeOf(grid, panels);
  const drawn = panels.map((panel) => draw(grid, panel, width, colors, limits, notes));
  const titled = panels.length > 1 || grid.state.axes.length > 2;
  let top = 0;
  const parts = drawn.map((part, at) => {
    const title = titled ? svgLabel(panels[at].text, Math.floor(width / 8), { x: 0, y: top + 15, "font-weight": 600, "font-size": 13, fill: colors.ink }) : null;
    const own = s("g", {}, title, s("g", { transform: `translate(0 ${top + (titled ? 24 : 0)})` }, part.marks));
    top += part.height + (titled ? 24 : 0) + (at < drawn.length - 1 ? 14 : 0);
    return own;
  });
  const svg = s("svg", { viewBox: `0 0 ${width} ${Math.ceil(top)}`, width, height: Math.ceil(top), "font-family": FONT, "font-size": 12, role: "img" },
    s("title", {}, grid.cube.tableTitle(grid.state.axes)),
    s("desc", {}, "The table below has the same numbers."),
    s("defs", {}, hatching("hatch", colors.paper)),
    s("rect", { width, height: Math.ceil(top), fill: colors.paper }), parts);
  return { svg, notes: [...new Set(notes)] };
}

function hatching(id, color) {
  return s("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: 3.2, height: 6, fill: color, "fill-opacity": 0.82 }));
}

// The numbers that a chart draws, least and most with their intervals.
function rangeOf(grid, panels) {
  const together = grid.state.interval === "all";
  let low = 0, high = 0;
  const rows = grid.rows.slice(0, MOST_BARS), columns = grid.columns.slice(0, 60);
  for (const panel of panels) for (const row of rows) for (const column of columns) {
    const number = grid.numberAt(row, column, panel), [least, most] = shownEnds(grid, number, together);
    if (!number.determined) continue;
    low = Math.min(low, least);
    high = Math.max(high, most);
  }
  if (!(high > low)) high = low + 1;
  return { low: low - (low < 0 ? 0.01 * (high - low) : 0), high: high + 0.01 * (high - low) };
}

function scale(limits, from, to) {
  return (value) => from + ((value - limits.low) / (limits.high - limits.low)) * (to - from);
}

function axis(grid, limits, x, bottom, width, colors) {
  const values = ticks(limits.low, limits.high, Math.max(2, Math.floor(width / 90)));
  const step = values.length > 1 ? values[1] - values[0] : 1;
  return values.map((value) => {
    const zero = Math.abs(value) < step / 1000;
    const text = grid.percent ? tickText(value * 100, step * 100) + " %" : tickText(value, step);
    return [s("line", { x1: x(value), x2: x(value), y1: 0, y2: bottom, stroke: zero ? colors.soft : colors.line, "stroke-width": 1 }),
      s("text", { x: x(value), y: bottom + 16, "text-anchor": "middle", fill: colors.soft, "font-size": 11 }, text)];
  });
}

function widthOfLabels(rows, width) {
  const longest = rows.reduce((most, row) => Math.max(most, Array.from(row.text).length), 0);
  return Math.max(24, Math.min(longest * 6.6 + 8, width * 0.36, 240));
}

function described(grid, row, column, panel, number) {
  const { value, margin } = textOf(grid, number, grid.state.interval === "all");
  return [panel, row, column].filter((entry) => entry.ids.length).map((entry) => cut(entry.text, 200)).join(", ") + `: ${value} ${margin}`;
}

// A bar or a dot with its interval, across from left to right.
function mark(grid, x, y, size, number, color, colors, text, plain) {
  const together = grid.state.interval === "all", [least, most] = shownEnds(grid, number, together);
  const value = grid.whole ? number.whole : number.estimate;
  const unsure = trustOf(grid, number, together) === "zero", zero = x(0), end = x(value), middle = y + size / 2;
  const low = x(least), high = x(most), cap = Math.min(3.5, size / 3);
  const shape = grid.state.view === "dots" || plain === "dots"
    ? s("circle", { cx: end, cy: middle, r: Math.min(4.5, Math.max(2.2, size / 3)), fill: unsure ? colors.paper : color, stroke: color, "stroke-width": 1.6 })
    : [s("rect", { x: Math.min(zero, end), y, width: Math.max(0.6, Math.abs(end - zero)), height: size, fill: color, "fill-opacity": unsure ? 0.75 : 1 }),
      unsure ? s("rect", { x: Math.min(zero, end), y, width: Math.max(0.6, Math.abs(end - zero)), height: size, fill: "url(#hatch)" }) : null];
  return s("g", { class: "mark" }, s("title", {}, text), shape,
    s("path", { d: `M${low} ${middle}H${high}M${low} ${middle - cap}V${middle + cap}M${high} ${middle - cap}V${middle + cap}`, stroke: colors.interval, "stroke-width": 1.1, "stroke-opacity": 0.8, fill: "none" }),
    s("rect", { x: Math.min(zero, low), y, width: Math.max(1, Math.max(high, end) - Math.min(zero, low)), height: size, fill: "transparent" }));
}

function series(grid, panel, width, colors, limits, notes) {
  const columns = grid.columns.slice(0, MOST_SERIES);
  if (columns.length < grid.columns.length) notes.push(`The chart shows the first ${columns.length} of ${grid.columns.length} columns; a heat map or small multiples show more.`);
  const rows = grid.rows.slice(0, Math.max(4, Math.floor(MOST_BARS / columns.length)));
  if (rows.length < grid.rows.length) notes.push(`The chart shows the first ${rows.length} of ${grid.rows.length} rows.`);
  const left = widthOfLabels(rows, width), size = columns.length === 1 ? 18 : columns.length < 4 ? 11 : 8;
  const group = columns.length * (size + (columns.length === 1 ? 0 : 1)) + (columns.length === 1 ? 8 : 10);
  const key = columns.length > 1 ? legend(columns, width, colors) : { marks: null, height: 0 };
  const bottom = rows.length * group, x = scale(limits, left + 6, width - 14);
  const marks = [axis(grid, limits, x, bottom, width - left, colors)];
  rows.forEach((row, at) => {
    const y = at * group + 4;
    marks.push(svgLabel(row.text || "All records", Math.floor((left - 6) / 6.4), { x: left, y: y + (group - 8) / 2 + 4, "text-anchor": "end", fill: colors.ink }));
    columns.forEach((column, place) => {
      const number = grid.numberAt(row, column, panel);
      if (!number.determined) return;
      marks.push(mark(grid, x, y + place * (size + (columns.length === 1 ? 0 : 1)), size, number, colors.series[place], colors, described(grid, row, column, panel, number)));
    });
  });
  return { marks: [key.marks, s("g", { transform: `translate(0 ${key.height})` }, marks)], height: key.height + bottom + 24 };
}

function legend(columns, width, colors) {
  let x = 0, y = 12;
  const marks = columns.map((column, at) => {
    const text = cut(column.text, 28), own = 18 + Array.from(text).length * 6.6 + 16;
    if (x > 0 && x + own > width) { x = 0; y += 19; }
    const part = s("g", {}, s("rect", { x, y: y - 10, width: 12, height: 12, fill: colors.series[at], rx: 2 }),
      s("text", { x: x + 18, y, fill: colors.ink }, isolated(text), s("title", {}, column.text)));
    x += own;
    return part;
  });
  return { marks: s("g", {}, marks), height: y + 12 };
}

function heat(grid, panel, width, colors, limits, notes) {
  const columns = grid.columns.slice(0, 60), rows = grid.rows.slice(0, 100);
  if (rows.length < grid.rows.length || columns.length < grid.columns.length) notes.push("The chart shows the first 100 rows and 60 columns at most.");
  const left = widthOfLabels(rows, width), room = width - left - 8, across = Math.min(160, room / columns.length), down = 26;
  const longest = columns.reduce((most, column) => Math.max(most, Array.from(column.text).length), 0);
  const slanted = longest * 6.6 > across - 6, top = slanted ? Math.min(110, longest * 4.9 + 16) : 22;
  const most = Math.max(limits.high / 1.01, 1e-300), together = grid.state.interval === "all";
  const marks = columns.map((column, at) => {
    const x = left + 8 + (at + 0.5) * across;
    if (!column.ids.length) return null;
    return slanted
      ? svgLabel(column.text, 20, { transform: `translate(${x + 3} ${top - 6}) rotate(-50)`, fill: colors.ink, "font-size": Math.min(12, Math.max(8, across)) })
      : svgLabel(column.text, Math.floor(across / 6.4), { x, y: top - 8, "text-anchor": "middle", fill: colors.ink });
  });
  rows.forEach((row, at) => {
    const y = top + at * down;
    marks.push(svgLabel(row.text || "All records", Math.floor((left - 6) / 6.4), { x: left, y: y + 17, "text-anchor": "end", fill: colors.ink }));
    columns.forEach((column, place) => {
      const number = grid.numberAt(row, column, panel), x = left + 8 + place * across;
      if (!number.determined) return;
      const value = grid.whole ? number.whole : number.estimate;
      const share = Math.sqrt(Math.max(0, Math.min(1, value / most))), mixed = colors.low.map((low, part) => Math.round(low + share * (colors.high[part] - low)));
      const light = (mixed[0] * 299 + mixed[1] * 587 + mixed[2] * 114) / 1000 > 140;
      const { value: text } = textOf(grid, number, together), unsure = trustOf(grid, number, together) === "zero";
      marks.push(s("g", { class: "mark" }, s("title", {}, described(grid, row, column, panel, number)),
        s("rect", { x: x + 0.5, y: y + 0.5, width: Math.max(1, across - 1), height: down - 1, fill: `rgb(${mixed.join(",")})` }),
        unsure ? s("rect", { x: x + 0.5, y: y + 0.5, width: Math.max(1, across - 1), height: down - 1, fill: "url(#hatch)" }) : null,
        text.length * 6.6 < across - 6 ? s("text", { x: x + across / 2, y: y + 17, "text-anchor": "middle", fill: unsure ? colors.soft : light ? "#14202b" : "#ffffff", "font-size": 11 }, text) : null));
    });
  });
  return { marks, height: top + rows.length * down + 4 };
}

function multiples(grid, panel, width, colors, limits, notes) {
  const columns = grid.columns.slice(0, MOST_PANELS), rows = grid.rows.slice(0, 40);
  if (rows.length < grid.rows.length) notes.push(`Each chart shows the first ${rows.length} of ${grid.rows.length} rows.`);
  if (columns.length < grid.columns.length) notes.push(`There are charts for the first ${columns.length} of ${grid.columns.length} columns.`);
  const left = widthOfLabels(rows, Math.min(width, 500)), per = Math.max(1, Math.min(columns.length, Math.floor((width - left) / 170)));
  const own = (width - left) / per, down = 17, bottom = rows.length * down, tall = bottom + 58;
  const marks = columns.map((column, at) => {
    const first = at % per === 0, x0 = left + (at % per) * own, y0 = Math.floor(at / per) * tall;
    const x = scale(limits, 8, own - 14);
    return s("g", { transform: `translate(${x0} ${y0})` },
      svgLabel(column.text || grid.values.of.title, Math.floor(own / 7), { x: 8, y: 14, "font-weight": 600, fill: colors.ink }),
      s("g", { transform: "translate(0 22)" }, axis(grid, limits, x, bottom, own - 30, colors),
        rows.map((row, place) => {
          const number = grid.numberAt(row, column, panel), y = place * down + 3;
          const name = first ? svgLabel(row.text || "All records", Math.floor((left - 6) / 6.4), { x: 0, y: y + 10, "text-anchor": "end", fill: colors.ink }) : null;
          if (!number.determined) return name;
          return [name, mark(grid, x, y, 11, number, colors.series[0], colors, described(grid, row, column, panel, number), "bars")];
        })));
  });
  return { marks, height: Math.ceil(columns.length / per) * tall - 8 };
}

// What the signs of a chart mean.
export function chartKey(grid) {
  const sure = Math.round(grid.cube.confidence * 1000) / 10;
  const what = grid.state.interval === "all"
    ? `Lines are ${sure} % intervals that hold for all numbers of the table at once.`
    : `Lines are ${sure} % intervals, each for its own number.`;
  const unsure = { dots: "Open dots", heat: "Hatched cells", bars: "Hatched bars", multiples: "Hatched bars" }[grid.state.view];
  return h("p", { class: "key" }, grid.state.view === "heat" ? "" : what + " ", `${unsure} may be nothing but noise: their interval holds zero.`);
}
