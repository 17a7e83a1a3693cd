// The page: reads its document, keeps the state in the address, draws.

import { choice, h, label } from "./elements.js";
import { Cube } from "./cube.js";
import { counted, percent, placesFor, shown } from "./format.js";
import { TABS, gridOf, inOrder, readState, writeState } from "./state.js";
import { pivot, textOf } from "./pivot.js";
import { chart, chartKey } from "./charts.js";
import { csvOf, fileName, offer, pngOf, svgText } from "./download.js";
import { codebook, paragraphs, readable } from "./texts.js";
import { controls } from "./controls.js";

const DISPLAY = ["view", "interval", "percent", "numbers", "sort", "picks"]; // what changes neither the table nor the controls

class App {
  constructor(cube) {
    this.cube = cube;
    this.state = readState(cube, location.hash);
    this.opened = new Set();
    this.finding = this.seeking = "";
    this.measures = [];
    this.all = false;
    this.side = h("div", { class: "side", id: "side" });
    this.main = h("main", { id: "main", tabindex: -1 });
    this.status = h("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    this.nav = h("nav", { "aria-label": "Parts of this page" });
    window.addEventListener("hashchange", () => {
      if (location.hash === writeState(this.state)) return;
      this.state = readState(cube, location.hash);
      this.draw();
    });
    let waiting = 0;
    new ResizeObserver(() => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.resized(), 120);
    }).observe(this.main);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawChart());
  }

  mount() {
    const { cube } = this;
    const theme = h("button", { type: "button", id: "theme", class: "quiet", onclick: () => this.turn() }, "Light or dark");
    document.body.prepend(
      h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); this.main.focus(); } }, "Skip to the table"),
      h("header", {}, h("div", { class: "inner" },
        h("div", { class: "names" }, cube.about.publisher ? h("p", { class: "publisher" }, label(cube.about.publisher)) : null, h("h1", {}, label(cube.title)),
          cube.about.period ? h("p", { class: "period" }, label(cube.about.period)) : null,
          cube.description.split("\n").filter((line) => line.trim()).map((line) => h("p", { class: "lead" }, label(line))),
          h("p", { class: "facts" }, `${counted(cube.tables.length, "table")} · noise added for privacy: ${cube.guarantee}`)),
        theme), this.nav),
      h("div", { class: "page" }, this.side, this.main),
      h("footer", {}, cube.about.contact || cube.about.licence ? h("p", {}, [["Contact", "contact"], ["Licence", "licence"]].filter(([, key]) => cube.about[key]).map(([text, key]) => h("span", { class: "fact" }, `${text}: `, label(cube.about[key])))) : null, h("p", {}, `Made with privcube ${cube.privcube}. Plan ${cube.plan.slice(0, 16)}. Numbers here are rounded to what their errors leave; the files in `, h("code", {}, "tables"), " have all digits.")),
      this.status);
    return this.draw();
  }

  turn() {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    this.drawChart();
  }

  // The nearest table to axes that have none: without the last of them.
  nearest(axes) {
    let found = axes;
    while (found.length && !this.cube.measures(found).length) found = found.slice(0, -1);
    return this.cube.measures(found).length ? found : this.state.axes;
  }

  async change(next, focus) {
    const keys = Object.keys(next), before = this.state.sort;
    Object.assign(this.state, next);
    if ("axes" in next && this.state.sort.includes(":")) this.state.sort = "declared";
    history.replaceState(null, "", writeState(this.state));
    const byColumn = keys.includes("sort") && (before + this.state.sort).includes(":"); // the list of orders changes, too
    if (this.figure?.isConnected && keys.every((key) => DISPLAY.includes(key)) && !byColumn) {
      this.redraw(keys);
      return;
    }
    this.all = false;
    await this.draw();
    if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  }

  // What is shown of the same table, with the controls as they stand.
  redraw(keys) {
    this.links();
    if (keys.every((key) => key === "picks")) {
      const picked = new Set(this.state.picks.map((pick) => pick.join()));
      for (const cell of this.block.querySelectorAll("td[data-pick]")) {
        const on = picked.has(cell.dataset.pick);
        cell.classList.toggle("picked", on);
        cell.setAttribute("aria-selected", String(on));
      }
    } else if (!keys.every((key) => key === "view")) {
      this.grid = gridOf(this.cube, this.grid.answer, this.grid.values, this.state);
      const [block, notes] = [this.pivot(), this.notes()];
      this.block.replaceWith(block);
      this.noted.replaceWith(notes);
      [this.block, this.noted] = [block, notes];
    }
    if (keys.some((key) => key !== "view")) {
      const compared = this.picked();
      this.compared.replaceWith(compared);
      this.compared = compared;
    }
    if (keys.some((key) => key !== "picks")) this.drawChart();
  }

  pivot() {
    return pivot(this.grid, {
      all: this.all,
      onpick: (pick) => this.pick(pick),
      onsort: (sort) => this.change({ sort }, null),
      onmore: () => { this.all = true; this.draw(); },
    });
  }

  // Links to the other parts keep the view.
  links() {
    for (const link of this.nav.querySelectorAll("a")) link.setAttribute("href", writeState({ ...this.state, tab: link.dataset.tab }));
  }

  async draw() {
    const { cube, state } = this;
    this.nav.replaceChildren(h("ul", {}, TABS.map(([key, text]) => h("li", {}, h("a", {
      href: writeState({ ...state, tab: key }), "data-tab": key, "aria-current": state.tab === key ? "page" : null,
      onclick: (event) => { event.preventDefault(); this.change({ tab: key }, null).then(() => this.main.focus({ preventScroll: true })); },
    }, text)))));
    document.body.dataset.tab = state.tab;
    if (state.tab !== "tables") {
      this.side.replaceChildren();
      const parts = { privacy: () => readable(cube.texts.privacy), plan: () => [h("h2", {}, "How it was made"), paragraphs(cube.texts.plan)], codebook: () => codebook(cube) }[state.tab]();
      this.main.replaceChildren(h("article", {}, ...parts.flat(Infinity)));
      return;
    }
    this.measures = cube.measures(state.axes);
    const of = this.measures.includes(Number(state.quantity)) ? Number(state.quantity) : this.measures[0];
    const answer = cube.resolve(state.axes, of);
    if (!cube.has(answer.number)) {
      this.side.replaceChildren(...controls(this).filter(Boolean));
      this.main.replaceChildren(h("h2", {}, label(cube.tableTitle(state.axes))), h("p", { class: "notice" },
        `This table has ${counted(answer.table.cells, "cell")}, too many for this page to carry. It is in the folder `, h("code", {}, "tables"),
        ", and ", h("code", {}, "privcube explore"), " shows it in a page like this."));
      return;
    }
    state.quantity = String(of);
    this.grid = gridOf(cube, answer, await cube.values(answer.number, of), state);
    this.side.replaceChildren(...controls(this).filter(Boolean));
    this.figure = h("figure", {});
    [this.block, this.noted, this.compared] = [this.pivot(), this.notes(), this.picked()];
    if (this.width) this.fill(); // before it is in the page, so that all is laid out once
    this.main.replaceChildren(h("h2", {}, label(cube.tableTitle(state.axes))), this.summary(), this.figure, this.tools(), this.block, this.noted, this.compared);
    if (!this.width) this.drawChart();
    this.status.textContent = `${cube.tableTitle(state.axes)}: ${counted(this.grid.rows.length * this.grid.columns.length * this.grid.panels.length, "number")}`;
  }

  drawChart() {
    if (!this.figure?.isConnected) return;
    if (!this.width) this.width = Math.max(280, Math.floor(this.figure.clientWidth));
    this.fill();
  }

  resized() {
    const before = this.width;
    this.width = this.figure?.isConnected ? Math.max(280, Math.floor(this.figure.clientWidth)) : 0;
    if (this.width !== before) this.drawChart();
  }

  fill() {
    const { svg, notes } = chart(this.grid, this.width);
    this.svg = svg;
    this.figure.replaceChildren(svg, h("figcaption", {}, chartKey(this.grid), notes.map((note) => h("p", { class: "key" }, note))));
  }

  summary() {
    const { answer, values } = this.grid;
    const { key, title, unit } = values.of, what = !unit ? title : key === "count" ? `${title} of ${unit}` : `${title} (${unit})`;
    if (values.isMean) return h("p", { class: "summary" }, `${what}, from noisy sums and counts.`);
    const error = values.at(values.own.std_error, 0);
    const added = answer.exact ? "" : ` Added up from the table ${this.cube.tableTitle(answer.table.axes)}.`;
    const own = Array.isArray(values.own.std_error) ? "between " + [Math.min(...values.own.std_error), Math.max(...values.own.std_error)].map((one) => shown(one, placesFor(one) + 1)).join(" and ") : shown(error, placesFor(error) + 1);
    return h("p", { class: "summary" }, `${what}, with a standard error of ${own} in each cell of the published table.${added}`);
  }

  tools() {
    const { grid } = this;
    const button = (text, onclick) => h("button", { type: "button", onclick }, text);
    return h("div", { class: "tools", role: "group", "aria-label": "Downloads" },
      button("Download CSV", () => offer(csvOf(grid), fileName(grid, "csv"), "text/csv")),
      button("SVG", () => offer(svgText(this.svg), fileName(grid, "svg"), "image/svg+xml")),
      button("PNG", async () => offer(await pngOf(this.svg), fileName(grid, "png"), "image/png")),
      button("Copy link", async (event) => {
        const { target } = event;
        try { await navigator.clipboard.writeText(location.href); target.textContent = "Link copied"; } catch { target.textContent = "Copy it from the address bar"; }
      }),
      button("Print", () => window.print()));
  }

  notes() {
    const { grid, cube } = this, sure = percent(cube.confidence, 0);
    const what = grid.percent || grid.values.isMean ? "From ... to is the interval" : "± is the margin";
    const lines = grid.whole ? [
      `From ... to are the whole numbers in the interval of the estimate, widened to hold the number that is shown. It holds the true count with ${sure} confidence, ${this.state.interval === "all" ? "for all numbers of the published table at once" : "each by itself"}. Whole numbers can occur together, but need not lie in the middle.`,
      "Estimates themselves are what is compared and added up below.",
    ] : [
      this.state.interval === "all" && !grid.values.isMean
        ? `${what} that holds for all numbers of the published table at once with ${sure} confidence.`
        : `${what} of each number with ${sure} confidence: one in ${shown(1 / (1 - cube.confidence))} may be farther off.`,
    ];
    const counts = grid.values.of.key === "count" && !grid.whole && !grid.percent; // sums of a measure may be below zero for good
    if (!grid.values.isMean) lines.push("Gray numbers may be nothing but noise: their interval holds zero." + (counts ? " Counts below zero are small counts with noise; they are kept so that sums are right on average." : ""));
    if (grid.values.isMean) lines.push("Means have intervals of their own, each by itself; a mean is not determined where there may be no records.");
    else lines.push(`† marks uncertain numbers: their standard error is above ${percent(cube.reliability, 0)} of them.`);
    if (grid.percent) lines.push("Percentages are of what is shown, with the ends of their intervals; a percentage is not determined where the whole may be nothing.");
    if (!grid.values.isMean) lines.push(grid.values.classes
      ? "Margins of totals, sums, differences and percentages hold at least as often: the standard error is exact, and the margin is enough for every shape of the noise."
      : "For this table the page knows no covariances: margins of totals, sums, differences and percentages are at most what is shown.");
    if (!cube.agrees) lines.push("Tables of this release need not agree with each other.");
    return h("div", { class: "notes" }, lines.map((line) => h("p", {}, line)));
  }

  pick(pick) {
    const at = this.state.picks.findIndex((own) => own.join() === pick.join());
    const picks = at < 0 ? [...this.state.picks, pick] : this.state.picks.filter((_, place) => place !== at);
    this.change({ picks }, null);
  }

  entries(pick) {
    return [0, 1, 2].map((place) => (place < pick.length ? { ids: [pick[place]], text: this.cube.labelsOf[this.state.axes[place]][pick[place]] } : { ids: [], text: "" }));
  }

  picked() {
    const { cube, state, grid } = this;
    if (!state.axes.length || state.axes.length > 3) return h("div", {});
    const name = (pick) => pick.map((one, place) => cube.labelsOf[state.axes[place]][one]).join(", ");
    const selects = state.axes.map((at, place) => choice(`pick-${place}`, cube.labelsOf[at].slice(0, 2000).map((text, one) => [one, text]), 0, () => {}, { "aria-label": cube.axisTitle(at) }));
    const form = h("form", { class: "pick", onsubmit: (event) => { event.preventDefault(); this.pick(selects.map((select) => Number(select.value))); } },
      selects, h("button", { type: "submit", id: "pick-add" }, "Add"));
    const chips = h("ul", { class: "chips" }, state.picks.map((pick) => h("li", {}, label(name(pick)),
      h("button", { type: "button", "aria-label": `Remove ${name(pick)}`, onclick: () => this.pick(pick) }, "×"))));
    return h("section", { class: "compare", "aria-label": "Compare and add up" },
      h("h3", {}, "Compare and add up"),
      h("p", {}, "Click numbers of the table, or choose them here. Two are compared; any number of them are added up."),
      form, state.picks.length ? chips : null, h("div", { "aria-live": "polite", class: "verdict" }, verdicts(grid, state, state.picks.map((pick) => [name(pick), grid.setOf(...this.entries(pick))]))));
  }
}

