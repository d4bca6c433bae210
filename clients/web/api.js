// Talks to the HTTP API: JSON, problem documents, and server-sent events over fetch (EventSource cannot POST).

class Problem extends Error {
  constructor(document, retryAfterS = 0) {
    super(document.detail);
    Object.assign(this, document);
    this.retryAfterS = retryAfterS;
  }
}

async function send(method, path, body, { signal, accept = "application/json" } = {}) {
  const headers = { accept };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ status: 0, code: "server.unreachable", title: "Not reachable", remedy: "retry",
      detail: "Cortex does not answer.", hint: "Is it running? On its machine: cortex status" });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response) {
  const fallback = { status: response.status, code: "server.unexpected", title: "Error", remedy: "retry",
    detail: `The server answered ${response.status}.`, hint: "" };
  const document = await response.json().catch(() => fallback);
  return new Problem({ ...fallback, ...document }, Number(response.headers.get("retry-after")) || 0);
}

export async function call(method, path, body, options) {
  const response = await send(method, path, body, options);
  return response.status === 204 ? null : response.json();
}

// Calls `on[name](data)` for each event; ends after `done`, throws after `error` or when the stream breaks off.
export async function stream(path, body, on, signal) {
  const response = await send("POST", path, { ...body, stream: true }, { signal, accept: "text/event-stream" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const blocks = (waiting + value).split("\n\n");
    waiting = blocks.pop();
    for (const block of blocks) {
      const name = /^event: (.*)$/m.exec(block)?.[1];
      if (!name) continue;
      const data = JSON.parse(/^data: (.*)$/m.exec(block)[1]);
      if (name === "error") throw new Problem(data);
      on[name]?.(data);
      if (name === "done") return;
    }
  }
  throw new Problem({ status: 0, code: "stream.broken", title: "Interrupted", remedy: "retry",
    detail: "The answer broke off.", hint: "Ask again." });
}
