// Sources, for operators: add a folder and watch it load, with what failed and why.
import { call } from "./api.js";
import { $, el, when } from "./dom.js";

const EVERY_MS = 1500;
let timer = 0;

export function startSources() {
  $("open-sources").addEventListener("click", () => {
    $("sources").showModal();
    refresh();
  });
  $("sources").addEventListener("close", () => clearTimeout(timer));
  $("source-form").addEventListener("submit", add);
}

async function add(event) {
  event.preventDefault();
  $("source-problem").textContent = "";
  try {
    await call("POST", "/v1/sources", { path: $("folder").value.trim(), collection: $("collection").value.trim() || "default" });
    $("folder").value = "";
    refresh();
  } catch (error) {
    $("source-problem").textContent = [error.message, error.hint].filter(Boolean).join(". ");
  }
}

async function refresh() {
  clearTimeout(timer);
  try {
    const { sources } = await call("GET", "/v1/sources");
    const loading = (source) => source.run?.status === "running";
    sources.sort((a, b) => loading(b) - loading(a));
    $("source-list").replaceChildren(...(sources.length ? sources.map(describe) : [el("li", { class: "none" }, "No source yet.")]));
  } catch (error) {
    $("source-problem").textContent = error.message;
  }
  if ($("sources").open) timer = setTimeout(refresh, EVERY_MS);
}

function describe(source) {
  const run = source.run;
  return el("li", {},
    el("div", { class: "source-head" },
      el("strong", {}, source.name),
      el("span", { class: `state ${run?.status ?? "idle"}` }, run?.status ?? "never loaded")),
    el("p", { class: "meta" }, `${source.source_type} · ${source.collection} · ${source.n_documents} documents`),
    run ? progress(run) : null,
    run?.failures.length ? failures(run.failures) : null,
    run?.skipped.length ? leftOut(run.skipped) : null);
}

function progress(run) {
  const { indexed = 0, unchanged = 0, removed = 0, failed = 0, total = 0 } = run.counts;
  const finished = indexed + unchanged + failed;
  const words = [`${indexed} indexed`, unchanged && `${unchanged} unchanged`, removed && `${removed} removed`, failed && `${failed} failed`,
    run.chunks_per_s && `${run.chunks_per_s.toFixed(1)} chunks/s`, run.remaining_s && `about ${duration(run.remaining_s)} left`];
  const bar = el("progress", { max: Math.max(total, finished, 1), value: finished, "aria-label": "Loaded" });
  if (run.status === "running" && !total) bar.removeAttribute("value");
  return el("div", { class: "progress" }, bar,
    el("span", {}, words.filter(Boolean).join(" · ") + (run.finished_at ? `, ${when(run.finished_at)}` : "")));
}

function duration(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.ceil(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function leftOut(kinds) {
  return el("details", {},
    el("summary", {}, `${kinds.reduce((sum, kind) => sum + kind.n, 0)} left out on purpose`),
    el("ul", { class: "failures" }, ...kinds.map((kind) =>
      el("li", {}, `${kind.n} ${kind.reason} `, el("span", { class: "meta" }, kind.code)))));
}

function failures(list) {
  return el("details", {},
    el("summary", {}, `${list.length} failed`),
    el("ul", { class: "failures" }, ...list.map((failure) =>
      el("li", {}, el("code", {}, failure.path), ` ${failure.reason} `, el("span", { class: "meta" }, failure.code)))));
}