// What can be said of the picked numbers.
function verdicts(grid, state, picks) {
  if (!picks.length) return [];
  const { values } = grid, together = state.interval === "all";
  const marginOf = (number) => (together ? number.marginAll : number.margin);
  const say = (number) => { const places = placesFor(number.error); return `${shown(number.estimate, places)} ± ${shown(marginOf(number), places)}`; };
  const bound = (number) => (number.bound && !values.classes ? " The margin is at most that." : "");
  if (values.isMean) return means(grid, picks);
  const found = [];
  if (picks.length === 2) {
    const [[one, first], [other, second]] = picks;
    const apart = values.difference(first, second), places = placesFor(apart.error);
    const real = Math.abs(apart.estimate) > marginOf(apart), [more, less] = apart.estimate >= 0 ? [one, other] : [other, one];
    found.push(h("p", { class: real ? "real" : "not-real" },
      h("strong", {}, real ? "The difference is real. " : "The difference may be noise. "),
      label(more), " has ", h("strong", {}, `${shown(Math.abs(apart.estimate), places)} ± ${shown(marginOf(apart), places)}`), " more than ", label(less),
      real ? `: with ${percent(grid.cube.confidence, 0)} confidence between ${shown(Math.abs(apart.estimate) - marginOf(apart), places)} and ${shown(Math.abs(apart.estimate) + marginOf(apart), places)}.` : ", and the margin holds zero.", bound(apart)));
  }
  const sets = picks.map(([, set]) => set);
  if (values.of.adds && picks.length > 1) {
    const sum = values.sum(sets);
    found.push(h("p", {}, `Sum of the ${picks.length} numbers: `, h("strong", {}, say(sum)), ".", bound(sum)));
  }
  if (picks.length === 1) found.push(h("p", {}, label(picks[0][0]), ": ", h("strong", {}, say(values.number(sets[0]))), ". Pick another one to compare."));
  if (together && picks.length > 1) found.push(h("p", { class: "hint" }, "The margin holds for all pairs of numbers of the table at once, so pairs may be picked by looking at them."));
  return found;
}

