// What is to be read: the privacy statement, the plan in words, the codebook.

import { h, label } from "./elements.js";
import { counted } from "./format.js";

// Paragraphs, headings and lists of the few kinds that our statements have.
export function readable(text) {
  const found = [];
  for (const block of text.split(/\n\s*\n/)) {
    const line = block.trim().replace(/\s*\n\s*(?!- )/g, " ");
    if (!line) continue;
    if (line.startsWith("# ")) found.push(h("h2", {}, line.slice(2)));
    else if (line.startsWith("## ")) found.push(h("h3", {}, line.slice(3)));
    else if (line.startsWith("- ")) found.push(h("ul", {}, line.split(/\n?(?:^|\s)- (?=[A-Z0-9a-z])/).filter((part) => part.trim()).map((part) => h("li", {}, marked(part.trim())))));
    else found.push(h("p", {}, marked(line)));
  }
  return found;
}

// Words between backquotes are code.
function marked(text) {
  return text.split(/`([^`]*)`/).map((part, at) => (at % 2 ? h("code", {}, part) : part));
}

export function paragraphs(lines) {
  const found = [];
  for (const line of lines) {
    if (!line.startsWith("- ")) found.push(h("p", {}, line));
    else {
      if (found.at(-1)?.tagName !== "UL") found.push(h("ul", {}));
      found.at(-1).append(h("li", {}, line.slice(2)));
    }
  }
  return found;
}

export function codebook(cube) {
  return [
    h("h2", {}, "Codebook"),
    h("p", {}, `${counted(cube.attributes.length, "attribute")}. Every declared value is published, whether or not it occurs.`),
    cube.attributes.map((attribute) => {
      const labels = typeof attribute.labels === "number" ? null : attribute.labels;
      const count = labels ? labels.length : attribute.labels;
      return h("section", { class: "entry" },
        h("h3", {}, label(attribute.title), attribute.title === attribute.name ? null : h("code", {}, attribute.name)),
        attribute.description ? h("p", {}, label(attribute.description)) : null,
        h("details", { open: count <= 12 }, h("summary", {}, counted(count, "value")),
          h("ul", { class: "labels" }, labels ? labels.slice(0, 1000).map((one) => h("li", {}, label(one))) : h("li", {}, `0 to ${attribute.labels - 1}`),
            labels && labels.length > 1000 ? h("li", {}, `and ${labels.length - 1000} more`) : null)),
        attribute.levels.map((level) => h("details", {}, h("summary", {}, "Grouped by ", label(level.title), ": ", counted(level.labels.length, "group")),
          h("ul", { class: "labels" }, level.labels.slice(0, 1000).map((one) => h("li", {}, label(one)))))));
    }),
  ];
}
