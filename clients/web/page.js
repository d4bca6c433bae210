// The page: ask, stream, cite, open. Everything it shows comes from the HTTP API as the signed-in person.
import { call, stream } from "./api.js";
import { $, el, show, store } from "./dom.js";
import { card, scaleOf } from "./evidence.js";
import { closeSource, openSource } from "./panel.js";
import { signedOut, startPeople } from "./people.js";
import { rich } from "./rich.js";
import { startSources } from "./sources.js";

const MAX_RECENTS = 6;
const state = { question: "", fragments: [], citations: new Map(), text: "", isAbstained: false, answerId: "", work: null,
  person: "", seen: { collections: new Set(), source_types: new Set() }, narrow: { collections: new Set(), source_types: new Set() },
  recents: [] };

const mode = () => document.querySelector("input[name=mode]:checked").value;

// ------------------------------------------------------------------------------------------------------ asking

async function ask(question) {
  state.work?.abort();
  const work = (state.work = new AbortController());
  begin(question);
  const body = { query: question, collections: [...state.narrow.collections], source_types: [...state.narrow.source_types] };
  try {
    if (mode() === "search") found(await call("POST", "/v1/search", body, { signal: work.signal }));
    else await stream("/v1/answer", body, { evidence: found, token, citation, done }, work.signal);
    if (mode() === "search") finish(`${state.fragments.length} passages found`);
  } catch (error) {
    if (error.name !== "AbortError") failed(error);
    else if (state.work === work) finish("Stopped");
  }
}

// Nothing of an earlier answer stays in the page, not even hidden: the next question may be another person's.
function forget(question) {
  closeSource();
  Object.assign(state, { question, fragments: [], citations: new Map(), text: "", isAbstained: false, answerId: "" });
  $("asked").textContent = question;
  for (const id of ["problem", "notices", "text", "follow-ups", "cards", "how"]) $(id).replaceChildren();
}

function begin(question) {
  forget(question);
  remember(question);
  document.body.classList.add("asked");
  for (const id of ["after", "comment-form", "evidence", "recents"]) show($(id), false);
  $("answer").className = "answer working";
  show($("answer"));
  show($("send"), false);
  show($("stop"));
  $("text").setAttribute("aria-busy", "true");
  $("text").append(el("p", { class: "thinking" }, el("span", {}, "Reading what you may see"), el("i"), el("i"), el("i")));
  $("status").textContent = "Searching";
}

function found(result) {
  state.fragments = result.evidence;
  const scale = scaleOf(result.evidence);
  $("cards").replaceChildren(...result.evidence.map((fragment) => card(fragment, scale, state.question, openSource)));
  show($("evidence"), result.evidence.length > 0);
  $("evidence-title").textContent = mode() === "search" ? "Passages" : "Evidence";
  notices(result.degraded);
  for (const hit of result.hits) {
    state.seen.collections.add(hit.collection);
    state.seen.source_types.add(hit.source_type);
  }
  filters();
  explain(result);
  if (mode() !== "search") return;
  $("text").replaceChildren(...(result.evidence.length ? [] : [el("p", {}, "Nothing found in what you may see.")]));
}

let isDrawing = false;
function token({ text }) {
  state.text += text;
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    draw();
  });
}

function citation(cited) {
  state.citations.set(cited.number, cited);
  draw();
}

function done(answer) {
  Object.assign(state, { text: answer.answer, isAbstained: answer.abstained, answerId: answer.answer_id });
  state.citations = new Map(answer.citations.map((cited) => [cited.number, cited]));
  draw();
  notices(answer.degraded);
  explain(answer);
  for (const id of ["thumb-up", "thumb-down"]) $(id).setAttribute("aria-pressed", "false");
  show($("after"));
  $("follow-ups").replaceChildren(...answer.follow_ups.map((text) =>
    el("button", { type: "button", class: "follow-up", on: { click: () => submit(text) } }, text)));
  if (answer.abstained) abstain();
  const n = state.citations.size;
  finish(answer.abstained ? "No answer: the evidence does not support one" : `Answer ready, ${n} ${n === 1 ? "citation" : "citations"}`);
}

function abstain() {
  $("answer").classList.add("abstained");
  show($("evidence"), false);
  $("follow-ups").append(el("button", { type: "button", class: "follow-up", on: { click: searchInstead } }, "Show the nearest passages"));
}

