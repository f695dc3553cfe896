// What a page does beyond showing its text: theme, menu, list of headings, boxes that scroll, copying code, printing folds.
(function () {
  "use strict";
  const page = document.documentElement;
  const find = (selector) => document.querySelector(selector);
  const all = (selector) => Array.from(document.querySelectorAll(selector));

  // Theme: the system's until the reader chooses.
  const theme = find("#theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = (name) => { page.dataset.theme = name; theme.setAttribute("aria-pressed", String(name === "dark")); };
  const stored = () => { try { return localStorage.getItem("theme"); } catch (refused) { return null; } };
  show(page.dataset.theme);
  theme.addEventListener("click", () => {
    const name = page.dataset.theme === "dark" ? "light" : "dark";
    show(name);
    try { localStorage.setItem("theme", name); } catch (refused) { /* the choice lasts for this page */ }
  });
  dark.addEventListener("change", () => { if (!stored()) show(dark.matches ? "dark" : "light"); });

  // Menu, on narrow pages: the rest of the page is out of reach while it is open.
  const menu = find("#menu");
  const contents = find("#contents");
  const behind = [find("#main"), find(".foot")];
  const open = (wanted) => {
    contents.classList.toggle("open", wanted);
    menu.setAttribute("aria-expanded", String(wanted));
    behind.forEach((part) => { part.inert = wanted; });
    document.body.style.overflow = wanted ? "hidden" : "";
  };
  menu.addEventListener("click", () => {
    open(menu.getAttribute("aria-expanded") !== "true");
    if (contents.classList.contains("open")) contents.querySelector("a").focus();
  });
  contents.addEventListener("click", (event) => { if (event.target.closest("a")) open(false); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && contents.classList.contains("open")) { open(false); menu.focus(); }
    const typing = event.target.closest && event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); find("#find").focus(); }
  });
  matchMedia("(min-width: 56.01rem)").addEventListener("change", () => open(false));

  // Headings: folded on narrow pages, and the section that is being read marked on wide ones.
  const fold = find(".headings details");
  if (fold) {
    const wide = matchMedia("(min-width: 75.01rem)");
    const arrange = () => { fold.open = wide.matches; };
    arrange();
    wide.addEventListener("change", arrange);
    fold.querySelector("summary").addEventListener("click", (event) => { if (wide.matches) event.preventDefault(); });
    const links = new Map(Array.from(fold.querySelectorAll("a"), (link) => [decodeURIComponent(link.hash.slice(1)), link]));
    const marks = Array.from(links.keys(), (id) => document.getElementById(id)).filter(Boolean);
    const follow = () => {
      const here = marks.filter((mark) => mark.getBoundingClientRect().top < innerHeight / 4).pop();
      links.forEach((link, id) => {
        const current = Boolean(here) && here.id === id;
        link.classList.toggle("here", current);
        if (current) link.setAttribute("aria-current", "location"); else link.removeAttribute("aria-current");
      });
    };
    let waiting = false;
    addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; follow(); });
    }, { passive: true });
    follow();
  }

  // Boxes that scroll by themselves can be reached by keyboard, but only while there is something to scroll.
  const names = [[".equation > .scroll", "Equation"], [".pst-scrollable-table-container", "Table"], ["pre", "Code"]];
  const reach = (box, name) => {
    const needed = box.scrollWidth > box.clientWidth;
    box.classList.toggle("scrolls", needed);
    if (needed) { box.tabIndex = 0; box.setAttribute("role", "group"); box.setAttribute("aria-label", name + ", scrolls sideways"); }
    else if (box.getAttribute("role") === "group") { box.removeAttribute("tabindex"); box.removeAttribute("role"); box.removeAttribute("aria-label"); }
  };
  const boxes = new Map(names.flatMap(([selector, name]) => all(selector).map((box) => [box, name])));
  const sized = new ResizeObserver((entries) => entries.forEach((entry) => reach(entry.target, boxes.get(entry.target))));
  boxes.forEach((name, box) => sized.observe(box));
  if (document.fonts) document.fonts.ready.then(() => boxes.forEach((name, box) => reach(box, name)));

  // Copying code.
  if (navigator.clipboard) all("article .highlight").filter((block) => !block.closest(".output")).forEach((block) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      navigator.clipboard.writeText(block.querySelector("pre").textContent.replace(/\n$/, "")).then(
        () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500); },
        () => { button.textContent = "Not allowed"; });
    });
    block.append(button);
  });

  // Paper shows what is folded on the screen.
  let folded = [];
  addEventListener("beforeprint", () => { folded = all("article details:not([open])"); folded.forEach((part) => { part.open = true; }); });
  addEventListener("afterprint", () => { folded.forEach((part) => { part.open = false; }); folded = []; });

  // Search: a word such as "constructor" is looked up among the words of the pages, not among what every object has.
  if (typeof Search !== "undefined" && Search.hasIndex()) {
    for (const table of ["terms", "titleterms"]) {
      const words = Object.assign(Object.create(null), Search._index[table]);
      Object.defineProperty(words, "hasOwnProperty", { value: (word) => Object.hasOwn(words, word) });
      Search._index[table] = words;
    }
    const none = "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.";
    Documentation.TRANSLATIONS[none] = "No page has all of these words.";
  }

  // The word that was searched for stays in the field.
  const asked = new URLSearchParams(location.search).get("q");
  if (asked) all('input[name="q"]').forEach((field) => { field.value = asked; });
})();
