// The tables of a release: labels, which table answers what is asked, and numbers with their errors.

import { shown } from "./format.js";

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
      this.loaded.set(number, new Map(own.map((quantity) => [quantity.of, new Values(quantity, shape, this.quantities[quantity.of], this.factor)])));
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

// The numbers of one quantity of a table. A set is a list of label numbers for each axis; it stands for their sum.
export class Values {
  constructor(quantity, shape, of, factor) {
    this.of = of;
    this.own = quantity;
    this.shape = shape;
    this.factor = factor;
    this.scale = 10 ** -quantity.decimals;
    this.strides = shape.map((_, at) => shape.slice(at + 1).reduce((product, size) => product * size, 1));
    const classes = quantity.covariance ? quantity.covariance.classes : null;
    this.classes = classes && classes.map((text, at) => (text === null ? null : { of: Array.from(text, (sign) => parseInt(sign, 36)), size: shape[at] }));
    this.sizes = this.classes && this.classes.map((own) => (own === null ? 2 : 1 + own.of.reduce((most, at) => Math.max(most, at), 0)));
  }

  cells(set) {
    return set.reduce((places, labels, at) => places.flatMap((place) => labels.map((one) => place + one * this.strides[at])), [0]);
  }

  at(list, cell) {
    return Array.isArray(list) ? list[cell] : list;
  }

  estimate(set) {
    return this.cells(set).reduce((sum, cell) => sum + this.own.estimate[cell], 0) * this.scale;
  }

  // The covariance of two sets; null if the page does not know it.
  covariance(one, other) {
    if (!this.classes) return null;
    const { values } = this.own.covariance;
    let weights = [1];
    this.shape.forEach((_, at) => {
      const times = pairsIn(this.classes[at], this.sizes[at], one[at], other[at]);
      weights = weights.flatMap((weight) => Array.from(times, (own) => weight * own));
    });
    return weights.reduce((sum, weight, place) => sum + (weight ? weight * values[place] : 0), 0);
  }

  // A number of this table or a sum of its numbers, with its errors; `bound` says that they are upper bounds.
  number(set) {
    const cells = this.cells(set), estimate = cells.reduce((sum, cell) => sum + this.own.estimate[cell], 0) * this.scale;
    const whole = this.own.whole ? cells.reduce((sum, cell) => sum + this.own.whole[cell], 0) : null;
    if (cells.length === 1) {
      const [cell] = cells;
      return {
        estimate, whole, error: this.at(this.own.std_error, cell), margin: this.at(this.own.margin, cell),
        marginAll: this.at(this.own.margin_all, cell), bound: false,
      };
    }
    const variance = this.covariance(set, set);
    const bound = variance === null;
    const error = bound ? cells.reduce((sum, cell) => sum + this.at(this.own.std_error, cell), 0) : Math.sqrt(Math.max(variance, 0));
    return { estimate, whole, ...this.margins(error), bound };
  }

  margins(error) {
    const step = this.own.step ?? 1;
    return { error, margin: this.factor * error + step, marginAll: Math.max(this.own.pair_factor, this.allFactor()) * error + step };
  }

  allFactor() {
    const error = this.at(this.own.std_error, 0);
    return error > 0 ? this.at(this.own.margin_all, 0) / error : this.factor;
  }

  // One set less another.
  difference(one, other) {
    const [first, second] = [this.number(one), this.number(other)];
    const shared = this.covariance(one, other);
    const variance = shared === null ? null : this.covariance(one, one) + this.covariance(other, other) - 2 * shared;
    const error = variance === null ? first.error + second.error : Math.sqrt(Math.max(variance, 0));
    return { estimate: first.estimate - second.estimate, ...this.margins(error), bound: variance === null };
  }

  // One set as a share of another: x / t has about the error of x - p t, divided by t.
  share(one, whole) {
    const part = this.number(one), all = this.number(whole), share = part.estimate / all.estimate;
    const shared = this.covariance(one, whole);
    const error = shared === null
      ? part.error + Math.abs(share) * all.error
      : Math.sqrt(Math.max(0, part.error ** 2 - 2 * share * shared + share ** 2 * all.error ** 2));
    const usable = all.estimate > 3 * all.error;
    const scaled = this.margins(error);
    const divided = Object.fromEntries(Object.entries(scaled).map(([name, value]) => [name, value / all.estimate]));
    return { estimate: share, whole: null, ...divided, bound: shared === null, usable };
  }

  // A sum of any numbers that were picked, each a set.
  sum(sets) {
    const estimate = sets.reduce((sum, set) => sum + this.estimate(set), 0);
    let variance = this.classes ? 0 : null, bound = 0;
    sets.forEach((one, at) => {
      bound += this.number(one).error;
      if (variance === null) return;
      variance += this.covariance(one, one);
      for (const other of sets.slice(at + 1)) variance += 2 * this.covariance(one, other);
    });
    return { estimate, ...this.margins(variance === null ? bound : Math.sqrt(Math.max(variance, 0))), bound: variance === null };
  }
}

// How many pairs of labels fall in each class.
function pairsIn(classes, size, one, other) {
  const found = new Float64Array(size);
  if (classes === null) {
    const own = new Set(one);
    const same = other.reduce((sum, at) => sum + (own.has(at) ? 1 : 0), 0);
    found[1] = same;
    found[0] = one.length * other.length - same;
  } else {
    for (const i of one) for (const j of other) found[classes.of[i * classes.size + j]] += 1;
  }
  return found;
}

export function holdsZero(number, together) {
  return Math.abs(number.estimate) <= (together ? number.marginAll : number.margin);
}

export function describeMargin(number, together, places) {
  return "± " + shown(together ? number.marginAll : number.margin, places);
}
