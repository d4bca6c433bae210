// Who asks: signing in with a one-time code, switching people in demo homes, signing out.
import { call } from "./api.js";
import { $, el, show } from "./dom.js";

let session = null;

const mayOperate = () => session?.scopes.includes("operate") ?? false;

export async function startPeople(onChange) {
  $("code-form").addEventListener("submit", (event) => signIn(event, onChange));
  $("sign-out").addEventListener("click", () => signOut(onChange));
  document.addEventListener("click", (event) => {
    if (!$("account").contains(event.target)) $("account").open = false;
  });
  $("account").addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !$("account").open) return;
    event.stopPropagation();
    $("account").open = false;
    $("account").querySelector("summary").focus();
  });
  try {
    become(await call("GET", "/v1/session"), onChange);
  } catch (error) {
    become(null, onChange);
    if (error.status !== 401) $("code-problem").textContent = error.message;
  }
}

export function signedOut(onChange) {
  become(null, onChange);
  $("code-problem").textContent = "Your session has ended. Please sign in again.";
}

async function signIn(event, onChange) {
  event.preventDefault();
  $("code-problem").textContent = "";
  try {
    become(await call("POST", "/v1/session", { code: $("code").value }), onChange);
    $("code").value = "";
  } catch (error) {
    $("code-problem").textContent = [error.message, error.hint].filter(Boolean).join(". ");
    $("code").select();
  }
}

async function signOut(onChange) {
  await call("DELETE", "/v1/session").catch(() => null);
  become(null, onChange);
}

async function switchTo(person, onChange) {
  $("account").open = false;
  if (person !== session.user_id) become(await call("POST", "/v1/session", { person }), onChange);
}

function become(next, onChange) {
  session = next;
  show($("sign-in"), !session);
  show($("asking"), session);
  show($("account"), session);
  show($("open-sources"), mayOperate());
  if (session) describe(onChange);
  else offerCode();
  onChange(session);
}

// A link may bring a code (#code=…): it is filled in, and the person decides whether to use it.
function offerCode() {
  const given = new URLSearchParams(location.hash.slice(1)).get("code");
  if (given) $("code").value = given;
  history.replaceState(null, "", location.pathname);
  $("code").focus();
}

function describe(onChange) {
  $("who").textContent = session.user_id;
  $("avatar").textContent = session.user_id.slice(0, 1).toUpperCase();
  const people = session.people.length ? session.people : [session.user_id];
  $("people-label").textContent = session.is_demo ? "Ask as (demo)" : "Signed in as";
  $("people").replaceChildren(...people.map((person) => el("button", {
    type: "button", class: "row", "aria-pressed": String(person === session.user_id),
    on: { click: () => switchTo(person, onChange).catch((error) => { $("status").textContent = error.message; }) },
  }, person)));
}