function searchInstead() {
  document.querySelector("input[name=mode][value=search]").checked = true;
  ask(state.question);
}

function draw() {
  $("text").replaceChildren(...rich(state.text, chip));
}

function chip(number) {
  const fragment = state.fragments.find((each) => each.number === number);
  if (!fragment) return null;
  const point = (isOn) => () => $(`evidence-${number}`)?.classList.toggle("pointed", isOn);
  return el("button", { type: "button", class: "chip", "aria-label": `Citation ${number}: ${fragment.title}`, title: fragment.title,
    on: { click: () => openCitation(number), mouseenter: point(true), mouseleave: point(false) } }, String(number));
}

function openCitation(number) {
  const fragment = state.fragments.find((each) => each.number === number);
  if (fragment) openSource(fragment, state.citations.get(number)?.quote);
}

function finish(words) {
  $("answer").classList.remove("working");
  $("text").removeAttribute("aria-busy");
  $("text").querySelector(".thinking")?.remove();
  show($("answer"), mode() !== "search" || state.fragments.length === 0 || $("notices").childElementCount > 0);
  show($("stop"), false);
  show($("send"));
  $("status").textContent = words;
  state.work = null;
}

function failed(problem) {
  finish(problem.message);
  if (problem.status === 401) return signedOut(changed);
  show($("answer"), state.text !== "");
  const retry = el("button", { type: "button", class: "secondary", on: { click: () => ask(state.question) } }, "Try again");
  const isWorthIt = ["retry", "retry-after"].includes(problem.remedy);
  $("problem").replaceChildren(el("div", { class: "problem" },
    el("strong", {}, problem.title ?? "Error"), el("p", {}, problem.message),
    problem.hint ? el("p", { class: "meta" }, problem.hint) : null,
    isWorthIt ? retry : null,
    el("p", { class: "meta" }, [problem.code, problem.trace_id].filter(Boolean).join(" · "))));
  if (problem.retryAfterS) wait(retry, problem.retryAfterS);
}

function wait(button, seconds) {
  button.disabled = seconds > 0;
  button.textContent = seconds > 0 ? `Try again in ${seconds} s` : "Try again";
  if (seconds > 0) setTimeout(wait, 1000, button, seconds - 1);
}

function notices(degraded) {
  const names = { dense: "search by meaning", bm25: "search by words" };
  $("notices").replaceChildren(...degraded.map((each) =>
    el("p", { class: "notice" }, el("strong", {}, `${names[each.part] ?? each.part}: `), each.reason)));
}

