// What is shown, as a file: CSV, SVG or PNG.

import { cut } from "./elements.js";
import { trustOf } from "./values.js";

const WORDS = { "": "ok", uncertain: "uncertain", zero: "holds zero" };

export function csvOf(grid) {
  const { cube, state, rows, columns, panels } = grid;
  const names = state.axes.slice(0, 3).map((at) => cube.axisTitle(at));
  const held = state.axes.slice(3).map((at) => `${cube.axisTitle(at)}: ${state.held.has(at) ? cube.labelsOf[at][state.held.get(at)] : "all"}`);
  const numbers = ["estimate", "std_error", "low", "high", "low_all", "high_all", ...(grid.values.own.whole && !grid.percent ? ["count"] : []), ...(grid.values.isMean ? [] : ["reliability"])];
  const lines = [[...names, ...held.map((_, at) => `held ${at + 1}`), ...(grid.percent ? ["percent of"] : []), ...numbers]];
  const places = Math.min(12, Math.max(0, grid.values.own.decimals) + (grid.percent ? 4 : 0));
  const round = (value) => (Number.isNaN(value) ? "" : String(Number(value.toFixed(places))));
  for (const panel of panels) for (const row of rows) for (const column of columns) {
    const number = grid.numberAt(row, column, panel);
    const { estimate, error, low, high, lowAll, highAll } = number;
    lines.push([
      ...[row, column, panel].slice(0, names.length).map((entry) => entry.text), ...held, ...(grid.percent ? [state.percent] : []),
      ...[estimate, error, low, high, lowAll, highAll].map(round),
      ...(grid.values.own.whole && !grid.percent ? [String(number.whole)] : []),
      ...(grid.values.isMean ? [] : [number.determined ? WORDS[trustOf(grid, number, false)] : "not determined"]),
    ]);
  }
  return lines.map((line, at) => line.map((text) => quoted(at === 0 || !/^-?\d+(\.\d+)?(e[+-]?\d+)?$/.test(text) ? safe(text) : text)).join(",")).join("\n") + "\n";
}

// Text that no spreadsheet takes for a formula.
function safe(text) {
  return text.replace(/(^|[;|\t\r\n])(?='*\s*[=+\-@\t\r＝＋－＠])/g, "$1'");
}

function quoted(text) {
  return /[",\n\r;]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function svgText(svg) {
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(svg) + "\n";
}

// A picture of twice the size on the screen, for print.
export async function pngOf(svg) {
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(svg));
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * svg.width.baseVal.value;
  canvas.height = 2 * svg.height.baseVal.value;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export function offer(content, name, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export function fileName(grid, kind) {
  const plain = grid.cube.tableTitle(grid.state.axes).normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").toLowerCase();
  return `${cut(plain, 60).replace("…", "") || "table"}.${kind}`;
}
