// Evidence cards: where a passage comes from and why it ranked, by meaning and by words.
import { el, place, when } from "./dom.js";
import { snippet } from "./snippet.js";

export function card(fragment, scale, question, open) {
  const meta = [fragment.source_type, place(fragment.anchor), when(fragment.updated_at)].filter(Boolean).join(" · ");
  const button = el("button", { type: "button", class: "card", id: `evidence-${fragment.number}`, on: { click: () => open(fragment) } },
    el("span", { class: "number", "aria-hidden": "true" }, String(fragment.number)),
    el("span", { class: "title" }, el("span", { class: "unseen" }, `Evidence ${fragment.number}: `), fragment.title || "Untitled"),
    el("span", { class: "meta" }, meta),
    el("span", { class: "snippet" }, ...snippet(fragment.text, question)),
    el("span", { class: "why" },
      lane("meaning", fragment.lanes.dense_rank, Math.max(0, fragment.lanes.dense_score ?? 0)),
      lane("words", fragment.lanes.bm25_rank, (fragment.lanes.bm25_score ?? 0) / scale),
      fragment.lanes.rerank_score === null ? null : el("span", { class: "lane" }, "reranked"),
      fragment.duplicate_ids.length ? el("span", { class: "lane" }, `also in ${fragment.duplicate_ids.length} more`) : null));
  return el("li", {}, button);
}

export function scaleOf(fragments) {
  return Math.max(1e-9, ...fragments.map((fragment) => fragment.lanes.bm25_score ?? 0));
}

function lane(name, rank, share) {
  const fill = el("span", { class: "fill" });
  fill.style.setProperty("--share", Math.min(1, share).toFixed(3));
  return el("span", { class: rank === null ? "lane absent" : "lane" },
    el("span", { class: "track", "aria-hidden": "true" }, fill),
    rank === null ? `not by ${name}` : `${name} #${rank}`);
}
