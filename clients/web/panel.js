// The side panel: a whole document, opened at the cited place.
import { call } from "./api.js";
import { $, el, place, safeLink, show, when } from "./dom.js";

let returnTo = null;
let latest = 0;

export async function openSource(fragment, quote = "") {
  const turn = ++latest;
  if ($("panel").hidden) returnTo = document.activeElement;
  head(fragment.title || "Untitled", [fragment.source_type, when(fragment.updated_at)]);
  $("panel-body").replaceChildren(el("p", { class: "loading" }, "Opening…"));
  foot(fragment);
  show($("panel"));
  document.body.classList.add("with-panel");
  $("panel").focus({ preventScroll: true });
  try {
    const found = await call("GET", `/v1/documents/${encodeURIComponent(fragment.document_id)}`);
    if (turn === latest) fill(found, fragment, quote);
  } catch (error) {
    if (turn === latest) $("panel-body").replaceChildren(el("p", { class: "gone" },
      error.status === 404 ? "This source is gone, or you may not open it." : error.message));
  }
}

export function closeSource() {
  if ($("panel").hidden) return false;
  latest++;
  show($("panel"), false);
  head("", []);
  $("panel-body").replaceChildren();
  $("panel-place").textContent = "";
  $("panel-link").removeAttribute("href");
  document.body.classList.remove("with-panel");
  if (returnTo?.isConnected) returnTo.focus({ preventScroll: true });
  return true;
}

function head(title, meta) {
  $("panel-title").textContent = title;
  $("panel-meta").textContent = meta.filter(Boolean).join(" · ");
}

function foot(fragment) {
  const link = safeLink(fragment.permalink, fragment.anchor);
  // A browser does not follow file: links from a page; the path is still worth reading.
  const path = link ? "" : decodeURI(fragment.permalink.replace(/^file:\/\//, ""));
  $("panel-place").textContent = [path, place(fragment.anchor)].filter(Boolean).join(" · ");
  show($("panel-link"), link !== null);
  if (link) $("panel-link").href = link;
}

function fill(found, fragment, quote) {
  head(found.title || "Untitled", [found.source_type, found.collection, found.author, when(found.updated_at)]);
  let heading = "";
  let first = null;
  const nodes = [];
  for (const chunk of found.chunks) {
    const path = chunk.heading_path.join(" › ");
    if (path && path !== heading) nodes.push(el("h3", {}, path));
    heading = path;
    const isCited = covers(fragment, chunk);
    const node = el("p", { class: isCited ? "chunk cited" : "chunk" }, ...marked(chunk.text, isCited ? quote : ""));
    if (isCited && !first) {
      first = node;
      node.prepend(el("span", { class: "unseen" }, "Cited passage: "));
    }
    nodes.push(node);
  }
  $("panel-body").replaceChildren(...nodes);
  const target = first?.querySelector("mark") ?? first;
  target?.scrollIntoView({ block: "center" });
}

// A fragment may merge neighbouring chunks: those whose anchor lies inside its own, or whose text it holds.
function covers(fragment, chunk) {
  if (fragment.text && fragment.text.includes(chunk.text.trim())) return true;
  const [cited, anchor] = [fragment.anchor, chunk.anchor];
  const isSameSheet = anchor.kind === "message" || cited.label === anchor.label;
  return anchor.kind !== "none" && cited.kind === anchor.kind && isSameSheet
    && anchor.start >= cited.start && anchor.end <= cited.end;
}

function marked(text, quote) {
  const at = quote ? text.indexOf(quote) : -1;
  if (at < 0) return [text];
  return [text.slice(0, at), el("mark", {}, quote), text.slice(at + quote.length)];
}
