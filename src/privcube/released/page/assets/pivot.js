// The table: rows by columns, each number with its margin, panels below each other.

import { h, label } from "./elements.js";
import { endsOf, shownEnds, trustOf } from "./values.js";
import { percent, placesFor, shown } from "./format.js";

const MOST_CELLS = 1200; // drawn at once, so that a change takes no time; the rest on request

export const UNKNOWN = "not determined";
const TITLES = {
  zero: "The interval holds zero: this may be nothing but noise.",
  uncertain: "Uncertain: the standard error is a large part of the number.",
};

// A number as it is written, and its margin; both ends of intervals that have no number in their middle: those of shares
// and means, and those of estimates beside whole numbers.
export function textOf(grid, number, together) {
  if (!number.determined) return { value: UNKNOWN, margin: "" };
  if (number.ends) {
    const [low, high] = endsOf(number, together), times = grid.percent ? 100 : 1;
    const places = grid.percent ? Math.min(4, placesFor(number.error * 100)) : grid.cube.decimals ?? placesFor(number.error);
    const step = 10 ** -places;
    const down = Math.floor((low * times) / step + 1e-9) * step, up = Math.ceil((high * times) / step - 1e-9) * step;
    if (number.exact) return { value: grid.percent ? percent(low, 0) : shown(low, places), margin: "" };
    return { value: grid.percent ? percent(number.estimate, places) : shown(number.estimate, places), margin: `${shown(down, places)} to ${shown(up, places)}` };
  }
  const places = number.exact ? 0 : grid.cube.decimals ?? placesFor(number.error);
  const value = grid.whole ? shown(number.whole) : shown(number.estimate, places);
  if (number.exact && (!grid.whole || number.whole === number.estimate)) return { value, margin: "" };
  if (grid.whole) return { value, margin: shownEnds(grid, number, together).map((end) => shown(end)).join(" to ") };
  return { value, margin: "± " + shown(together ? number.marginAll : number.margin, places) };
}

export function pivot(grid, { onpick, onsort, onmore, all }) {
  const { cube, state, rows, columns, panels, totals } = grid;
  const together = state.interval === "all";
  const most = all ? Infinity : Math.max(10, Math.floor(MOST_CELLS / (columns.length + 1) / panels.length));
  const shownColumns = all ? columns : columns.slice(0, 60);
  const shownRows = rows.slice(0, most);
  const across = totals.column ? [...shownColumns, totals.column] : shownColumns;
  const [, way, , by] = /^(up|down)(:(\d+))?$/.exec(state.sort) ?? [];
  const heading = (column) => {
    const key = column.total || column.ids.length === 0 ? "" : `:${column.ids[0]}`;
    const sorted = way && (by === undefined ? "" : `:${by}`) === key ? way : null;
    const text = column.ids.length ? column.text : unitOf(grid);
    return h("th", { scope: "col", class: column.total ? "total" : "", "aria-sort": sorted === null ? "none" : sorted === "up" ? "ascending" : "descending" },
      h("button", { type: "button", class: "sort", onclick: () => onsort((sorted === "down" ? "up" : "down") + key), title: "Sort by this column" },
        label(text), h("span", { class: "arrow", "aria-hidden": "true" }, sorted === "up" ? "▲" : sorted === "down" ? "▼" : "")));
  };
  const cell = (row, column, panel) => {
    const number = grid.numberAt(row, column, panel);
    const { value, margin } = textOf(grid, number, together);
    const pick = [row, column, panel].slice(0, state.axes.length).map((entry) => (entry.total ? null : entry.ids[0]));
    const single = !row.total && !column.total && state.axes.length > 0 && state.axes.length <= 3;
    const picked = single && state.picks.some((own) => own.join() === pick.join());
    const trust = trustOf(grid, number, together);
    return h("td", {
      class: [row.total || column.total ? "total" : "", trust === "zero" ? "unsure" : trust, number.determined ? "" : "unknown", picked ? "picked" : ""].join(" ").trim() || null,
      "data-pick": single ? pick.join() : null, tabindex: single ? -1 : null, "aria-selected": single ? String(picked) : null,
      title: TITLES[trust] ?? null,
      onclick: single ? () => onpick(pick) : null,
      onkeydown: single ? (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); onpick(pick); } } : null,
    }, h("span", { class: "value" }, value), trust === "uncertain" ? h("span", { class: "flag" }, "†") : null, " ", h("span", { class: "margin" }, margin));
  };
  const line = (row, panel) => h("tr", { class: row.total ? "total" : null },
    h("th", { scope: "row", class: row.total ? "total" : null }, row.ids.length ? label(row.text) : "All"),
    across.map((column) => cell(row, column, panel)));
  const bodies = panels.map((panel) => h("tbody", {},
    panel.ids.length ? h("tr", { class: "panel" }, h("th", { scope: "rowgroup", colspan: across.length + 1 }, label(panel.text))) : null,
    shownRows.map((row) => line(row, panel)),
    totals.row ? line(totals.row, panel) : null));
  const table = h("table", { class: "pivot", role: "grid", "aria-label": cube.tableTitle(state.axes), onkeydown: (event) => moved(table, event) },
    h("thead", {},
      state.axes.length > 1 ? h("tr", {}, h("td", { class: "corner" }), h("th", { colspan: across.length, scope: "colgroup", class: "across" }, label(cube.axisTitle(state.axes[1])))) : null,
      h("tr", {}, h("th", { scope: "col", class: "corner" }, state.axes.length ? label(cube.axisTitle(state.axes[0])) : ""), across.map(heading))),
    bodies);
  const first = table.querySelector("tbody td[tabindex]");
  if (first) first.tabIndex = 0;
  const hidden = rows.length - shownRows.length, hiddenColumns = columns.length - shownColumns.length;
  return h("div", { class: "table-block" },
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" }, table),
    hidden > 0 || hiddenColumns > 0
      ? h("p", { class: "more" }, h("button", { type: "button", onclick: onmore },
        `Show all ${shown(rows.length)} rows${hiddenColumns > 0 ? ` and ${shown(columns.length)} columns` : ""}`))
      : null);
}

export function unitOf(grid) {
  const { of } = grid.values;
  return grid.percent ? "Percent" : grid.whole ? `${of.title} (whole)` : of.title;
}

// Arrow keys go from cell to cell.
function moved(table, event) {
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  const cell = event.target.closest("td");
  if (!steps || !cell) return;
  event.preventDefault();
  const lines = [...table.querySelectorAll("tbody tr")].map((line) => [...line.querySelectorAll("td[tabindex]")]).filter((line) => line.length);
  const at = lines.findIndex((line) => line.includes(cell)), place = lines[at].indexOf(cell);
  const next = lines[at + steps[0]]?.[place + steps[1]];
  if (!next) return;
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
