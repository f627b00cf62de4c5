// The collector's API: JSON by POST, as the Connect protocol has it.

const service = "weir.query.v1.QueryService/";
const patience = 20_000; // ms; the collector's own limit is shorter

/** Fault is what went wrong with a question, as a sentence with a remedy. */
export class Fault extends Error {
  /** @param {string} code Connect's, or "offline" */
  constructor(code, sentence) {
    super(sentence);
    this.code = code;
  }

  /** empty: nothing is wrong, there are no records only. */
  get empty() {
    return this.code === "not_found";
  }
}

let timed = () => {};

/** onTimed has a function know how long each question took, in ms. */
export function onTimed(f) {
  timed = f;
}

/** call asks a method of the service, with a message, and gives the answer's. */
async function call(method, message, signal) {
  const began = performance.now();
  const answer = await request(method, message, signal);
  const kind = message.question?.kind ?? method.toLowerCase();
  timed(method === "Series" ? `${kind} over time` : kind, performance.now() - began);
  return answer;
}

async function request(method, message, signal) {
  const late = AbortSignal.timeout(patience);
  let response;
  try {
    response = await fetch(new URL(service + method, document.baseURI), {
      method: "POST",
      headers: { "Content-Type": "application/json", "Connect-Protocol-Version": "1" },
      body: JSON.stringify(message),
      signal: signal ? AbortSignal.any([signal, late]) : late,
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    if (late.aborted) throw new Fault("offline", "The collector took more than 20 s for its answer. Choose a shorter window, or look at the load of its machine.");
    throw new Fault("offline", "The collector does not answer. Look whether weir collect is running and reachable from here; this page goes on trying.");
  }
  let answer;
  try {
    answer = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Fault("unknown", `The answer (status ${response.status}) is not of the collector's API. Look whether a proxy stands between, or reload the page after an update.`);
  }
  if (!response.ok) throw new Fault(answer.code ?? "unknown", sentence(answer, response.status));
  return answer;
}

/** sentence makes one of the collector's own words, which name the remedy where there is one. */
function sentence(answer, status) {
  const said = String(answer.message || `status ${status}`).replace(/^[a-z_]+: /, (m) => (m === `${answer.code}: ` ? "" : m));
  const text = said.charAt(0).toUpperCase() + said.slice(1).replace(/[.\s]+$/, "").replace(/\s*\n\s*(.)/g, (_, c) => `. ${c.toUpperCase()}`) + ".";
  switch (answer.code) {
    case "unauthenticated":
    case "permission_denied":
      return `${text} Use a client certificate with the role read or admin.`;
    case "resource_exhausted":
    case "deadline_exceeded":
      return /choose|ask|shorter/i.test(text) ? text : `${text} Choose a shorter window.`;
    default:
      return text;
  }
}

/** ask asks one question, and gives the typed answer of its kind. */
export async function ask(question, signal) {
  const answer = await call("Ask", { question }, signal);
  return unwrap(answer);
}

/** series asks one question for each step of its window. */
export function series(question, signal) {
  return call("Series", { question }, signal);
}

/** collector asks how the collector itself is. */
export function collector(signal) {
  return call("Collector", {}, signal);
}

/** unwrap takes the typed answer out of its oneof. */
export function unwrap(answer) {
  const [value] = Object.values(answer);
  return value;
}
