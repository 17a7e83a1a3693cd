// The side panel: which table, how it is shown.

import { choice, h, label } from "./elements.js";
import { counted, shown } from "./format.js";
import { VIEWS, inOrder } from "./state.js";

const MOST_LISTED = 100; // tables in the list; more are found by typing

export function controls(app) {
  return [attributesPanel(app), layoutPanel(app), displayPanel(app), tablesPanel(app)];
}

function attributesPanel(app) {
  const { cube, state } = app;
  const chosen = new Map(state.axes.map((at) => [cube.axes[at].attribute, at]));
  const can = cube.reachable(state.axes);
  const search = cube.attributes.length > 12
    ? h("input", { type: "search", class: "search", placeholder: "Find an attribute", "aria-label": "Find an attribute", value: app.finding, oninput: (event) => { app.finding = event.target.value; narrowed(list, event.target.value); } })
    : null;
  const list = h("ul", { class: "attributes" }, cube.attributes.map((attribute, number) => {
    const at = chosen.get(number), possible = at !== undefined || can.has(number);
    const own = cube.axesOf[number];
    const toggled = (on) => {
      const axes = on ? inOrder(cube, [...state.axes, preferred(cube, state.axes, own)]) : state.axes.filter((one) => one !== at);
      app.change({ axes: cube.measures(axes).length ? axes : on ? [preferred(cube, [], own)] : app.nearest(axes), picks: [] }, `attribute-${number}`);
    };
    return h("li", { class: possible ? null : "impossible" },
      h("label", { title: possible ? null : "No published table has this together with what is chosen. Choosing it starts anew." },
        h("input", { type: "checkbox", id: `attribute-${number}`, checked: at !== undefined, onchange: (event) => toggled(event.target.checked) }),
        label(attribute.title)),
      at !== undefined && own.length > 1
        ? choice(`level-${number}`, own.map((one) => [one, optionOf(cube, one)]), at, (value) => {
          const axes = state.axes.map((one) => (one === at ? Number(value) : one));
          app.change({ axes: cube.measures(axes).length ? axes : [Number(value)], picks: [] }, `level-${number}`);
        }, { "aria-label": `Level of ${attribute.title}` })
        : null);
  }));
  if (app.finding) narrowed(list, app.finding);
  return h("fieldset", { class: "panel" }, h("legend", {}, "Attributes"), search, list);
}

function narrowed(list, text) {
  const wanted = text.trim().toLocaleLowerCase();
  for (const item of list.children) item.hidden = wanted !== "" && !item.textContent.toLocaleLowerCase().includes(wanted);
}

function optionOf(cube, at) {
  const axis = cube.axes[at], attribute = cube.attributes[axis.attribute];
  const level = axis.level ? `by ${attribute.levels[axis.level - 1].title}` : "all values";
  return axis.queries === "cells" ? level : axis.queries;
}

// The finest of an attribute's axes with which there is a table.
function preferred(cube, axes, own) {
  return own.find((one) => cube.measures([...axes, one]).length) ?? own[0];
}

function layoutPanel(app) {
  const { cube, state } = app;
  if (!state.axes.length) return null;
  const roles = ["Rows", "Columns", "Panels"];
  const lines = state.axes.map((at, place) => {
    const title = cube.axisTitle(at), labels = cube.labelsOf[at];
    const role = state.axes.length > 1
      ? choice(`role-${place}`, state.axes.map((_, other) => [other, roles[other] ?? `Held ${other - 2}`]), place, (value) => {
        const axes = [...state.axes];
        [axes[place], axes[Number(value)]] = [axes[Number(value)], axes[place]];
        app.change({ axes, picks: [] }, `role-${value}`);
      }, { "aria-label": `Where ${title} goes` })
      : null;
    const held = place > 2
      ? choice(`held-${place}`, [["", "All, added up", !cube.adds(at)], ...labels.map((text, one) => [one, text])], state.held.get(at) ?? "", (value) => {
        const next = new Map(state.held);
        if (value === "") next.delete(at); else next.set(at, Number(value));
        app.change({ held: next }, `held-${place}`);
      }, { "aria-label": `Value of ${title}` })
      : filter(app, at);
    return h("li", {}, h("div", { class: "axis" }, label(title, { class: "name" }), role), held);
  });
  return h("fieldset", { class: "panel" }, h("legend", {}, "Layout and filters"), h("ul", { class: "layout" }, lines));
}

