// What the pages do with a script that they also do without one, only sooner: search while somebody types, swap the
// list in place, copy. The server renders every part; nothing here makes HTML of its own.
"use strict";
(() => {
  const DEBOUNCE_MS = 150;
  const form = document.querySelector("form.search");
  const hits = document.getElementById("hits");

  if (navigator.clipboard) { // only where the page came over HTTPS or from this machine
    for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
    document.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-copy]");
      if (button) copy(button);
    });
  }
  async function copy(button) {
    const text = document.getElementById(button.dataset.copy).textContent;
    const label = button.firstChild;
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      done = false; // the browser does not allow it; the text can still be selected
    }
    label.data = done ? "Copied" : "Select";
    button.classList.toggle("done", done);
    setTimeout(() => {
      label.data = "Copy";
      button.classList.remove("done");
    }, 1600);
  }
  if (!form || !hits) return;

  const input = form.elements.q;
  const told = document.getElementById("told");
  let timer = 0;
  let latest = 0; // the number of the newest request; an answer to an older one is dropped
  let running = null;
  let typing = false; // whether the newest entry of the history was made by the typing that goes on

  const links = () => [...hits.querySelectorAll(".hits li > a")];
  const shown = () => new URL(location.href);
  const partOf = (url) => new URL(form.dataset.hits + url.search, document.baseURI);

  async function fetchPart(url) {
    running?.abort();
    running = new AbortController();
    const number = ++latest;
    hits.classList.add("waiting");
    try {
      const answer = await fetch(partOf(url), { signal: running.signal });
      const html = await answer.text();
      if (number !== latest) return null;
      if (answer.status >= 500 || !answer.headers.get("content-type")?.startsWith("text/html")) throw new Error();
      hits.classList.remove("waiting");
      return html;
    } catch (error) {
      if (number === latest && error.name !== "AbortError") location.assign(url); // the page itself says what is wrong
      return null;
    }
  }

  // Show the list at `url`. Focus stays on the same link where that is still there; the input is never touched while
  // somebody types in it.
  async function show(url, { history: change }) {
    clearTimeout(timer);
    const html = await fetchPart(url);
    if (html === null) return;
    const key = hits.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const strip = [...hits.querySelectorAll(".facets ul")].map((list) => list.scrollLeft);
    hits.innerHTML = html;
    hits.querySelectorAll(".facets ul").forEach((list, index) => { list.scrollLeft = strip[index] ?? 0; });
    if (key !== undefined) {
      const same = [...hits.querySelectorAll("[data-key]")].find((link) => link.dataset.key === key);
      (same ?? input).focus({ preventScroll: true });
    }
    if (change === "push") history.pushState(null, "", url);
    if (change === "replace") history.replaceState(null, "", url);
    carry(url);
    told.textContent = document.getElementById("count").textContent;
  }

  // Keep what the form would send without us in step with the address.
  function carry(url) {
    for (const field of form.querySelectorAll("input[type=hidden]")) field.remove();
    for (const [name, value] of url.searchParams) {
      if (name === "q" || name === "after") continue;
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    }
  }

  function typed() {
    const url = shown();
    const text = input.value.trim();
    url.searchParams.delete("after");
    url.searchParams.delete("q");
    if (text) url.searchParams.set("q", text);
    url.hash = "";
    if (url.href === shown().href && !running) return;
    const change = typing ? "replace" : "push";
    typing = true;
    show(url, { history: url.href === shown().href ? "" : change });
  }

  function clear() {
    input.value = "";
    typed();
    input.focus();
  }

  async function append(link) {
    const html = await fetchPart(new URL(link.href));
    if (html === null) return;
    const part = document.createElement("template");
    part.innerHTML = html;
    const more = link.parentElement;
    const first = part.content.querySelector(".hits li > a");
    const added = part.content.querySelectorAll(".hits li");
    if (!first) return location.assign(link.href);
    hits.querySelector(".hits").append(...added);
    const next = part.content.querySelector("[rel=next]");
    if (next) link.href = next.getAttribute("href");
    else more.remove();
    first.focus({ preventScroll: false });
    told.textContent = `${added.length} more skills`;
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(typed, DEBOUNCE_MS);
  });
  input.addEventListener("blur", () => { typing = false; });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    typed();
  });
  hits.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-key]");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (link.rel === "next") return append(link);
    const url = new URL(link.href);
    input.value = url.searchParams.get("q") ?? "";
    typing = false;
    show(url, { history: "push" });
  });
  addEventListener("popstate", () => {
    input.value = shown().searchParams.get("q") ?? "";
    typing = false;
    show(shown(), { history: "" });
  });
  document.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
    const at = document.activeElement;
    const place = links().indexOf(at);
    if (event.key === "/" && !at.matches("input, textarea, select")) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === "Escape" && (at === input || place >= 0)) {
      event.preventDefault();
      clear();
    } else if (event.key === "ArrowDown" && (at === input || place >= 0)) {
      event.preventDefault();
      links()[Math.min(place + 1, links().length - 1)]?.focus();
    } else if (event.key === "ArrowUp" && place >= 0) {
      event.preventDefault();
      (links()[place - 1] ?? input).focus();
    }
  });
})();
