// What the pages gain from JavaScript: they stay true by themselves, and can be used from the keyboard. Everything else is
// the server's; without this file every page works all the same.

const said = document.getElementById("said");
let silence;

/** Says something, to eyes and to ears. */
function say(text) {
  if (!said) return;
  said.textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => { said.textContent = ""; }, 6000);
}

/** Whether somebody is at work in this part: then it is left alone until they are done. */
function busy(part) {
  const active = document.activeElement;
  const writes = active && part.contains(active) && active.matches("input, textarea, select");
  return writes || [...part.querySelectorAll("textarea")].some((field) => field.value.trim() !== "")
    || part.querySelector("input[type=radio]:checked") !== null;
}

/** Puts what is true now in the place of what was. */
function swap(fresh) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const next = fresh.getElementById(part.id);
    if (!next) { part.remove(); continue; }
    if (part.outerHTML === next.outerHTML) continue;
    // What somebody is answering is only taken away when it was answered elsewhere.
    const moved = part.dataset.state !== next.dataset.state;
    if (busy(part) && !moved) continue;
    const places = [...part.querySelectorAll(".scroll")].map((list) => list.scrollTop);
    const open = [...part.querySelectorAll("details")].map((one) => one.open);
    const focused = document.activeElement && part.contains(document.activeElement)
      ? document.activeElement.getAttribute("href") || document.activeElement.id : null;
    part.replaceWith(document.adoptNode(next));
    next.querySelectorAll(".scroll").forEach((list, at) => { list.scrollTop = places[at] || 0; });
    next.querySelectorAll("details").forEach((one, at) => { one.open = open[at] || one.open; });
    if (focused) {
      const again = [...next.querySelectorAll("a, button, [id]")]
        .find((one) => one.getAttribute("href") === focused || one.id === focused);
      again?.focus({ preventScroll: true });
    }
    if (moved && next.dataset.said) say(next.dataset.said);
  }
  const title = fresh.querySelector("title");
  if (title) document.title = title.textContent;
}

let asking = false;
let again = false;

async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
    if (answer.redirected && new URL(answer.url).pathname === "/login") { location.assign(answer.url); return; }
    if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { /* The server is away for a moment; the stream comes back and asks again. */ }
  asking = false;
  if (again) { again = false; setTimeout(refresh, 250); }
}

const live = document.body.dataset.live;
if (live) {
  let late;
  const soon = () => { clearTimeout(late); late = setTimeout(refresh, 120); };
  const follow = () => {
    const stream = new EventSource(live);
    let first = true;
    stream.addEventListener("changed", () => { if (first) { first = false; document.body.dataset.following = "yes"; } soon(); });
    stream.addEventListener("error", () => {
      delete document.body.dataset.following;
      // A stream that the browser has given up: the login may be over, or the server away.
      if (stream.readyState === EventSource.CLOSED) { stream.close(); setTimeout(() => { refresh(); follow(); }, 3000); }
    });
  };
  follow();
  // Ages grow older although nothing happens.
  setInterval(() => { if (!document.hidden) refresh(); }, 30000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
}

// The question is before somebody's eyes: said with a form, because looking at a page changes nothing.
const seen = document.getElementById("seen");
if (seen instanceof HTMLFormElement) {
  fetch(seen.action, { method: "POST", body: new URLSearchParams(new FormData(seen)) }).catch(() => {});
}

// The keyboard. Never while somebody writes.
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

document.addEventListener("keydown", (event) => {
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