function explain(result) {
  const total = result.timings_ms.total ?? Object.values(result.timings_ms).reduce((sum, each) => sum + each, 0);
  const words = { extractive: "Sentences of the sources, unchanged", generated: `Written by ${result.model}`, abstained: "Not answered" };
  $("how-line").textContent = [words[result.mode], `${Math.round(total)} ms`].filter(Boolean).join(" · ");
  const rows = Object.entries(result.timings_ms).map(([step, time]) => [step, `${time.toFixed(1)} ms`]);
  $("how").replaceChildren(...[...rows, ["trace", result.trace_id]].map(([name, value]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

// ------------------------------------------------------------------------------------------ filters and recents

function filters() {
  const chips = [];
  for (const [kind, label] of [["collections", "collection"], ["source_types", "kind"]]) {
    if (state.seen[kind].size < 2 && state.narrow[kind].size === 0) continue;
    chips.push(el("span", { class: "label" }, label));
    for (const value of [...state.seen[kind]].sort()) {
      const isOn = state.narrow[kind].has(value);
      chips.push(el("button", { type: "button", class: "filter", "aria-pressed": String(isOn), "aria-label": `Only ${label} ${value}`,
        on: { click: () => narrow(kind, value) } }, value));
    }
  }
  show($("filters"), chips.length > 0).replaceChildren(...chips);
}

function narrow(kind, value) {
  const chosen = state.narrow[kind];
  if (!chosen.delete(value)) chosen.add(value);
  filters();
  if (state.question) ask(state.question);
}

// Questions stay in this tab's memory until the person changes; they are written to the device only if that one asks for it.
const recentsOf = () => `cortex.recents.${state.person}`;

function remember(question) {
  state.recents = [question, ...state.recents.filter((each) => each !== question)].slice(0, MAX_RECENTS);
  if ($("remember").checked) store(recentsOf(), state.recents);
}

function recents() {
  show($("recents"), state.recents.length > 0 && !state.question).replaceChildren(...state.recents.map((question) =>
    el("button", { type: "button", class: "recent", on: { click: () => submit(question) } }, question)));
}

// ---------------------------------------------------------------------------------------------------- feedback

async function thumb(isHelpful, comment = "") {
  if (!state.answerId) return;
  try {
    await call("POST", "/v1/feedback", { answer_id: state.answerId, helpful: isHelpful, comment });
    $("thumb-up").setAttribute("aria-pressed", String(isHelpful));
    $("thumb-down").setAttribute("aria-pressed", String(!isHelpful));
    show($("comment-form"), !comment);
    $("comment-label").textContent = isHelpful ? "What helped? (optional)" : "What was wrong or missing? (optional)";
    $("status").textContent = "Thank you";
  } catch (error) {
    $("status").textContent = error.message;
  }
}

// ------------------------------------------------------------------------------------------------ keys and start

function submit(text) {
  const question = text.trim();
  if (!question) return;
  $("question").value = question;
  grow();
  ask(question);
}

function clear() {
  state.work?.abort();
  forget("");
  for (const kind of Object.keys(state.narrow)) {
    state.narrow[kind].clear();
    state.seen[kind].clear();
  }
  document.body.classList.remove("asked");
  for (const id of ["answer", "evidence"]) show($(id), false);
  filters();
  $("question").value = "";
  grow();
  recents();
  $("question").focus();
}

function grow() {
  $("question").style.height = "auto";
  $("question").style.height = `${$("question").scrollHeight}px`;
}

function step(by) {
  const cards = [...document.querySelectorAll(".card")];
  const at = cards.indexOf(document.activeElement);
  cards[Math.max(0, Math.min(cards.length - 1, at < 0 ? 0 : at + by))]?.focus();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.matches("textarea, input:not([type=radio]):not([type=checkbox])");
  if (event.key === "Escape") {
    if (closeSource()) return;
    if (state.work) return state.work.abort();
    return clear();
  }
  if (isTyping || $("asking").hidden) return;
  const move = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  const isTaken = event.key.startsWith("Arrow") && ($("panel").contains(event.target) || event.target.matches("input"));
  if (move && !isTaken && state.fragments.length) step(move);
  else if (event.key === "/") $("question").focus();
  else if (event.key === "?") $("help").showModal();
  else if (/^[1-9]$/.test(event.key)) openCitation(Number(event.key));
  else return;
  event.preventDefault();
}

function changed(session) {
  const isOther = session?.user_id !== state.person;
  state.person = session?.user_id ?? "";
  if (isOther) {
    const kept = session && store(recentsOf());
    $("remember").checked = Boolean(kept);
    state.recents = kept || [];
  }
  if (!session) return clear();
  closeSource();
  for (const kind of Object.keys(state.seen)) state.seen[kind].clear();
  if (isOther && state.question) ask(state.question); // the same question, through the other person's eyes
  else {
    grow();
    recents();
    $("question").focus();
  }
}

function start() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    submit($("question").value);
  });
  $("question").addEventListener("input", grow);
  $("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit($("question").value);
  });
  $("stop").addEventListener("click", () => state.work?.abort());
  for (const radio of document.querySelectorAll("input[name=mode]")) radio.addEventListener("change", () => state.question && ask(state.question));
  $("panel-close").addEventListener("click", closeSource);
  $("thumb-up").addEventListener("click", () => thumb(true));
  $("thumb-down").addEventListener("click", () => thumb(false));
  $("comment-form").addEventListener("submit", (event) => {
    event.preventDefault();
    thumb($("thumb-up").getAttribute("aria-pressed") === "true", $("comment").value.trim());
    $("comment").value = "";
    show($("comment-form"), false);
  });
  $("copy").addEventListener("click", () => navigator.clipboard?.writeText(state.text).then(() => { $("status").textContent = "Copied"; }));
  $("open-help").addEventListener("click", () => $("help").showModal());
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
  $("theme").addEventListener("click", () => {
    const chosen = document.documentElement.dataset.theme;
    const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("cortex.theme", document.documentElement.dataset.theme);
  });
  $("remember").addEventListener("change", () => store(recentsOf(), $("remember").checked ? state.recents : null));
  document.addEventListener("keydown", onKey);
  startSources();
  startPeople(changed);
}

start();
