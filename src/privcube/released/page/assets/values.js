// The numbers of one quantity of a table, with their errors. A set is a list of label numbers for each axis; it stands for
// their sum. Margins of sums and differences are enough for every shape of noise (accuracy/errors/widest.py has the proof).

const MOST_KNOWN = 50_000; // numbers that are kept

export class Values {
  constructor(quantity, shape, of, factor, total = null) {
    this.of = of;
    this.own = quantity;
    this.shape = shape;
    this.factor = factor;
    this.total = total; // of all numbers, if it is publicly known
    this.scale = 10 ** -quantity.decimals;
    this.step = quantity.step ?? 1;
    this.strides = shape.map((_, at) => shape.slice(at + 1).reduce((product, size) => product * size, 1));
    const classes = quantity.covariance ? quantity.covariance.classes : null;
    this.classes = classes && classes.map((text, at) => (text === null ? null : { of: Array.from(text, (sign) => parseInt(sign, 36)), size: shape[at] }));
    this.sizes = this.classes && this.classes.map((own) => (own === null ? 2 : 1 + own.of.reduce((most, at) => Math.max(most, at), 0)));
    this.known = new Map();
    this.names = new WeakMap();
    this.allFactor = Math.max(quantity.pair_factor ?? 0, this.ownFactor());
  }

  ownFactor() {
    const error = this.at(this.own.std_error, 0);
    return error > 0 ? this.at(this.own.margin_all, 0) / error : this.factor;
  }

  // Whether numbers have an interval of their own and nothing can be added to them.
  get isMean() {
    return !this.of.adds;
  }

  // A text that only this set has.
  keyOf(set) {
    return set.map((ids) => {
      if (ids.length === 1) return ids[0];
      if (!this.names.has(ids)) this.names.set(ids, `s${(this.named = (this.named ?? 0) + 1)}`);
      return this.names.get(ids);
    }).join("|");
  }

  cells(set) {
    let places = [0];
    set.forEach((labels, at) => {
      const stride = this.strides[at];
      if (labels.length === 1) places = places.map((place) => place + labels[0] * stride);
      else places = places.flatMap((place) => labels.map((one) => place + one * stride));
    });
    return places;
  }

  at(list, cell) {
    return Array.isArray(list) ? list[cell] : list;
  }

  // The covariance of two sets; null if the page does not know it.
  covariance(one, other) {
    if (!this.classes) return null;
    const { values } = this.own.covariance;
    let weights = [1];
    this.shape.forEach((_, at) => {
      const times = pairsIn(this.classes[at], this.sizes[at], one[at], other[at]), next = new Array(weights.length * times.length);
      let place = 0;
      for (const weight of weights) for (const own of times) next[place++] = weight * own;
      weights = next;
    });
    let sum = 0;
    for (let place = 0; place < weights.length; place++) if (weights[place]) sum += weights[place] * values[place];
    return sum;
  }

  // A number of this table or a sum of its numbers, with its errors; `bound` says that its margins are upper bounds.
  number(set) {
    const key = this.keyOf(set);
    let found = this.known.get(key);
    if (found === undefined) {
      if (this.known.size > MOST_KNOWN) this.known.clear();
      found = this.found(set);
      this.known.set(key, found);
    }
    return found;
  }

  found(set) {
    const cells = this.cells(set);
    if (this.isMean) return this.mean(cells);
    let estimate = 0, whole = this.own.whole ? 0 : null;
    for (const cell of cells) {
      estimate += this.own.estimate[cell];
      if (whole !== null) whole += this.own.whole[cell];
    }
    estimate *= this.scale;
    if (this.total !== null && cells.length === this.own.estimate.length) return exactly(this.total, whole);
    if (cells.length === 1) {
      const [cell] = cells;
      if (this.at(this.own.std_error, cell) === 0) return exactly(estimate, whole);
      return withEnds({ estimate, whole, error: this.at(this.own.std_error, cell), margin: this.at(this.own.margin, cell), marginAll: this.at(this.own.margin_all, cell), bound: false });
    }
    const variance = this.covariance(set, set);
    const error = variance === null ? cells.reduce((sum, cell) => sum + this.at(this.own.std_error, cell), 0) : Math.sqrt(Math.max(variance, 0));
    return withEnds({ estimate, whole, ...this.margins(error), bound: true });
  }

  // A mean: a single number of its own.
  mean(cells) {
    const [estimate, low, high] = ["estimate", "low", "high"].map((name) => (cells.length === 1 ? this.own[name][cells[0]] : null)).map((one) => (one === null ? NaN : one * this.scale));
    return { estimate, whole: null, error: (high - low) / 4, margin: NaN, marginAll: NaN, low, high, lowAll: low, highAll: high, bound: false, ends: true, determined: !Number.isNaN(low) };
  }

  margins(error) {
    return { error, margin: this.factor * error + this.step, marginAll: this.allFactor * error + this.step };
  }

  // One set less another.
  difference(one, other) {
    const [first, second] = [this.number(one), this.number(other)];
    const shared = this.covariance(one, other);
    const variance = shared === null ? null : this.covariance(one, one) + this.covariance(other, other) - 2 * shared;
    const error = variance === null ? first.error + second.error : Math.sqrt(Math.max(variance, 0));
    return withEnds({ estimate: first.estimate - second.estimate, whole: null, ...this.margins(error), bound: true });
  }

