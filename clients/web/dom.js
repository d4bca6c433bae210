// Small words for building the page. Text always goes in as text, so no document can bring markup with it.

export const $ = (id) => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") node.className = value;
    else if (name === "on") for (const [type, listener] of Object.entries(value)) node.addEventListener(type, listener);
    else if (name.includes("-") || name === "role") node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function show(node, isShown = true) {
  node.hidden = !isShown;
  return node;
}

// Only these schemes become links: a document may claim any permalink, `javascript:` too.
// A message's anchor replaces the last part of the path: every message of a thread has an address of its own.
export function safeLink(address, anchor = {}) {
  try {
    const url = new URL(address);
    if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
    if (!anchor.fragment || url.hash) return url.href;
    if (anchor.kind === "message") url.pathname = url.pathname.replace(/[^/]*$/, encodeURIComponent(anchor.fragment));
    else url.hash = anchor.fragment;
    return url.href;
  } catch {
    return null;
  }
}

export function when(instant) {
  if (!instant) return "";
  return new Date(instant).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

export function place(anchor) {
  const range = anchor.end > anchor.start ? `${anchor.start}–${anchor.end}` : `${anchor.start}`;
  switch (anchor.kind) {
    case "line": return anchor.end > anchor.start ? `lines ${range}` : `line ${range}`;
    case "page": return anchor.end > anchor.start ? `pages ${range}` : `page ${range}`;
    case "message": return anchor.end > anchor.start ? `messages ${range}` : `message ${range}`;
    case "slide": return `slide ${anchor.start}`;
    case "row": return `${anchor.label ? anchor.label + ", " : ""}rows ${range}`;
    case "second": return `at ${Math.floor(anchor.start / 60)}:${String(anchor.start % 60).padStart(2, "0")}`;
    default: return "";
  }
}

export function store(name, value) {
  try {
    if (value === undefined) return JSON.parse(localStorage.getItem(name));
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, JSON.stringify(value));
  } catch { /* storage may be forbidden; nothing depends on it */ }
  return null;
}
