// Progressive enhancement of the pages: live updates and keyboard shortcuts. The server renders everything else; without
// this file every page still works.

const { live, page, who } = document.body.dataset;
// A refused answer is rendered at the URL of its form, which cannot be fetched; `page` is the URL of the page itself.
const here = page ?? location.pathname + location.search;
if (location.pathname + location.search !== here) history.replaceState(null, "", here);

const said = document.getElementById("said");
let silence;

/** Shows a status message, also to screen readers; with a link `on` it stays until replaced. */
function say(text, on) {
  if (!said || said.textContent === text + (on?.textContent ?? "")) return;
  said.replaceChildren(text, ...(on ? [on] : []));
  clearTimeout(silence);
  if (!on) silence = setTimeout(() => { said.textContent = ""; }, 6000);
}

const parts = () => [...document.querySelectorAll("[data-part]")];

/** Returns whether the user is entering something in this part; such a part is not updated. */
function busy(part) {
  const active = document.activeElement;
  const writes = active && part.contains(active) && active.matches("input, textarea, select");
  const texts = [...part.querySelectorAll("input:not([type=hidden], [type=radio], [type=checkbox])")];
  return writes || [...part.querySelectorAll("textarea")].some((field) => field.value.trim() !== "")
    || texts.some((field) => field.value !== field.defaultValue)
    || part.querySelector("input[type=radio]:checked") !== null;
}

// Elements that show ages.
const AGES = "time, [data-age]";
// Focusable elements.
const REACH = "a[href], button, summary, input:not([type=hidden]), textarea, select, [tabindex]";

