// Plays a trace: applies to each panel the shapes that belong to a step. All drawing was done in
// Python; here shapes are only put and removed, as elements and text, never as markup.
"use strict";

const KEYS = { m: "match", d: "drop", s: "spawn", r: "replan" };
const NAMES = { match: "match", drop: "drop", spawn: "split", replan: "replan" };

async function read(element) {
  const bytes = Uint8Array.from(atob(element.textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// The last change of a key up to a step; history is [step, shape, step, shape, ...].
function shapeAt(history, step) {
  let low = 0;
  let high = history.length / 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (history[2 * middle] <= step) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? -1 : history[2 * low - 1];
}

class Panel {
  constructor(data, shapes, root) {
    this.data = data;
    this.shapes = shapes;
    this.now = new Array(data.keys.length).fill(-1);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${data.width} ${data.height}`);
    svg.setAttribute("width", data.width);
    svg.setAttribute("height", data.height);
    svg.setAttribute("role", "img");
    this.svg = svg;
    // One place for every key, in drawing order, so that shapes can come and go in any order.
    this.places = data.keys.map(() => {
      const place = document.createElementNS("http://www.w3.org/2000/svg", "g");
      svg.appendChild(place);
      return place;
    });
    const box = document.createElement("section");
    const title = document.createElement("h2");
    title.textContent = data.title;
    const scroll = document.createElement("div");
    scroll.className = "scroll";
    scroll.appendChild(svg);
    box.append(title, scroll);
    root.appendChild(box);
  }

  show(step, say) {
    this.svg.setAttribute("aria-label", say);
    this.data.history.forEach((history, key) => {
      const shape = shapeAt(history, step);
      if (shape === this.now[key]) return;
      this.now[key] = shape;
      this.places[key].replaceChildren(...(shape < 0 ? [] : [this.element(shape)]));
    });
  }

  element(index) {
    const [tag, attributes, classes, text, title] = this.shapes[index];
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (classes) made.setAttribute("class", classes);
    if (title !== null) {
      const tip = document.createElementNS("http://www.w3.org/2000/svg", "title");
      tip.textContent = title;
      made.appendChild(tip);
    }
    if (text !== null) made.appendChild(document.createTextNode(text));
    return made;
  }
}

class Player {
  constructor(data) {
    this.data = data;
    this.step = 0;
    this.run = null;
    this.timer = null;
    const panels = document.getElementById("panels");
    this.panels = data.panels.map((panel) => new Panel(panel, data.shapes, panels));
    this.slider = document.getElementById("slider");
    this.slider.max = data.say.length - 1;
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    const on = (id, act) => document.getElementById(id).addEventListener("click", act);
    on("first", () => this.go(0));
    on("back", () => this.move(-1));
    on("on", () => this.move(1));
    on("last", () => this.go(data.say.length - 1));
    on("play", () => this.toggle());
    on("help", () => this.help());
    on("theme", () => this.theme());
    for (const [key, kind] of Object.entries(KEYS)) {
      const button = document.getElementById(`next-${kind}`);
      button.disabled = !data.kinds.includes(kind);
      button.title = `next ${NAMES[kind]} (${key}), previous (shift+${key})`;
      button.addEventListener("click", (event) => this.jump(kind, event.shiftKey ? -1 : 1));
    }
    document.addEventListener("keydown", (event) => this.key(event));
    this.go(0);
  }

  go(step) {
    this.step = Math.max(0, Math.min(this.data.say.length - 1, step));
    const say = this.data.say[this.step];
    for (const panel of this.panels) panel.show(this.step, say);
    document.getElementById("say").textContent = say;
    document.getElementById("say").dataset.kind = this.data.kinds[this.step];
    const following = this.run === null ? "" : `, following run ${this.run}`;
    document.getElementById("where").textContent =
      `step ${this.step + 1} of ${this.data.say.length}${following}`;
    this.slider.value = this.step;
  }

  // The next step, or the next one of the run that is followed.
  move(by) {
    let step = this.step + by;
    while (this.run !== null && this.data.runs[step] !== undefined
           && this.data.runs[step] !== this.run) step += by;
    if (this.data.say[step] !== undefined) this.go(step);
    else this.pause();
  }

  jump(kind, by) {
    for (let step = this.step + by; this.data.kinds[step] !== undefined; step += by) {
      if (this.data.kinds[step] === kind) return this.go(step);
    }
    document.getElementById("where").textContent =
      `no ${by > 0 ? "later" : "earlier"} ${NAMES[kind] || kind}`;
  }

  toggle() {
    if (this.timer !== null) return this.pause();
    const wait = () => 1500 / Number(document.getElementById("speed").value);
    const tick = () => {
      this.move(1);
      if (this.timer !== null) this.timer = setTimeout(tick, wait());
      if (this.step === this.data.say.length - 1) this.pause();
    };
    document.getElementById("play").textContent = "pause";
    this.timer = setTimeout(tick, wait());
  }

  pause() {
    if (this.timer === null) return;
    clearTimeout(this.timer);
    this.timer = null;
    document.getElementById("play").textContent = "play";
  }

  follow(number) {
    const seen = [];
    for (let step = this.step; step >= 0; step -= 1) {
      const run = this.data.runs[step];
      if (run !== "" && !seen.includes(run)) seen.unshift(run);
      if (seen.length >= 9) break;
    }
    this.run = this.run === seen[number - 1] ? null : seen[number - 1] ?? null;
    this.go(this.step);
  }

  help() {
    const dialog = document.getElementById("keys");
    if (dialog.open) dialog.close();
    else dialog.showModal();
  }

  theme() {
    const page = document.documentElement;
    const dark = page.dataset.theme
      ? page.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    page.dataset.theme = dark ? "light" : "dark";
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.tagName === "SELECT") return;
    const key = event.key.toLowerCase();
    const back = event.shiftKey;
    if (key === "arrowright") back ? this.jump("arrive", 1) : this.move(1);
    else if (key === "arrowleft") back ? this.jump("arrive", -1) : this.move(-1);
    else if (key === "home") this.go(0);
    else if (key === "end") this.go(this.data.say.length - 1);
    else if (key === " ") this.toggle();
    else if (key === "?") this.help();
    else if (key === "escape") { this.run = null; this.go(this.step); return; }
    else if (key >= "1" && key <= "9" && key.length === 1) this.follow(Number(key));
    else if (KEYS[key]) this.jump(KEYS[key], back ? -1 : 1);
    else return;
    event.preventDefault();
  }
}

read(document.getElementById("data")).then(
  (data) => { window.player = new Player(data); },
  (error) => { document.getElementById("say").textContent = `This page cannot be read: ${error}`; },
);