  // One set as a share of another that contains it, with Fieller's interval: all ratios r for which the margin of
  // part - r whole holds zero. That margin is known for every r, so the interval holds as often as the margin does.
  share(one, whole) {
    const key = `${this.keyOf(one)}/${this.keyOf(whole)}`;
    let found = this.known.get(key);
    if (found === undefined) {
      found = this.ratio(this.number(one), this.number(whole), this.covariance(one, whole));
      if (found.determined && this.cells(one).join() === this.cells(whole).join()) found = { ...found, estimate: 1, error: 0, low: 1, high: 1, lowAll: 1, highAll: 1, exact: true };
      this.known.set(key, found);
    }
    return found;
  }

  ratio(part, all, shared) {
    const nothing = { estimate: NaN, whole: null, error: NaN, margin: NaN, marginAll: NaN, low: NaN, high: NaN, lowAll: NaN, highAll: NaN, bound: true, ends: true, determined: false };
    const error = (r) => (shared === null ? part.error + r * all.error : Math.sqrt(Math.max(0, part.error ** 2 - 2 * r * shared + (r * all.error) ** 2)));
    const ends = (factor) => {
      if (!(all.estimate > factor * all.error + this.step)) return null;
      const half = (r) => factor * error(r) + this.step * (1 + r), off = (r) => r * all.estimate - part.estimate;
      // Both differences change their sign once: half is convex, and grows slower than off (see the docs on sums).
      return [solved((r) => off(r) + half(r) >= 0, 0), solved((r) => off(r) - half(r) > 0, 1)];
    };
    const alone = ends(this.factor), together = ends(this.allFactor);
    if (alone === null) return nothing;
    const estimate = Math.min(1, Math.max(0, part.estimate / all.estimate)), [low, high] = alone, [lowAll, highAll] = together ?? [0, 1];
    return { estimate, whole: null, error: error(estimate) / all.estimate, margin: NaN, marginAll: NaN, low, high, lowAll, highAll, bound: true, ends: true, determined: true };
  }

  // A sum of any numbers that were picked, each a set.
  sum(sets) {
    const estimate = sets.reduce((sum, set) => sum + this.number(set).estimate, 0);
    let variance = this.classes ? 0 : null, error = 0;
    sets.forEach((one, at) => {
      error += this.number(one).error;
      if (variance === null) return;
      variance += this.covariance(one, one);
      for (const other of sets.slice(at + 1)) variance += 2 * this.covariance(one, other);
    });
    return withEnds({ estimate, whole: null, ...this.margins(variance === null ? error : Math.sqrt(Math.max(variance, 0))), bound: true });
  }
}

// A number without noise, as it follows from what is publicly known.
function exactly(estimate, whole) {
  return { ...withEnds({ estimate, whole, error: 0, margin: 0, marginAll: 0, bound: false }), exact: true };
}

function withEnds(number) {
  const { estimate, margin, marginAll } = number;
  return { ...number, low: estimate - margin, high: estimate + margin, lowAll: estimate - marginAll, highAll: estimate + marginAll, ends: false, determined: true };
}

// The least ratio from 0 to 1 from which on something holds, on the side that makes an interval wider.
function solved(holds, outward) {
  if (holds(0)) return 0;
  if (!holds(1)) return 1;
  let low = 0, high = 1;
  for (let round = 0; round < 40; round++) {
    const middle = (low + high) / 2;
    if (holds(middle)) high = middle; else low = middle;
  }
  return outward ? high : low;
}

// How many pairs of labels fall in each class.
function pairsIn(classes, size, one, other) {
  const found = new Float64Array(size);
  if (classes === null) {
    let same = 0;
    if (one.length === 1) same = other.length === 1 ? Number(one[0] === other[0]) : Number(other.includes(one[0]));
    else if (one === other) same = one.length;
    else {
      const own = new Set(one);
      for (const at of other) if (own.has(at)) same += 1;
    }
    found[1] = same;
    found[0] = one.length * other.length - same;
  } else {
    for (const i of one) for (const j of other) found[classes.of[i * classes.size + j]] += 1;
  }
  return found;
}

// Both ends of the interval that is shown.
export function endsOf(number, together) {
  return together ? [number.lowAll, number.highAll] : [number.low, number.high];
}

// The ends that stand beside a number: those of its interval. Beside a whole number, they are the whole numbers in the
// interval of the estimate that a count can be, widened to hold the one that is shown; what rounding of estimates may
// have moved is added first, so that none is lost.
export function shownEnds(grid, number, together) {
  const ends = endsOf(number, together);
  if (!grid.whole) return ends;
  const slack = number.exact ? 0 : grid.values.scale / 2 + 1e-6;
  const [low, high] = [Math.ceil(ends[0] - slack), Math.floor(ends[1] + slack)];
  return [Math.min(number.whole, Math.max(0, low)), Math.max(number.whole, high)];
}

// How far to trust a number: "zero" if its interval holds zero, "uncertain" if its error is a large part of it, "" else.
export function trustOf(grid, number, together) {
  if (!number.determined || grid.values.isMean || (number.exact && !grid.percent)) return "";
  const [low, high] = endsOf(number, together);
  if (low <= 0 && (high >= 0 || grid.percent || grid.values.of.key === "count")) return "zero";
  return number.error > grid.cube.reliability * Math.abs(number.estimate) ? "uncertain" : "";
}
