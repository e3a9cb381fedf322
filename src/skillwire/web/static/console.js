// What the console does with a script that a reload does without one: parts of the page that follow what happens, and
// times that grow. The server renders every part; nothing here makes HTML of its own.
"use strict";
(() => {
  const RETRY_MS = 15_000;
  const TICK_MS = 1000;
  const live = document.getElementById("live");
  const refresh = document.querySelector("[data-refresh]");
  let source = null;
  let retry = 0;
  let paused = false;
  let button = null;

  // --- times; the words are those of skillwire.web.moments -------------------------------------------------------
  let ahead = 0; // of our clock, the server's; seconds
  const read = (root) => {
    const now = (root.matches("[data-now]") ? root : root.querySelector("[data-now]"))?.dataset.now;
    if (now) ahead = Number(now) - Date.now() / 1000;
  };
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  function rough(seconds) {
    const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? UNITS[3];
    return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
  }
  function exact(seconds) {
    const parts = [];
    for (const [unit, size] of UNITS) {
      const number = Math.floor(seconds / size);
      seconds -= number * size;
      if (number || parts.length) parts.push(number ? `${number} ${unit}` : "");
    }
    return parts.slice(0, 2).filter(Boolean).join(" ") || "0 s";
  }
  const WORDS = {
    ago: (seconds) => (seconds >= 1 ? `${rough(seconds)} ago` : "now"),
    left: (seconds) => (seconds >= 0 ? "over" : `${rough(Math.max(1, -seconds))} left`),
    took: (seconds) => (seconds < 1 ? "0 s" : exact(Math.floor(seconds))),
  };
  function tick() {
    const now = Date.now() / 1000 + ahead;
    for (const time of document.querySelectorAll("time[data-tick]")) {
      const text = WORDS[time.dataset.tick](now - Date.parse(time.dateTime) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  }
  function localise(root) { // absolute times, in the reader's own time zone
    for (const time of root.querySelectorAll("time[data-local]")) {
      const options = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
      time.textContent = new Date(time.dateTime).toLocaleString("en-GB", options);
    }
  }
  read(document.body);
  localise(document);
  tick();
  setInterval(() => { if (!document.hidden) tick(); }, TICK_MS);

  const wrong = document.getElementById("wrong");
  if (wrong) wrong.focus();
  if (!live) return;

  // --- following ---------------------------------------------------------------------------------------------------
  // Focus, what is unfolded, and how far lists are scrolled stay as they are; rows that changed are shown to have.
  function show(html) {
    const at = document.activeElement;
    const key = live.contains(at) ? at.dataset.key ?? at.closest("[id]")?.id : undefined;
    const open = [...live.querySelectorAll("details[open][id]")].map((one) => one.id);
    const strips = [...live.querySelectorAll(".statuses, .json, .wrapped")].map((one) => [one.scrollLeft, one.scrollTop]);
    const marks = new Map([...live.querySelectorAll("[data-mark]")].map((row) => [row.dataset.key, row.dataset.mark]));
    live.innerHTML = html;
    read(live);
    localise(live);
    tick();
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    live.querySelectorAll(".statuses, .json, .wrapped").forEach((one, index) => {
      [one.scrollLeft, one.scrollTop] = strips[index] ?? [0, 0];
    });
    for (const row of live.querySelectorAll("[data-mark]")) {
      if (marks.get(row.dataset.key) !== row.dataset.mark) row.classList.add("fresh");
    }
    if (navigator.clipboard) for (const copy of live.querySelectorAll("button[data-copy]")) copy.hidden = false;
    if (key) {
      const same = [...live.querySelectorAll("[data-key], [id]")].find((one) => (one.dataset.key ?? one.id) === key);
      const target = same?.matches("details") ? same.querySelector("summary") : same;
      target?.focus({ preventScroll: true });
    }
    const title = live.firstElementChild?.dataset.title;
    if (title) document.title = title;
    if (document.hidden && isNotified()) {
      for (const row of live.querySelectorAll(".tasks li")) {
        if (!marks.has(row.dataset.key)) new Notification(row.querySelector("a").textContent, { tag: row.dataset.key });
      }
    }
  }

  // --- notifications of new tasks, while the page is open ----------------------------------------------------------
  const notify = document.getElementById("notify");
  const isNotified = () => notify && "Notification" in window && Notification.permission === "granted";
  if (notify && "Notification" in window && Notification.permission === "default") {
    notify.hidden = false;
    notify.addEventListener("click", async () => {
      await Notification.requestPermission();
      notify.hidden = true;
    });
  }
  const isOver = () => live.firstElementChild?.hasAttribute("data-final");

  function begin() {
    clearTimeout(retry);
    if (source || paused || (document.hidden && !isNotified()) || isOver()) return tell();
    source = new EventSource(live.dataset.live);
    source.addEventListener("part", (event) => {
      show(event.data);
      if (isOver()) end();
      tell();
    });
    source.addEventListener("ended", () => location.reload()); // signed out: the page leads to where one signs in
    source.addEventListener("open", tell);
    source.addEventListener("error", () => {
      if (source?.readyState === EventSource.CLOSED) { // refused; it does not try again by itself
        end();
        retry = setTimeout(begin, RETRY_MS);
      }
      tell();
    });
    tell();
  }
  function end() {
    source?.close();
    source = null;
    tell();
  }
  function tell() {
    if (!button) return;
    const following = source?.readyState === EventSource.OPEN;
    const text = paused ? "Paused" : following ? "Live" : "Connecting";
    if (button.firstChild.data !== text) button.firstChild.data = text;
    button.lastChild.textContent = paused ? "; follow what happens" : "; keep the list as it is";
    button.classList.toggle("on", following);
  }
  if (refresh) {
    button = Object.assign(document.createElement("button"), { type: "button" });
    button.append("Connecting", Object.assign(document.createElement("span"), { className: "unseen" }));
    button.addEventListener("click", () => {
      paused = !paused;
      if (paused) end();
      else begin();
      tell();
    });
    refresh.replaceWith(button);
  }
  document.addEventListener("visibilitychange", () => (document.hidden && !isNotified() ? end() : begin())); // browsers have six streams
  addEventListener("pagehide", end);
  addEventListener("pageshow", (event) => { if (event.persisted) begin(); });
  begin();
})();