/** Shows the times of day of a page in the reader's time zone. */
function localise(page) {
  for (const one of page.querySelectorAll("time[datetime]")) {
    const at = new Date(one.getAttribute("datetime"));
    if (!Number.isNaN(at.valueOf())) one.title = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
}
localise(document);

/** Returns the markup of a part without its ages. */
function ageless(part) {
  const copy = part.cloneNode(true);
  for (const one of copy.querySelectorAll(AGES)) one.textContent = "";
  return copy.outerHTML;
}

/** Restores the focus in the replacement of a part: to the element with the same name, else at the same position. */
function refocus(part, next, focused) {
  const name = focused.getAttribute("href") || focused.id;
  const named = name && [...next.querySelectorAll("a, button, [id]")]
    .find((one) => one.getAttribute("href") === name || one.id === name);
  const turn = [...next.querySelectorAll(REACH)][[...part.querySelectorAll(REACH)].indexOf(focused)];
  const found = named || (turn?.localName === focused.localName ? turn : null);
  found?.focus({ preventScroll: true });
}

/** Returns the words that were sent, as shown in a part; unsent words that are only preserved there do not count. */
const spoken = (part) => new Set([...part.querySelectorAll(".written")]
  .filter((one) => !one.closest("[data-kept]")).map((one) => one.textContent.trim()));

/** Shows unsent texts that have no form any more. */
function giveBack(part, texts) {
  if (texts.length === 0) return;
  const make = (name, more) => Object.assign(document.createElement(name), more);
  let block = part.querySelector(":scope > .unsent");
  if (!block) {
    block = make("section", { className: "note unsent" });
    block.setAttribute("aria-labelledby", "unsent-h");
    block.dataset.kept = "";
    block.append(make("h2", { id: "unsent-h", textContent: "What you wrote was not sent:" }));
    const alert = part.querySelector(":scope > .alert");
    if (alert) alert.after(block); else part.prepend(block);
  }
  const there = new Set([...block.querySelectorAll(".written")].map((one) => one.textContent.trim()));
  for (const text of texts) {
    if (!there.has(text.trim())) block.append(make("p", { className: "written", textContent: text }));
  }
}

/** Fills a text into a field, if the field exists; returns whether it does. */
function fill(field, text) {
  if (!field) return false;
  if (field.value.trim() === "") field.value = text;
  field.closest("details")?.setAttribute("open", "");
  return true;
}

/** Copies drafts into the replacement of a part; returns the texts that have no field there. */
function carry(part, next) {
  const heard = spoken(next);
  const texts = [...part.querySelectorAll("textarea")].filter((field) => field.value.trim() !== "" && !heard.has(field.value.trim()));
  return texts.filter((from) => !fill([...next.querySelectorAll("textarea")].find((one) => one.name === from.name), from.value))
    .map((from) => from.value);
}

/** Replaces one part by its current version. */
function renew(part, next) {
  // Opened details stay open, and the message about a refused answer stays visible, with the answer.
  const open = [...part.querySelectorAll("details")].map((one) => one.open);
  next.querySelectorAll("details").forEach((one, at) => { one.open = open[at] || one.open; });
  const kept = [...part.querySelectorAll(":scope > [data-kept]")];
  if (!next.querySelector(":scope > [data-kept]")) next.prepend(...kept.map((one) => one.cloneNode(true)));
  if (ageless(part) === ageless(next)) {
    const ages = [...next.querySelectorAll(AGES)];
    part.querySelectorAll(AGES).forEach((one, at) => {
      if (one.textContent !== ages[at].textContent) one.textContent = ages[at].textContent;
    });
    return;
  }
  // A question with a half-entered answer is only replaced when it was answered elsewhere.
  const moved = part.dataset.state !== next.dataset.state;
  if (busy(part) && !moved) return;
  const lost = carry(part, next);
  giveBack(next, lost);
  const places = [...part.querySelectorAll(".scroll")].map((list) => list.scrollTop);
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  part.replaceWith(document.adoptNode(next));
  next.querySelectorAll(".scroll").forEach((list, at) => { list.scrollTop = places[at] || 0; });
  if (focused) refocus(part, next, focused);
  if (moved && next.dataset.said) say(next.dataset.said + (lost.length > 0 ? " What you wrote was not sent." : ""));
}

/** Updates the page to a freshly fetched version. */
function swap(fresh) {
  localise(fresh);
  if (fresh.body.dataset.who !== who) {
    if (parts().some(busy)) say(`You are logged in as ${fresh.body.dataset.who} now.`);
    else location.assign(here);
    return;
  }
  if (out) { out = false; say("You are logged in again."); }
  // After a new login in another window, forms on this page must use that login too.
  const token = fresh.querySelector("input[name=token]")?.value;
  if (token) for (const field of document.querySelectorAll("input[name=token]")) field.value = token;
  // Outer parts come before inner ones: a part within a busy part is still updated by itself.
  for (const part of parts()) {
    if (!part.isConnected) continue;
    const next = fresh.getElementById(part.id);
    if (next) renew(part, next); else part.remove();
  }
  const title = fresh.querySelector("title");
  if (title) document.title = title.textContent;
}

// Whether a form that was sent leads to another page.
let going = false;
document.addEventListener("submit", (event) => { going = !event.defaultPrevented; });
addEventListener("pageshow", () => { going = false; });

let out = false;

/** Handles the end of the login. A user with a draft logs in in another tab and continues here. */
function leave(login) {
  // Another navigation would cancel the one that the user wants, such as that of "Log out".
  if (going) return;
  if (!parts().some(busy)) { location.assign(login); return; }
  out = true;
  const way = Object.assign(document.createElement("a"), { href: login, target: "_blank", rel: "noopener", textContent: "Log in again" });
  say("You were logged out. What you have written is still here. ", way);
}

// Shortest interval in milliseconds between two updates: a dashboard is expensive to render under load.
const PAUSE = here.startsWith("/dashboard") ? 2500 : 0;
let asking = false;
let again = false;
let asked = -Infinity;
let planned;

async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  asked = performance.now();
  try {
    const answer = await fetch(here, { headers: { accept: "text/html" }, cache: "no-store" });
    if (answer.redirected && new URL(answer.url).pathname === "/login") leave(answer.url);
    else if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { /* The server is unavailable; the stream reconnects and triggers another request. */ }
  asking = false;
  if (again) { again = false; soon(); }
}

/** Schedules an update; merges frequent ones, and skips hidden pages. */
function soon() {
  if (planned) return;
  planned = setTimeout(() => {
    planned = undefined;
    if (!document.hidden) refresh();
  }, Math.max(120, asked + PAUSE - performance.now()));
}

let stream;
let comeback;

/** Follows the event stream while the page is visible: browsers limit their connections, and all tabs share them. */
function follow() {
  clearTimeout(comeback);
  if (document.hidden) {
    stream?.close();
    stream = undefined;
    delete document.body.dataset.following;
    return;
  }
  if (stream) return;
  const opened = stream = new EventSource(live);
  opened.addEventListener("changed", () => { document.body.dataset.following = "yes"; soon(); });
  opened.addEventListener("error", () => {
    if (opened !== stream) return;
    delete document.body.dataset.following;
    if (opened.readyState !== EventSource.CLOSED) return;
    // The browser has given up on the stream: the login may have expired, or the server is unavailable.
    stream = undefined;
    comeback = setTimeout(() => { soon(); follow(); }, 3000);
  });
}

if (live) {
  follow();
  // Ages change without events.
  setInterval(soon, 30000);
  document.addEventListener("visibilitychange", () => { follow(); soon(); });
}

// Reports that the question is visible to the user; by POST, because a GET must not change anything.
function see() {
  const form = document.getElementById("seen");
  if (document.visibilityState !== "visible" || !(form instanceof HTMLFormElement)) return;
  document.removeEventListener("visibilitychange", see);
  fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) }).catch(() => {});
}
document.addEventListener("visibilitychange", see);
see();

