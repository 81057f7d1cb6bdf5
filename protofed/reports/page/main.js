// The page as a whole, drawn once or live.

let page = {};

const idOf = (title) => title.split(" ")[0].toLowerCase();

function header(state) {
  const links = page.sections.map(({ title }) => el("a", { href: `#${idOf(title)}` }, title));
  const { done, planned } = page.live || {};
  const pill = el("span", { class: state === "live" ? "pill on" : "pill" }, state);
  const bar = el("progress", { max: planned, value: done });
  const parts = [
    el("div", { class: "top" }, el("h1", {}, page.title), themeButton()),
    el("p", { class: "soft" }, page.subtitle),
    ...(page.about || []).map((line) => el("p", { class: "soft" }, line)),
    state ? el("p", {}, pill, " ", bar, ` round ${done} of ${planned}`) : "",
    ...page.notes.map((note) => el("p", { class: "note" }, note)),
    el("nav", {}, ...links),
  ];
  document.getElementById("top").replaceChildren(...parts);
  document.getElementById("end").replaceChildren(el("p", { class: "soft" }, page.footer));
}

// Light or dark: as the system has it, until the reader chooses; the choice is kept where that is allowed.
const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
try {
  root.dataset.theme = localStorage.getItem("protofed-theme") || "";
} catch {
  root.dataset.theme = ""; // no storage for this page
}
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

function themeButton() {
  const words = () => (isDark() ? "☀ light" : "☾ dark");
  const click = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    button.textContent = words();
    try {
      localStorage.setItem("protofed-theme", root.dataset.theme);
    } catch {
      // it lasts as long as the page
    }
  };
  const button = el("button", { type: "button", class: "theme", title: "light or dark", on: { click } }, words());
  return button;
}
systemDark.addEventListener("change", () => redrawAll());

// What all charts obey.
function choices({ title, options, spread, spread_title: about, singles }) {
  const pick = ({ value, label, title: line }) =>
    chip(choice.option === value, line, () => (choice.option = value), label);
  const band = chip(choice.spread, about, () => (choice.spread = !choice.spread), spread);
  const each = chip(choice.singles, "a thin line for each", () => (choice.singles = !choice.singles), singles);
  const more = [spread ? band : null, singles ? each : null];
  const chipsOf = el("div", { class: "chips" }, el("b", {}, title), ...options.map(pick), ...more.filter(Boolean));
  return el("div", { class: "bar" }, chipsOf);
}

function drawPage(data, state = "") {
  const y = scrollY;
  page = data;
  hideTip();
  watcher.disconnect();
  drawings.clear();
  if (!page.bar.options.some(({ value }) => value === choice.option)) choice.option = "";
  const [first, ...rest] = page.sections.map(({ title, cards }) => [
    el("h2", { id: idOf(title) }, title),
    el("div", { class: "cards" }, ...cards.map(card)),
  ]);
  document.getElementById("page").replaceChildren(...first, choices(page.bar), ...rest.flat());
  header(state);
  for (const node of drawings) {
    node.redraw();
    watcher.observe(node);
  }
  scrollTo(0, y);
  redrawAll = () => drawPage(data, state);
  document.documentElement.dataset.ready = "true";
}

const stateOf = (data) => (data.live.on ? "live" : "finished");

async function follow(text) {
  let last = text;
  for (;;) {
    await new Promise((wake) => {
      setTimeout(wake, 1000);
    });
    let next;
    try {
      const answer = await fetch("data.json", { cache: "no-store" });
      if (!answer.ok) continue; // a file that is being replaced: ask again
      next = await answer.text();
    } catch {
      drawPage(JSON.parse(last), "server ended");
      return;
    }
    const data = JSON.parse(next);
    if (next !== last) drawPage(data, stateOf(data));
    last = next;
    if (!data.live.on) return;
  }
}

const embeddedText = document.getElementById("data").textContent;
const embedded = JSON.parse(embeddedText);
drawPage(embedded, embedded.live ? stateOf(embedded) : "");
if (embedded.live && embedded.live.on) follow(embeddedText);
