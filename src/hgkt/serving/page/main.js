/* Starts the parts of the page and keeps them in step with the service. */

import { api, key } from "./api.js";
import { startAdd } from "./add.js";
import { startClasses } from "./classes.js";
import { startDetails } from "./details.js";
import { startHistory } from "./history.js";
import { $, say } from "./dom.js";
import { startMap } from "./map.js";
import { startPredict } from "./predict.js";
import { on, refresh, select, state } from "./state.js";
import { startUnknown } from "./unknown.js";

const EVERY = 1000; // ms between two looks at the revision
let wasDown = false;
let behind = 0; // looks in a row that found an older revision than the one shown

function status(kind, text) {
  if ($("status").dataset.state === kind) return;
  $("status").dataset.state = kind;
  $("status-text").textContent = text;
}

function facts() {
  const model = state.model;
  const count = (n, what) => `${n} ${what}`;
  document.title = `${model.name} – hgkt`;
  $("facts").replaceChildren();
  const name = document.createElement("strong");
  name.textContent = model.name;
  $("facts").append(name, ` ${count(model.n_seen_classes, "seen")} + ${count(model.n_added_classes, "added")} ` +
    (model.n_classes === 1 ? "class" : "classes"));
}

async function look() {
  try {
    const { revision } = await api.ready();
    // One of several server processes may lag; only a service that stays behind was set back.
    behind = revision < state.model.revision ? behind + 1 : 0;
    if (wasDown || behind > 3 || revision > state.model.revision) await refresh({ always: wasDown });
    wasDown = false;
    say($("banner"), "");
    status("live", "live");
  } catch (error) {
    wasDown = true;
    say($("banner"), `${error.message} Trying again every second.`);
    status("down", "offline");
  }
}

async function poll() {
  if (!document.hidden) await look();
  setTimeout(poll, EVERY);
}

function setGate(closed) {
  $("gate").hidden = !closed;
  for (const part of document.querySelectorAll("main, .steps")) part.hidden = closed;
}

/** The service is closed to strangers: nothing can be shown before there is a key. */
function askForKey() {
  say($("banner"), key.get() ? "The service does not know this API key." : "");
  status("closed", "closed");
  $("facts").textContent = "";
  setGate(true);
  $("gate-key").focus();
}

$("gate").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set($("gate-key").value.trim());
  start();
});

async function start() {
  try {
    state.model = await api.model();
  } catch (error) {
    if (error.status === 401) return askForKey();
    say($("banner"), `${error.message} Trying again every second.`);
    status("down", "offline");
    setTimeout(start, EVERY);
    return;
  }
  setGate(false);
  // A link carries no key, so that it would lead to a refusal.
  $("api-link").hidden = state.model.key_guards === "all";
  on("revision", facts);
  for (const part of [startMap, startDetails, startClasses, startHistory, startAdd, startPredict, startUnknown]) part();
  await refresh({ always: true });
  select(null);
  say($("banner"), "");
  status("live", "live");
  document.addEventListener("visibilitychange", () => document.hidden || look());
  poll();
}

start();
