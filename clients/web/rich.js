// Answer text to nodes: paragraphs, lists, code, bold, and [n] as citation buttons. Builds nodes only, never markup.
import { el } from "./dom.js";

const INLINE = /\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]|\*\*([^*]+)\*\*|`([^`]+)`/g;

export function rich(text, citation) {
  const nodes = [];
  let list = null;
  for (const block of text.replace(/\r/g, "").split(/(```[^\n]*\n[\s\S]*?(?:```|$))/)) {
    if (block.startsWith("```")) {
      nodes.push(el("pre", {}, el("code", {}, block.replace(/^```[^\n]*\n/, "").replace(/```$/, ""))));
      list = null;
      continue;
    }
    for (const line of block.split("\n")) {
      const item = /^\s*(?:[-*•]|\d+[.)])\s+(.*)$/.exec(line);
      if (item) {
        if (!list) nodes.push((list = el(/^\s*\d/.test(line) ? "ol" : "ul")));
        list.append(el("li", {}, ...inline(item[1], citation)));
      } else {
        list = null;
        const plain = line.replace(/^#{1,6}\s+/, "").trim();
        if (plain) nodes.push(el("p", {}, ...inline(plain, citation)));
      }
    }
  }
  return nodes;
}

function inline(text, citation) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const before = text.slice(from, match.index);
    nodes.push(match[1] ? before.replace(/\s+$/, "\u00a0") : before);  // a citation stays with its sentence
    from = match.index + match[0].length;
    if (match[1]) nodes.push(...match[1].split(/\s*,\s*/).map((number) => citation(Number(number)) ?? `[${number}]`));
    else if (match[2]) nodes.push(el("strong", {}, match[2]));
    else nodes.push(el("code", {}, match[3]));
  }
  nodes.push(text.slice(from));
  return nodes;
}
