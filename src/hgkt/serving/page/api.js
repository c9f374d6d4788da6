/* The service's API, and its errors as sentences a person can act on. */

const KEY = "hgkt-api-key";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

const WORDS = {
  401: () => (key.get() ? "The service does not know this API key."
    : "The service asks for an API key before it changes anything; enter it under “Add a class”."),
  413: (detail) => `That is too large for this service: ${detail}`,
  429: () => "The service has too much to do at the moment; try again in a few seconds.",
  500: () => "The service failed to answer; its log says why.",
  503: (detail) => `The service is not ready: ${detail}`,
  507: (detail) => `The service could not store the change: ${detail}`,
};

function sentence(text) {
  const trimmed = text.trim();
  if (!trimmed) return "";
  const first = trimmed[0].toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

async function problem(response) {
  let detail = "";
  try {
    const body = await response.json();
    detail = typeof body.detail === "string" ? body.detail : (body.title ?? "");
  } catch {
    detail = response.statusText;
  }
  const words = WORDS[response.status];
  const text = words ? words(detail) : detail;
  return new ApiError(response.status, sentence(text) || `The service answered ${response.status}.`);
}

async function ask(path, { headers = {}, ...options } = {}) {
  if (key.get()) headers["X-API-Key"] = key.get();
  let response;
  try {
    response = await fetch(path, { cache: "no-store", headers, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not answer; it may have been stopped.");
  }
  if (!response.ok) throw await problem(response);
  return response;
}

const call = async (path, options) => (await ask(path, options)).json();

/** An address for an image, which needs the key that a plain one would not send. */
const picture = async (path) => URL.createObjectURL(await (await ask(path)).blob());

function send(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  return call(path, { method, headers, body: body && JSON.stringify(body) });
}

function images(files) {
  const form = new FormData();
  for (const file of files) form.append("images", file);
  return form;
}

const TOP = 5;
// One row in twenty of known classes may be rejected; a set holds the true class in nine of ten.
export const SURE = { reject: 0.05, coverage: 0.9 };

export const api = {
  ready: () => call("ready"),
  model: () => call("v1/model"),
  map: () => call("v1/map"),
  classes: (parameters) => call(`v1/classes?${new URLSearchParams({ newest_first: true, ...parameters })}`),
  class: (name) => call(`v1/classes/${encodeURIComponent(name)}`),
  samples: () => call("v1/samples"),
  sample: (id) => call(`v1/samples/${encodeURIComponent(id)}`),
  check: (description) => send("POST", "v1/classes/check", { classes: [description] }),
  add: (description) => send("POST", "v1/classes", { classes: [description] }),
  remove: (name) => send("DELETE", `v1/classes/${encodeURIComponent(name)}`),
  edit: (name, change) => send("PATCH", `v1/classes/${encodeURIComponent(name)}`, change),
  grow: (name, features) => send("POST", `v1/classes/${encodeURIComponent(name)}/examples`, { features: [features] }),
  growByImages: (name, files) =>
    call(`v1/classes/${encodeURIComponent(name)}/examples`, { method: "POST", body: images(files) }),
  growByTexts: (name, texts) => send("POST", `v1/classes/${encodeURIComponent(name)}/examples`, { texts }),
  events: (after) => call(`v1/events?after=${after}&limit=200`),
  unknown: () => call("v1/unknown?limit=1"),
  unknownGroups: () => call("v1/unknown/groups"),
  unknownImage: (id) => picture(`v1/unknown/${id}/content`),
  unknownText: async (id) => (await ask(`v1/unknown/${id}/content`)).text(),
  unknownClass: (description) => send("POST", "v1/unknown/classes", description),
  forgetUnknown: () => send("DELETE", "v1/unknown"),
  rollback: (revision) => send("POST", "v1/rollback", { revision }),
  predict: (features, { explains, confident }) =>
    send("POST", "v1/predict", { features: [features], top_k: TOP, explain: explains, ...(confident ? SURE : {}) }),
  predictText: (text, { explains, confident }) =>
    send("POST", "v1/predict/text", { texts: text, top_k: TOP, explain: explains, ...(confident ? SURE : {}) }),
  predictImage: (file, { explains, confident }) => {
    const query = new URLSearchParams({ top_k: TOP, explain: explains, ...(confident ? SURE : {}) });
    return call(`v1/predict/image?${query}`, { method: "POST", body: images([file]) });
  },
};
