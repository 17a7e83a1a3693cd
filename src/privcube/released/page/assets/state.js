// What the reader has chosen, kept in the address, and the grid of numbers that follows from it.

export const VIEWS = [["bars", "Bars"], ["dots", "Dots"], ["heat", "Heat map"], ["multiples", "Small multiples"]];
export const TABS = [["tables", "Tables"], ["privacy", "Privacy"], ["plan", "How it was made"], ["codebook", "Codebook"]];
const PLAIN = { tab: "tables", view: "bars", quantity: "0", interval: "each", percent: "none", sort: "declared", numbers: "estimate" };
const CHOICES = {
  tab: TABS.map(([key]) => key),
  view: VIEWS.map(([key]) => key),
  interval: ["each", "all"],
  percent: ["none", "table", "row", "column"],
  numbers: ["estimate", "whole"],
};

// The state in an address such as #axes=3,1&view=heat; whatever is not understood is left out.
export function readState(cube, hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { ...PLAIN, keep: new Map(), held: new Map(), picks: [] };
  for (const key of Object.keys(PLAIN)) {
    const value = given.get(key);
    if (value !== null && (!CHOICES[key] || CHOICES[key].includes(value))) state[key] = value;
  }
  if (!/^(declared|label|(up|down)(:\d+)?)$/.test(state.sort)) state.sort = "declared";
  state.axes = numbersIn(given.get("axes"), cube.axes.length);
  const attributes = state.axes.map((at) => cube.axes[at].attribute);
  if (given.get("axes") === null || new Set(attributes).size < attributes.length || !cube.measures(state.axes).length) state.axes = firstAxes(cube);
  for (const at of state.axes) {
    const keep = given.get(`keep${at}`);
    const kept = keep === null ? [] : numbersIn(keep, cube.labelsOf[at].length);
    if (kept.length) state.keep.set(at, kept);
    const held = given.get(`only${at}`);
    if (held !== null) numbersIn(held, cube.labelsOf[at].length).slice(0, 1).forEach((one) => state.held.set(at, one));
  }
  state.picks = (given.get("picks") ?? "").split(";").map((text) => numbersIn(text, Infinity))
    .filter((pick) => pick.length === state.axes.length && pick.every((one, place) => one < cube.labelsOf[state.axes[place]].length) && pick.length > 0);
  return state;
}

export function writeState(state) {
  const found = new URLSearchParams();
  found.set("axes", state.axes.join(","));
  for (const [key, plain] of Object.entries(PLAIN)) if (state[key] !== plain) found.set(key, state[key]);
  for (const [at, kept] of state.keep) if (state.axes.includes(at)) found.set(`keep${at}`, kept.join(","));
  for (const [at, one] of state.held) if (state.axes.includes(at)) found.set(`only${at}`, one);
  if (state.picks.length) found.set("picks", state.picks.map((pick) => pick.join(",")).join(";"));
  return "#" + found.toString().replaceAll("%2C", ",").replaceAll("%3B", ";").replaceAll("%3A", ":");
}

function numbersIn(text, below) {
  const found = (text ?? "").split(",").filter((part) => /^\d{1,9}$/.test(part)).map(Number).filter((one) => one < below);
  return [...new Set(found)].length === found.length || below === Infinity ? found : [...new Set(found)];
}

// What to show first: a table of two attributes that fits on a screen, else the first one.
function firstAxes(cube) {
  const fits = cube.tables.findIndex((table, number) => table.axes.length === 2 && table.cells <= 60 && table.axes.every((at) => cube.adds(at)) && cube.has(number));
  const own = cube.tables[Math.max(fits, 0)].axes;
  return inOrder(cube, own);
}

// Axes with the one that has the most labels first: it goes down the side.
export function inOrder(cube, axes) {
  return [...axes].sort((one, other) => cube.labelsOf[other].length - cube.labelsOf[one].length);
}

// The numbers that are shown: rows, columns and panels of labels, and what stands at each place.
export function gridOf(cube, answer, values, state) {
  const { axes } = state;
  const all = axes.map((at) => cube.labelsOf[at].map((_, one) => one));
  const kept = axes.map((at, place) => state.keep.get(at) ?? all[place]);
  const entries = (place) => (place < axes.length
    ? kept[place].map((one) => ({ ids: [one], text: cube.labelsOf[axes[place]][one], place }))
    : [{ ids: [], text: "", place: -1 }]);
  const whole = answer.table.axes.map((at) => cube.labelsOf[at].map((_, one) => one));
  const setOf = (row, column, panel) => {
    const set = [...whole];
    [row, column, panel].forEach((entry, place) => {
      if (place < axes.length) put(answer, set, place, entry.ids);
    });
    for (let place = 3; place < axes.length; place++) {
      const one = state.held.get(axes[place]);
      put(answer, set, place, one === undefined ? kept[place] : [one]);
    }
    return set;
  };
  const adds = (place) => values.of.adds && place < axes.length && cube.adds(axes[place]);
  const total = (place) => ({ ids: kept[place], text: kept[place].length < all[place].length ? "Total shown" : "Total", place, total: true });
  const [whole0, whole1] = [0, 1].map((place) => (place < axes.length ? total(place) : null));
  const [rows, columns, panels] = [0, 1, 2].map(entries);
  const totals = { row: adds(0) && rows.length > 1 ? whole0 : null, column: adds(1) && columns.length > 1 ? whole1 : null };
  const base = { none: null, table: [0, 1], row: [1], column: [0] }[state.percent];
  const canShare = base !== null && values.of.key === "count" && base.every((place) => place >= axes.length || adds(place));
  const wholes = new Map();
  const wholeOf = (over, across, panel) => {
    const key = `${over.total ? "t" : over.ids}/${across.total ? "t" : across.ids}/${panel.ids}`;
    if (!wholes.has(key)) wholes.set(key, setOf(over, across, panel));
    return wholes.get(key);
  };
  const numberAt = (row, column, panel) => {
    const set = setOf(row, column, panel);
    if (!canShare) return values.number(set);
    const over = base.includes(0) && adds(0) ? whole0 : row;
    const across = base.includes(1) && adds(1) ? whole1 : column;
    return values.share(set, wholeOf(over, across, panel));
  };
  sortRows(rows, columns, panels, totals, state, numberAt);
  return { cube, answer, values, state, rows, columns, panels, totals, setOf, numberAt, percent: canShare, whole: state.numbers === "whole" && !canShare && values.own.whole !== undefined };
}

function put(answer, set, place, ids) {
  const groups = answer.groups[place];
  set[answer.sources[place]] = groups === null ? ids : ids.flatMap((one) => groups[one]);
}

function sortRows(rows, columns, panels, totals, state, numberAt) {
  if (state.sort === "label") rows.sort((one, other) => one.text.localeCompare(other.text, "en", { numeric: true }));
  const [, way, , by] = /^(up|down)(:(\d+))?$/.exec(state.sort) ?? [];
  if (!way) return;
  const column = by !== undefined ? columns.find((entry) => entry.ids[0] === Number(by)) ?? columns[0] : totals.column ?? columns[0];
  const known = (row) => { const { estimate } = numberAt(row, column, panels[0]); return Number.isNaN(estimate) ? -Infinity : estimate; };
  const value = new Map(rows.map((row) => [row, known(row)]));
  rows.sort((one, other) => (way === "up" ? value.get(one) - value.get(other) : value.get(other) - value.get(one)));
}
