// What the pages of a static site do with a script: commands name the site's address, and the list is filtered by the
// site's index. Text from the index becomes text of the page, never HTML.
"use strict";
(() => {
  const PLACEHOLDER = "https://this-site.example";
  const MOST = 100;
  const root = new URL(document.body.dataset.root, location).href.replace(/\/$/, "");
  for (const code of document.querySelectorAll(".copy code")) {
    const text = code.textContent.replaceAll(PLACEHOLDER, root);
    code.textContent = text.replaceAll(PLACEHOLDER.slice(8), root.replace(/^https:\/\//, ""));
  }

  const form = document.querySelector("form[data-index]");
  const list = document.querySelector(".hits");
  if (!form || !list) return;
  const input = form.querySelector("input");
  const count = document.getElementById("count");
  const more = document.querySelector(".pages");
  const [whole, told, row] = [[...list.children], count.textContent, list.firstElementChild];
  let index = null;
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());

  function make(skill) {
    const item = row.cloneNode(true);
    const link = item.querySelector("a");
    link.href = `skills/${skill.name}.html`;
    link.textContent = skill.name;
    item.querySelector("p").textContent = skill.description;
    for (const other of item.querySelectorAll(".version, .facts")) other.remove();
    return item;
  }
  input.addEventListener("input", async () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    index ??= fetch(form.dataset.index).then((answer) => answer.json());
    const { skills } = await index;
    if (input.value.toLowerCase().split(/\s+/).filter(Boolean).join() !== words.join()) return; // typed on
    const found = skills.filter((one) => {
      const text = `${one.name} ${one.description}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    list.replaceChildren(...(words.length ? found.slice(0, MOST).map(make) : whole));
    if (more) more.hidden = words.length > 0;
    count.textContent = words.length ? `${found.length} ${found.length === 1 ? "skill" : "skills"}` : told;
  });
})();