// Drafts survive the end of a login: they are kept in this tab, for their author only.
const DRAFT = "draft ";
const draft = page && who ? `${DRAFT}${who} ${page}` : null;
const fields = () => [...document.querySelectorAll("main textarea[name]")];

function store(texts) {
  if (texts.length === 0) sessionStorage.removeItem(draft);
  else sessionStorage.setItem(draft, JSON.stringify(Object.fromEntries(texts)));
}

const stored = () => Object.entries(JSON.parse(sessionStorage.getItem(draft) ?? "{}"));

function keep() {
  const all = fields();
  // Texts without a field exist only in this storage.
  const rest = stored().filter(([name]) => !all.some((field) => field.name === name));
  const texts = all.filter((field) => field.value.trim() !== "").map((field) => [field.name, field.value]);
  store([...rest, ...texts]);
}

if (draft) {
  try {
    const moment = document.getElementById("moment");
    const heard = spoken(moment);
    const texts = stored().filter(([, text]) => !heard.has(text.trim()));
    const lost = texts.filter(([name, text]) => !fill(fields().find((field) => field.name === name), text));
    giveBack(moment, lost.map(([, text]) => text));
    store(texts);
    keep();
    document.addEventListener("input", keep);
    document.querySelector("form[action='/logout']")?.addEventListener("submit", () => {
      Object.keys(sessionStorage).filter((name) => name.startsWith(DRAFT)).forEach((name) => sessionStorage.removeItem(name));
    });
  } catch { /* The browser has no storage. */ }
}

// Keyboard shortcuts, inactive while the user types.
const steps = () => [...document.querySelectorAll("[data-step]")];

function step(by) {
  const all = steps();
  if (all.length === 0) return;
  const at = all.indexOf(document.activeElement);
  const to = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by));
  all[to].focus();
  all[to].scrollIntoView({ block: "nearest" });
}

function reveal(id) {
  const hatch = document.getElementById(id);
  if (!hatch) return false;
  hatch.open = true;
  hatch.querySelector("textarea")?.focus();
  return true;
}