function filter(app, at) {
  const { cube, state } = app;
  const labels = cube.labelsOf[at], kept = new Set(state.keep.get(at) ?? labels.map((_, one) => one));
  const changed = (next, focus) => {
    const keep = new Map(state.keep);
    if (next.length === 0 || next.length === labels.length) keep.delete(at); else keep.set(at, next);
    app.change({ keep }, focus);
  };
  const boxes = labels.slice(0, 500).map((text, one) => h("li", {}, h("label", {},
    h("input", { type: "checkbox", id: `keep-${at}-${one}`, checked: kept.has(one), onchange: (event) => {
      const next = labels.map((_, other) => other).filter((other) => (other === one ? event.target.checked : kept.has(other)));
      changed(next, `keep-${at}-${one}`);
    } }), label(text))));
  const list = h("ul", { class: "values" }, boxes);
  const search = labels.length > 12
    ? h("input", { type: "search", class: "search", placeholder: "Find a value", "aria-label": `Find a value of ${cube.axisTitle(at)}`, oninput: (event) => narrowed(list, event.target.value) }) : null;
  const count = kept.size < labels.length ? `${kept.size} of ${labels.length} values` : `All ${counted(labels.length, "value")}`;
  return h("details", { class: "filter", open: app.opened.has(at), ontoggle: (event) => { if (event.target.open) app.opened.add(at); else app.opened.delete(at); } },
    h("summary", {}, count),
    search,
    kept.size < labels.length ? h("button", { type: "button", id: `keep-${at}-all`, onclick: () => changed([], `keep-${at}-all`) }, "Show all") : null,
    list, labels.length > 500 ? h("p", { class: "hint" }, "The first 500 are listed.") : null);
}

function radios(name, legend, options, chosen, onchange) {
  return h("fieldset", { class: "segments" }, h("legend", {}, legend), h("div", {}, options.map(([value, text]) => h("label", {},
    h("input", { type: "radio", name, id: `${name}-${value}`, value, checked: value === chosen, onchange: () => onchange(value) }), h("span", {}, text)))));
}

function displayPanel(app) {
  const { cube, state } = app;
  const set = (key) => (value) => app.change({ [key]: value }, `${key}-${value}`);
  const field = (text, control) => h("div", { class: "field" }, h("label", { for: control.id }, text), control);
  const selected = (key) => (value) => app.change({ [key]: value }, key);
  const two = state.axes.length > 1;
  return h("fieldset", { class: "panel" }, h("legend", {}, "Display"),
    radios("view", "Chart", VIEWS, state.view, set("view")),
    radios("interval", "Margins hold", [["each", "for each number"], ["all", "for all at once"]], state.interval, set("interval")),
    app.measures.length > 1 ? field("Measure", choice("quantity", app.measures.map((of) => [of, cube.quantities[of].title]), state.quantity, selected("quantity"))) : null,
    cube.whole ? field("Numbers", choice("numbers", [["estimate", "Estimates"], ["whole", "Whole numbers"]], state.numbers, selected("numbers"))) : null,
    app.grid && app.grid.values.of.key !== "count" ? null : field("Percentages", choice("percent", [["none", "None"], ["table", "Of the table"], ["row", "Of each row", !two], ["column", "Of each column"]], state.percent, selected("percent"))),
    field("Order of rows", choice("sort", [["declared", "As declared"], ["down", "Largest first"], ["up", "Smallest first"], ["label", "By label"],
      ...(state.sort.includes(":") ? [[state.sort, "By a column"]] : [])], state.sort, selected("sort"))));
}

function tablesPanel(app) {
  const { cube } = app;
  if (cube.tables.length < 2) return null;
  const list = h("ul", { class: "tables" });
  const note = h("p", { class: "hint" });
  const fill = (text) => {
    const words = text.toLocaleLowerCase().split(/[\s×x,]+/).filter(Boolean);
    const found = [];
    let more = 0;
    cube.tables.forEach((table, number) => {
      const of = table.quantities?.[0] ?? 0;
      const title = cube.tableTitle(table.axes, of) + (of ? `: ${cube.quantities[of].title}` : ""), low = title.toLocaleLowerCase();
      if (!words.every((word) => low.includes(word))) return;
      if (found.length < MOST_LISTED) found.push([table, number, title]); else more += 1;
    });
    list.replaceChildren(...found.map(([table, number, title]) => h("li", {}, h("button", {
      type: "button", class: "link", disabled: !cube.has(number), title: cube.has(number) ? null : "This page does not carry it; privcube explore serves it.",
      onclick: () => app.change({ axes: inOrder(cube, table.axes), quantity: String(table.quantities?.[0] ?? 0), picks: [] }, null),
    }, label(title), h("span", { class: "cells" }, counted(table.cells, "cell"))))));
    note.textContent = more ? `${shown(more)} more: type to find one.` : "";
  };
  fill(app.seeking);
  return h("details", { class: "panel", open: app.opened.has("tables"), ontoggle: (event) => { if (event.target.open) app.opened.add("tables"); else app.opened.delete("tables"); } },
    h("summary", {}, `All ${counted(cube.tables.length, "table")}`),
    h("input", { type: "search", class: "search", placeholder: "Find a table", "aria-label": "Find a table", value: app.seeking, oninput: (event) => { app.seeking = event.target.value; fill(event.target.value); } }),
    list, note);
}
