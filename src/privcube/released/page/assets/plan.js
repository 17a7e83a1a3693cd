// The planning view: what error to expect for any budget, before anything is spent.

import { choice, h, label, s } from "./elements.js";
import { counted, percent, placesFor, shown } from "./format.js";

const KINDS = { pure: "Pure", approx: "With delta", zcdp: "Zero-concentrated" };
const MOST_ROWS = 200;
const USABLE = 0.3; // relative standard error above which offices call a number unreliable

class PlanView {
  constructor(source) {
    this.source = source;
    this.plans = new Map();
    const given = new URLSearchParams(location.hash.slice(1));
    this.kind = source.kinds.find((kind) => kind.kind === given.get("kind")) ?? source.kinds[0];
    this.budget = Number(given.get("budget")) > 0 ? Number(given.get("budget")) : this.kind.amount;
    this.strategy = given.get("strategy") ?? "";
    this.records = Number(given.get("records")) > 0 ? Number(given.get("records")) : source.records ?? 10000;
    this.wanted = given.get("wanted") in { 0.01: 1, 0.05: 1, 0.1: 1, 0.2: 1, 0.5: 1 } ? given.get("wanted") : "0.1";
    this.all = false;
    this.side = h("div", { class: "side" });
    this.main = h("main", { id: "main", tabindex: -1 });
  }

  mount() {
    const { source } = this;
    const theme = h("button", { type: "button", id: "theme", class: "quiet", onclick: () => {
      const own = document.documentElement.dataset.theme;
      const dark = own ? own === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
      document.documentElement.dataset.theme = dark ? "light" : "dark";
    } }, "Light or dark");
    document.body.dataset.tab = "tables";
    document.body.prepend(
      h("header", {}, h("div", { class: "inner" }, h("div", { class: "names" }, h("p", { class: "publisher" }, "Before anything is spent"), h("h1", {}, label(source.title)),
        h("p", { class: "facts" }, h("code", {}, source.spec), ` · ${counted(source.tables.length, "table")} · ${source.guarantee} · no data was read`)), theme)),
      h("div", { class: "page" }, this.side, this.main),
      h("footer", {}, h("p", {}, `privcube ${source.privcube}. Errors are those of the noise: they do not depend on the data.`)));
    this.controls();
    return this.draw();
  }

  async change(next) {
    Object.assign(this, next);
    const found = new URLSearchParams({ kind: this.kind.kind, budget: this.budget, strategy: this.strategy, records: this.records, wanted: this.wanted });
    history.replaceState(null, "", "#" + found);
    await this.draw();
  }

  controls() {
    const { source } = this;
    const place = (budget) => nearest(this.kind.budgets, budget);
    const slider = h("input", { type: "range", id: "budget", min: 0, step: 1, "aria-describedby": "budget-text" });
    const number = h("input", { type: "number", id: "budget-number", min: 0, step: "any", "aria-label": "Budget as a number" });
    const dial = h("label", { for: "budget" });
    const set = (budget) => {
      const { budgets } = this.kind;
      const bounded = Math.min(Math.max(budget, budgets[0]), budgets.at(-1));
      slider.max = budgets.length - 1;
      slider.value = place(bounded);
      slider.setAttribute("aria-valuetext", `${this.kind.dial} ${bounded}`);
      number.value = bounded;
      dial.textContent = this.kind.dial === "rho" ? "Budget rho" : "Budget epsilon";
      return bounded;
    };
    this.budget = set(this.budget);
    slider.addEventListener("input", () => this.change({ budget: set(this.kind.budgets[Number(slider.value)]) }));
    number.addEventListener("change", () => { if (Number(number.value) > 0) this.change({ budget: set(Number(number.value)) }); });
    const kinds = h("fieldset", { class: "segments" }, h("legend", {}, "Guarantee"), h("div", {}, source.kinds.map((kind) => h("label", {},
      h("input", { type: "radio", name: "kind", id: `kind-${kind.kind}`, value: kind.kind, checked: kind === this.kind, onchange: () => {
        this.kind = kind;
        this.change({ budget: set(this.budget), strategy: "" });
      } }), h("span", {}, kind.delta === null ? KINDS[kind.kind] : `Delta ${kind.delta}`)))));
    const field = (text, control) => h("div", { class: "field" }, h("label", { for: control.id }, text), control);
    const records = h("input", { type: "number", id: "records", min: 1, step: 1, value: this.records, onchange: (event) => { if (Number(event.target.value) >= 1) this.change({ records: Number(event.target.value) }); } });
    this.chooser = h("div", {});
    this.side.replaceChildren(
      h("fieldset", { class: "panel" }, h("legend", {}, "Budget"), kinds, h("div", { class: "dial" }, dial, number), slider, h("p", { class: "hint", id: "budget-text" }, "More budget, less noise, less privacy. The declared one is in the middle.")),
      h("fieldset", { class: "panel" }, h("legend", {}, "What counts as usable"), field("Records, roughly", records),
        field("Wanted margin", choice("wanted", [["0.01", "1 %"], ["0.05", "5 %"], ["0.1", "10 %"], ["0.2", "20 %"], ["0.5", "50 %"]], this.wanted, (wanted) => this.change({ wanted }))),
        h("p", { class: "hint" }, "A guess from public knowledge: never look it up in the data.")),
      this.chooser);
  }

