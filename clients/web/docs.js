// Renders /openapi.json: what each address takes and gives, and how to call it.
import { $, el, show } from "./dom.js";

const spec = await (await fetch("/openapi.json")).json();
const schemas = spec.components.schemas;
const named = (schema) => (schema?.$ref ? schema.$ref.split("/").pop() : "");
const resolve = (schema) => (schema?.$ref ? schemas[named(schema)] : schema);
const slug = (method, path) => `${method}-${path.replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "")}`;

// Docstrings are wrapped and mark code with backticks.
const plain = (text = "") => text.replace(/`/g, "").replace(/([^\n])\n(?!\n)/g, "$1 ");

function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return named(schema).replace(/Model$/, "");
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.const) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${schema.items ? typeOf(schema.items) : (schema.prefixItems ?? []).map(typeOf)[0] ?? "anything"}`;
  if (schema.type === "object" && schema.additionalProperties) return `map of ${typeOf(schema.additionalProperties)}`;
  return schema.format === "date-time" ? "instant (RFC 3339)" : schema.type ?? "anything";
}

function bounds(schema, isRequired) {
  const said = [];
  const pairs = { minimum: "≥", maximum: "≤", minLength: "at least", maxLength: "at most", maxItems: "at most" };
  for (const [name, word] of Object.entries(pairs)) if (name in schema) said.push(`${word} ${schema[name]}`);
  if (!isRequired && "default" in schema) said.push(`default ${JSON.stringify(schema.default)}`);
  if (isRequired) said.unshift("required");
  return said.join(", ");
}

function fields(schema, isInput) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => el("tr", {},
    el("td", {}, el("code", {}, name)), el("td", {}, typeOf(field)),
    el("td", {}, [isInput ? bounds(field, schema.required?.includes(name)) : "", field.description].filter(Boolean).join("; "))));
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", {}, "Field"), el("th", {}, "Type"), el("th", {}, "Notes"))), el("tbody", {}, ...rows)));
}

function nested(schema, seen) {
  const found = [];
  const visit = (part) => {
    if (!part || typeof part !== "object") return;
    if (part.$ref && !seen.has(named(part))) {
      seen.add(named(part));
      found.push(named(part));
      visit(resolve(part));
    }
    Object.values(part).forEach(visit);
  };
  visit(schema.properties);
  return found;
}

function example(method, path, operation) {
  const body = resolve(operation.requestBody?.content["application/json"].schema);
  const lines = [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${location.origin}${path.replace(/\{.*?\}/, "ID")}`];
  if (operation.security) lines.push(`  -H "Authorization: Bearer $(cortex token you@example.com)"`);
  if (body) {
    const sample = Object.fromEntries((body.required ?? []).map((name) => [name, sampleOf(name, body.properties[name])]));
    lines.push(`  -H 'Content-Type: application/json'`, `  -d '${JSON.stringify(sample)}'`);
  }
  return lines.join(" \\\n");
}

function sampleOf(name, schema) {
  const known = { query: "When are receipts due?", path: "/srv/handbook", answer_id: "…" };
  return known[name] ?? { boolean: true, integer: 1 }[schema.type] ?? "…";
}

function operation(method, path, found) {
  const input = resolve(found.requestBody?.content["application/json"]?.schema);
  const [status, response] = Object.entries(found.responses).find(([code]) => code.startsWith("2"));
  const output = resolve(response.content?.["application/json"]?.schema);
  const seen = new Set();
  const parts = [el("h2", {}, found.summary), el("p", { class: "address" }, badge(method), path), el("p", {}, plain(found.description))];
  if (input) parts.push(el("h3", {}, "Takes"), fields(input, true));
  if (output?.properties) parts.push(el("h3", {}, `Gives (${status})`), fields(output, false));
  else parts.push(el("h3", {}, "Gives"), el("p", {}, status === "204" ? "204, no content" : `${status}, ${Object.keys(response.content ?? {}).join(", ")}`));
  if (output?.properties) for (const name of nested(output, seen)) parts.push(el("h3", {}, name.replace(/Model$/, "")), fields(schemas[name], false));
  parts.push(el("h3", {}, "Example"), el("pre", { tabIndex: 0 }, el("code", {}, example(method, path, found))));
  return el("section", { class: "operation", id: slug(method, path) }, ...parts);
}

const badge = (method) => el("span", { class: `method ${method}` }, method.toUpperCase());

function start() {
  $("about").textContent = plain(spec.info.description);
  const groups = new Map();
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const [method, found] of Object.entries(methods)) {
      const tag = found.tags?.[0] ?? "other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(el("a", { href: `#${slug(method, path)}` }, badge(method), el("span", {}, found.summary)));
      $("operations").append(operation(method, path, found));
    }
  }
  for (const [tag, links] of groups) $("contents").append(el("h2", {}, tag), ...links);
  $("contents").append(el("h2", {}, "errors"), el("a", { href: "#problems" }, "Problems"));
  $("problem-rows").append(...spec["x-problems"].map((problem) => el("tr", { id: problem.code }, el("td", {}, String(problem.status)),
    el("td", {}, el("code", {}, problem.code)), el("td", {}, problem.remedy), el("td", {}, problem.meaning))));
  follow();
  addEventListener("hashchange", follow);
}

// A problem's `type` leads here: /docs#the.code
function follow() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  const isCode = wanted.includes(".") && !$(wanted);
  show($("asked-code"), isCode).textContent = `${wanted}: see the kind with the status that came with it.`;
  (isCode ? $("problems") : $(wanted))?.scrollIntoView();
}

start();
