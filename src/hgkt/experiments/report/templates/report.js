"use strict";
(() => {
  const { groups, records } = JSON.parse(document.getElementById("records").textContent);
  const panel = document.getElementById("panel");
  const title = document.getElementById("panel-title");
  const body = document.getElementById("panel-body");

  // Text enters as text only: nothing that a record says can become markup.
  const make = (name, text, parent, className) => {
    const node = document.createElement(name);
    if (text) node.textContent = text;
    if (className) node.className = className;
    if (parent) parent.append(node);
    return node;
  };

  const fill = (run, [key, , error, numbers]) => {
    if (error) make("p", error, run, "error");
    for (const number of numbers) {
      const [heading, lines] = groups[number];
      let place = run;
      if (heading === "All parameters") {
        place = make("details", "", run);
        make("summary", heading, place);
      } else {
        make("h3", heading, run);
      }
      const list = make("dl", "", place);
      for (const [name, text] of lines) {
        make("dt", name, list);
        make("dd", text, list);
      }
    }
    const file = make("p", "", run, "file");
    make("a", `cells/${key}.json`, file).href = `cells/${key}.json`;
  };

  const show = (button) => {
    const wanted = button.dataset.runs.split(" ").map((number) => records[Number(number)]);
    title.textContent = button.dataset.name;
    body.replaceChildren();
    const runs = wanted.length === 1 ? "one run" : `${wanted.length} runs`;
    const ofFigure = button.classList.contains("runs");
    make("p", ofFigure ? `Drawn from ${runs}.` : `${button.textContent.trim()}, from ${runs}.`, body);
    for (const record of wanted) {
      const run = make("details", "", body, "run");
      make("summary", record[1] + (record[2] ? " · failed" : ""), run);
      // Filled when opened: a figure can stand on hundreds of runs.
      run.addEventListener("toggle", () => {
        if (run.open && run.childElementCount === 1) fill(run, record);
      });
      if (wanted.length <= 3) {
        fill(run, record);
        run.open = true;
      }
    }
    panel.showModal();
    panel.scrollTop = 0;
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-runs]");
    if (button) show(button);
    else if (event.target === panel || event.target.id === "close") panel.close();
  });

  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  });

  const contents = document.querySelector("nav details");
  const narrow = matchMedia("(max-width: 60rem)");
  const fold = () => { contents.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  contents.querySelector("summary").addEventListener("click", (event) => {
    if (!narrow.matches) event.preventDefault();
  });
  contents.addEventListener("click", (event) => {
    if (narrow.matches && event.target.closest("a")) contents.open = false;
  });

  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
    const current = [...links.keys()].find((name) => seen.has(name));
    for (const [name, link] of links) {
      if (name === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-10% 0px -60% 0px" });
  for (const section of document.querySelectorAll("main section")) watch.observe(section);

  // A table that goes on to the right fades out there.
  const boxes = [...document.querySelectorAll(".box")];
  const fade = (box) => {
    box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  };
  for (const box of boxes) box.addEventListener("scroll", () => fade(box), { passive: true });
  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => fade(entry.target)));
  for (const box of boxes) sizes.observe(box);

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("main details:not([open])")];
    for (const node of closed) node.open = true;
  });
  addEventListener("afterprint", () => { for (const node of closed) node.open = false; });
})();
