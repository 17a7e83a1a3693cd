// Elements of HTML and SVG. Text always becomes text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

// An HTML element; attributes that start with "on" are listeners, false and null ones are left out.
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

// An SVG element.
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// A label of the data: its direction is its own, whatever is around it.
export function label(text, attributes = {}) {
  return h("bdi", attributes, text);
}

// A text in SVG, cut to about so many characters and kept apart from its surroundings; the whole is its title.
export function svgLabel(text, most, attributes = {}) {
  const short = cut(text, most);
  return s("text", attributes, isolated(short), short === text ? null : s("title", {}, text));
}

export function isolated(text) {
  return "\u2068" + text + "\u2069";
}

export function cut(text, most) {
  const signs = Array.from(text);
  return signs.length <= most ? text : signs.slice(0, Math.max(1, most - 1)).join("").trimEnd() + "…";
}

// A choice from a list of [value, text] pairs.
export function choice(id, options, chosen, onchange, attributes = {}) {
  const select = h("select", { id, ...attributes, onchange: () => onchange(select.value) },
    options.map(([value, text, disabled]) => h("option", { value, disabled, selected: String(value) === String(chosen) }, text)));
  return select;
}