// Users of speech input and other assistive technology can switch them off (WCAG 2.1.4); the browser stores the choice.
const KEYS = "keys";
const wanted = document.getElementById("keys-on");
let keys = true;

function turn(on) {
  keys = on;
  if (wanted) wanted.checked = on;
  document.body.classList.toggle("keyless", !on);
}

try { turn(localStorage.getItem(KEYS) !== "off"); } catch { /* The browser has no storage. */ }
addEventListener("storage", (event) => { if (event.key === KEYS) turn(event.newValue !== "off"); });
if (wanted) {
  wanted.parentElement.hidden = false;
  wanted.addEventListener("change", () => {
    turn(wanted.checked);
    try { localStorage.setItem(KEYS, keys ? "on" : "off"); } catch { /* As above. */ }
  });
}

document.addEventListener("keydown", (event) => {
  if (!keys) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target instanceof Element && target.matches("textarea, input:not([type=radio]), select")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  const option = /^[1-4]$/.test(event.key) && document.querySelectorAll("input[type=radio][name=option]")[Number(event.key) - 1];
  const done = option ? (option.checked = true, option.focus(), true)
    : event.key === "j" ? (step(1), true)
    : event.key === "k" ? (step(-1), true)
    : event.key === "t" ? reveal("words")
    : event.key === "d" ? reveal("wrong")
    : event.key === "u" ? (document.querySelector("[data-up]")?.click(), true)
    : event.key === "?" ? (document.getElementById("keys")?.toggleAttribute("open"), true)
    : false;
  if (done) event.preventDefault();
});

// Filters of long lists: every word has to be in an item. What is hidden stays in the page, so that links lead to it.
for (const form of document.querySelectorAll("form[data-filter]")) {
  const input = form.querySelector("input");
  const list = document.getElementById(form.dataset.filter);
  const narrow = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const group of list.querySelectorAll("[data-group]")) {
      let shown = 0;
      for (const item of group.querySelectorAll("[data-words]")) {
        const text = item.dataset.words.toLowerCase();
        item.hidden = !words.every((word) => text.includes(word));
        shown += item.hidden ? 0 : 1;
      }
      group.hidden = shown === 0;
      found += shown;
    }
    document.getElementById("none").hidden = found > 0;
  };
  input.addEventListener("input", narrow);
  form.addEventListener("submit", (event) => event.preventDefault());
  narrow();
}

// Times are meant in the person's own zone, unless they say otherwise.
for (const field of document.querySelectorAll("[data-zone]")) {
  if (!field.value) field.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
}

// Push messages: subscribes this browser, and sends the subscription with the form.
for (const form of document.querySelectorAll("form[data-push]")) {
  const button = form.querySelector("button");
  const note = form.querySelector("[data-push-note]");
  const say = (text) => { note.textContent = text; };
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) {
    say("This browser has no push messages, or the connection is not encrypted.");
    continue;
  }
  button.disabled = false;
  say("The browser asks you first. Messages are encrypted on their way to it.");
  form.addEventListener("submit", async (event) => {
    if (form.elements.address.value) return;
    event.preventDefault();
    button.disabled = true;
    try {
      if (await Notification.requestPermission() !== "granted") {
        say("The browser does not let this page tell you anything. Allow notifications in its settings for this page.");
        return;
      }
      await navigator.serviceWorker.register("/push.js");
      const worker = await navigator.serviceWorker.ready;
      const base64 = form.dataset.push.replaceAll("-", "+").replaceAll("_", "/");
      const key = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
      const made = (await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key })).toJSON();
      form.elements.address.value = made.endpoint;
      form.elements.p256dh.value = made.keys.p256dh;
      form.elements.auth.value = made.keys.auth;
      form.elements.label.value = navigator.userAgentData?.platform ?? "";
      form.submit();
    } catch (fault) {
      say(`The browser could not subscribe: ${fault.message}. Its push service may be out of reach.`);
    } finally {
      button.disabled = false;
    }
  });
}