  async draw() {
    const { kind } = this;
    if (!this.plans.has(kind.kind)) {
      this.main.replaceChildren(h("p", { role: "status" }, "Working out the plans …"));
      const strategies = await asked(`strategies/${kind.kind}.json`);
      this.plans.set(kind.kind, { strategies, chosen: null });
      asked(`chosen/${kind.kind}.json`).then((chosen) => {
        this.plans.get(kind.kind).chosen = chosen;
        document.documentElement.dataset.searched = kind.kind;
        if (this.kind === kind) this.draw();
      });
      if (this.kind !== kind) return;
    }
    const { strategies, chosen } = this.plans.get(kind.kind);
    const usable = [...(chosen?.errors ? [chosen] : []), ...strategies.filter((line) => line.errors)];
    const line = usable.find((own) => own.strategy === this.strategy) ?? usable[0];
    this.chooser.replaceChildren(h("fieldset", { class: "panel" }, h("legend", {}, "Strategy"),
      choice("strategy", [["", chosen ? `As in the spec (${chosen.strategy})` : "The best so far"], ...strategies.filter((own) => own.errors).map((own) => [own.strategy, own.strategy])], this.strategy, (strategy) => this.change({ strategy }), { "aria-label": "Strategy" }),
      chosen ? null : h("p", { class: "hint", role: "status" }, "Searching for a better plan …")));
    if (!line) { this.main.replaceChildren(h("p", { class: "notice" }, chosen ? chosen.refused : "Searching for a plan …")); return; }
    this.main.replaceChildren(this.summary(line), this.tables(line), this.strategies(strategies, usable), this.ledger());
  }

  factor() {
    return along(this.kind.budgets, this.kind.factors, this.budget);
  }

  summary(line) {
    const { source } = this, wanted = Number(this.wanted);
    const rows = this.rows(line), good = rows.filter((row) => row.relative <= wanted).length;
    return h("div", { "aria-live": "polite" }, h("h2", {}, `${shown(good)} of ${counted(rows.length, "table")} usable`),
      h("p", { class: "summary" }, `With ${this.kind.dial} ${this.budget}${this.kind.delta === null ? "" : ` and delta ${this.kind.delta}`}, ${shown(good)} tables have a margin of at most ${percent(wanted, 0)} on a count of average size, if there are ${counted(this.records, "record")}. `,
        `The standard error of a cell is ${error(line.error * this.factor())} over all tables (root mean square).`));
  }

  rows(line) {
    const factor = this.factor();
    return this.source.tables.map((table, at) => {
      const std = line.errors[at] * factor, margin = std * this.kind.margin;
      return { table, std, margin, average: this.records / table.cells, relative: (margin * table.cells) / this.records, least: std / USABLE };
    });
  }

