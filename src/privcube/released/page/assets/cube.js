// The tables of a release: labels, which table answers what is asked, and numbers with their errors.

import { Values } from "./values.js";

export class Cube {
  constructor(source, fetched) {
    Object.assign(this, source);
    this.source = source;
    this.fetched = fetched; // how to get the numbers of a table that the page does not carry; null if there is none
    this.loaded = new Map();
    this.byAxes = new Map(this.tables.flatMap((table, number) => quantitiesOf(table).map((of) => [keyOf(table.axes, of), number])));
    this.labelsOf = this.axes.map((axis) => this.axisLabels(axis));
    this.axesOf = this.attributes.map((_, attribute) => this.axes.flatMap((axis, at) => (axis.attribute === attribute ? [at] : [])));
  }

  axisLabels(axis) {
    if (axis.labels) return axis.labels;
    const attribute = this.attributes[axis.attribute];
    const own = listed(axis.level ? attribute.levels[axis.level - 1].labels : attribute.labels);
    if (axis.queries === "cells") return own;
    const found = [];
    for (let first = 0; first < attribute.ordered; first++) {
      for (let last = axis.queries === "ranges" ? first : 0; last < attribute.ordered; last++) {
        found.push(first === last ? own[first] : `${own[first]} .. ${own[last]}`);
      }
      if (axis.queries === "prefixes") break;
    }
    return found;
  }

  axisTitle(at) {
    return this.axes[at].title;
  }

  tableTitle(axes, of = 0) {
    const own = this.tables[this.byAxes.get(keyOf(axes, of))];
    if (own?.title) return own.title;
    return axes.length ? axes.map((at) => this.axisTitle(at)).join(" × ") : "All records";
  }

  adds(at) {
    return this.axes[at].queries === "cells";
  }

  // The published table that has these axes, or one to add them up from; null if there is none.
  resolve(axes, of = 0) {
    const exact = this.byAxes.get(keyOf(axes, of));
    if (exact !== undefined) return this.answer(exact, axes);
    if (!this.quantities[of].adds) return null;
    let best = null;
    this.tables.forEach((table, number) => {
      if (quantitiesOf(table).includes(of) && (best === null || table.cells < this.tables[best].cells) && this.contains(table, axes)) best = number;
    });
    return best === null ? null : this.answer(best, axes);
  }

  contains(table, axes) {
    if (table.axes.length < axes.length) return false;
    return axes.every((at) => table.axes.some((own) => this.merges(at, own))) &&
      table.axes.every((own) => this.adds(own) || axes.includes(own));
  }

  // Whether an axis is another one, or a coarser level of it.
  merges(at, finer) {
    if (at === finer) return true;
    const one = this.axes[at], other = this.axes[finer];
    return one.attribute === other.attribute && one.level > 0 && other.level === 0 && this.adds(at) && this.adds(finer);
  }

  answer(number, axes) {
    const table = this.tables[number];
    const sources = axes.map((at) => table.axes.findIndex((own) => this.merges(at, own)));
    const groups = axes.map((at, place) => {
      if (table.axes[sources[place]] === at) return null;
      const level = this.attributes[this.axes[at].attribute].levels[this.axes[at].level - 1];
      const found = this.labelsOf[at].map(() => []);
      level.group_of.forEach((group, cell) => found[group].push(cell));
      return found;
    });
    const exact = table.axes.length === axes.length && groups.every((group) => group === null);
    return { number, table, axes, sources, groups, exact };
  }

  // The quantities that tables with these axes have.
  measures(axes) {
    return this.quantities.map((_, of) => of).filter((of) => this.resolve(axes, of) !== null);
  }

  // The attributes that can be asked for together with these axes.
  reachable(axes) {
    const found = new Set();
    for (const table of this.tables) {
      const own = table.axes;
      if (axes.every((at) => own.some((other) => this.axes[other].attribute === this.axes[at].attribute))) {
        for (const other of own) found.add(this.axes[other].attribute);
      }
    }
    return found;
  }

  has(number) {
    return this.loaded.has(number) || String(number) in this.numbers || this.fetched !== null;
  }

  // The numbers of one quantity of a table.
  async values(number, of) {
    if (!this.loaded.has(number)) {
      const own = this.numbers[String(number)] ?? (await this.fetched(number));
      const shape = this.tables[number].axes.map((at) => this.labelsOf[at].length);
      const adds = this.tables[number].axes.every((at) => this.adds(at));
      const totalOf = (of) => (of === 0 && adds ? this.records ?? null : null);
      this.loaded.set(number, new Map(own.map((quantity) => [quantity.of, new Values(quantity, shape, this.quantities[quantity.of], this.factor, totalOf(quantity.of))])));
    }
    return this.loaded.get(number).get(of);
  }
}

function listed(labels) {
  return typeof labels === "number" ? Array.from({ length: labels }, (_, at) => String(at)) : labels;
}

function keyOf(axes, of) {
  return of + ":" + [...axes].sort((one, other) => one - other).join(",");
}

// The quantities that a table has, by their places in the list; counts unless it says otherwise.
function quantitiesOf(table) {
  return table.quantities ?? [0];
}