// What can be said of picked means: they have intervals, and nothing is known of what their noise has in common.
function means(grid, picks) {
  const numbers = picks.map(([name, set]) => [name, grid.values.number(set)]);
  const found = numbers.map(([name, number]) => { const { value, margin } = textOf(grid, number, false); return h("p", {}, label(name), ": ", h("strong", {}, value), margin ? `, ${margin}.` : "."); });
  if (numbers.length !== 2 || !numbers.every(([, number]) => number.determined)) return found;
  const [[more, one], [less, other]] = numbers[0][1].estimate >= numbers[1][1].estimate ? numbers : [numbers[1], numbers[0]];
  const [low, high] = [one.low - other.high, one.high - other.low], places = placesFor((high - low) / 4);
  found.unshift(h("p", { class: low > 0 ? "real" : "not-real" }, h("strong", {}, low > 0 ? "The difference is real. " : "The difference may be noise. "),
    label(more), " has ", h("strong", {}, `${shown(low, places)} to ${shown(high, places)}`), " more than ", label(less), low > 0 ? "" : ", and that holds zero",
    `: from the ends of both intervals, so with ${percent(2 * grid.cube.confidence - 1, 0)} confidence or more.`));
  return found;
}

async function start() {
  const started = performance.now();
  const carried = document.getElementById("document");
  const source = carried ? JSON.parse(carried.textContent) : await (await fetch("document.json")).json();
  const fetched = carried ? null : async (number) => {
    const reply = await fetch(`tables/${number}.json`);
    if (!reply.ok) throw new Error(await reply.text());
    return reply.json();
  };
  document.title = source.title;
  await new App(new Cube(source, fetched)).mount();
  document.documentElement.dataset.ready = String(Math.round(performance.now() - started));
}

start();