  tables(line) {
    const wanted = Number(this.wanted), rows = this.rows(line), drawn = this.all ? rows : rows.slice(0, MOST_ROWS);
    const most = Math.min(2, Math.max(...rows.map((row) => row.relative), wanted) * 1.05);
    const heading = (text, title) => h("th", { scope: "col", title }, text);
    return h("div", {},
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Tables" }, h("table", { class: "pivot plan" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "corner" }, "Table"), heading("Cells"), heading("Std. error"), heading("Margin"), heading("Average count"), heading("Margin of it"), h("th", { scope: "col" }, `up to ${percent(most, 0)}`), heading("Reliable from", "Counts from here on have a relative standard error of at most 30 %"))),
        h("tbody", {}, drawn.map((row) => h("tr", {}, h("th", { scope: "row" }, label(row.table.title)),
          h("td", {}, shown(row.table.cells)), h("td", {}, error(row.std)), h("td", {}, "± " + error(row.margin)), h("td", {}, shown(row.average, row.average < 10 ? 1 : 0)),
          h("td", { class: row.relative <= wanted ? "good" : "poor" }, row.relative > 9.99 ? "over 999 %" : percent(row.relative, row.relative < 0.1 ? 1 : 0)),
          h("td", {}, bar(row.relative, most, wanted)), h("td", {}, shown(Math.ceil(row.least)))))))),
      drawn.length < rows.length ? h("p", { class: "more" }, h("button", { type: "button", onclick: () => { this.all = true; this.draw(); } }, `Show all ${shown(rows.length)} tables`)) : null,
      h("div", { class: "notes" }, h("p", {}, "Margins hold with 95 % confidence for each number. The average count is that of records spread evenly: real tables have smaller and larger counts. “Reliable from” is the count whose relative standard error is 30 %."),
        h("p", {}, "Plans were made once for each kind of guarantee, with effort “fast”, and scaled: noise is proportional to 1/epsilon if pure, and follows the exact price of Gaussian noise with delta. The release plans again, with the effort of the spec.")));
  }

  strategies(strategies, usable) {
    const factor = this.factor(), most = Math.max(...usable.map((line) => line.error)), best = Math.min(...usable.map((line) => line.error));
    return h("section", {}, h("h3", {}, "Strategies"),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Strategies" }, h("table", { class: "pivot plan" }, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "corner" }, "Strategy"), h("th", { scope: "col" }, "Std. error of a cell"), h("th", { scope: "col" }, "Ratio to the best"), h("th", { scope: "col" }, ""))),
        h("tbody", {}, usable.map((line) => h("tr", {}, h("th", { scope: "row" }, line.strategy), h("td", {}, error(line.error * factor)), h("td", {}, shown(line.error / best, 2)), h("td", {}, bar(line.error, most, null))))))),
      strategies.filter((line) => line.refused).map((line) => h("p", { class: "hint" }, line.strategy, ": ", line.refused)));
  }

  ledger() {
    const { ledger } = this.source;
    if (!ledger) return h("section", {}, h("h3", {}, "Ledger"), h("p", {}, "The spec has no ledger that could say what is left."));
    const at = nearest(this.kind.budgets, this.budget), left = this.kind.left[at];
    return h("section", {}, h("h3", {}, "Ledger"), h("p", {}, `Total: ${ledger.total}.`),
      ledger.accounts.map((account) => h("p", {}, `Left: ${account.currency} ${account.left} of ${account.limit}.`)),
      h("p", { class: left === null ? "not-real" : "real" }, h("strong", {}, left === null ? "This release would be refused. " : "This release fits. "),
        left === null ? "Its budget, or its kind of guarantee, is not one that the total can still pay." : `Now ${percent(ledger.share, 0)} of the total are left, after it about ${percent(left, 0)}.`));
  }
}

async function asked(address) {
  const reply = await fetch(address);
  if (!reply.ok) throw new Error(await reply.text());
  return reply.json();
}

function error(value) {
  return shown(value, value >= 100 ? 0 : value >= 1 ? 1 : placesFor(value) + 1);
}

function nearest(sorted, value) {
  return sorted.reduce((best, own, at) => (Math.abs(Math.log(own / value)) < Math.abs(Math.log(sorted[best] / value)) ? at : best), 0);
}

// A factor between two budgets of the grid: a straight line on logarithmic scales, which pure noise follows exactly.
function along(budgets, factors, budget) {
  const above = budgets.findIndex((own) => own >= budget);
  if (above <= 0) return factors[above < 0 ? factors.length - 1 : 0];
  const [low, high] = [budgets[above - 1], budgets[above]], share = Math.log(budget / low) / Math.log(high / low);
  return factors[above - 1] * (factors[above] / factors[above - 1]) ** share;
}

function bar(value, most, line) {
  const width = 120, end = Math.min(1, value / most) * width, good = line === null || value <= line;
  return s("svg", { width, height: 12, viewBox: `0 0 ${width} 12`, "aria-hidden": "true", class: good ? "bar good" : "bar poor" },
    s("rect", { x: 0, y: 2, width: Math.max(1, end), height: 8 }),
    line === null ? null : s("line", { x1: (line / most) * width, x2: (line / most) * width, y1: 0, y2: 12 }));
}

async function start() {
  const source = await (await fetch("document.json")).json();
  document.title = source.title;
  await new PlanView(source).mount();
  document.documentElement.dataset.ready = "1";
}

start();
