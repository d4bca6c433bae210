// The part of a passage that shows why it was found: the window that holds most of the question's words, marked.
import { el } from "./dom.js";

const WINDOW = 260;
const WORD = /[\p{L}\p{N}]+(?:[-_.][\p{L}\p{N}]+)*/gu;
const SMALL = /^(.{1,2}|\p{Ll}{3}|what|when|where|which|does|this|that|with|from|have|were|will|your|there)$/iu;
const CJK = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;

export function snippet(text, question) {
  const plain = text.replace(/\s+/g, " ").trim();
  const found = [...matches(plain, question)];
  const from = bestStart(plain, found);
  const to = Math.min(plain.length, from + WINDOW);
  const nodes = [from > 0 ? "… " : ""];
  let at = from;
  for (const match of found) {
    if (match.index < at || match.index + match[0].length > to) continue;
    nodes.push(plain.slice(at, match.index), el("mark", {}, match[0]));
    at = match.index + match[0].length;
  }
  nodes.push(plain.slice(at, to), to < plain.length ? " …" : "");
  return nodes;
}

function* matches(text, question) {
  const terms = new Set();
  for (const [word] of question.matchAll(WORD)) {
    if (CJK.test(word)) {
      const pairs = [...word].slice(1).map((letter, at) => [...word][at] + letter);
      for (const pair of pairs) if (!/^\p{Script=Hiragana}+$/u.test(pair)) terms.add(pair); // those are grammar
    } else if (!SMALL.test(word)) terms.add(/\P{L}/u.test(word) ? bounded(word.replaceAll(".", "\\.")) : bounded(`${word}\\p{L}{0,3}`));
  }
  if (terms.size) yield* text.matchAll(new RegExp([...terms].join("|"), "giu"));
}

const bounded = (pattern) => `(?<![\\p{L}\\p{N}])${pattern}(?![\\p{L}\\p{N}])`;

// Of the windows that begin a little before a match, the one with the most different words; the first of equals.
function bestStart(text, found) {
  let best = [0, 0];
  for (const match of found) {
    const start = Math.max(0, match.index - 60);
    const seen = new Set(found.filter((each) => each.index >= start && each.index < start + WINDOW).map((each) => each[0].toLowerCase()));
    if (seen.size > best[0]) best = [seen.size, start];
  }
  const start = text.length <= WINDOW ? 0 : best[1];
  return start === 0 ? 0 : text.indexOf(" ", start) + 1 || start;
}
