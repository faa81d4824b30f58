// Plays a trace, in a page or in a notebook: puts into each panel the shapes that belong to a
// step. All drawing was done in Python; here shapes are only put and removed, as elements and
// text, never as markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const JUMPS = { m: "match", d: "drop", s: "spawn", r: "replan" };
const NAMES = { match: "match", drop: "drop", spawn: "split", replan: "replan", arrive: "event" };
const SIGNS = { match: "match ◆", drop: "drop ✕", spawn: "split", replan: "replan" };
const HELP = [
  ["→ ←", "one step on, one back"],
  ["shift → ←", "one event on, one back"],
  ["space", "play, pause"],
  ["m d s r", "next match, drop, split, replan; with shift the previous"],
  ["home end", "first, last step"],
  ["1 … 9", "follow one of the runs seen last; again or esc to stop"],
  ["q", "quiz: guess each step before you see it"],
  ["click", "an event or a run selects it in all pictures; a match, or a mark of a run, goes there"],
  ["?", "this help"],
];
const PART = 16; // places that are drawn together: so many that a slide need not wait for long
const IDLE = 150; // milliseconds without a move, after which more is fetched than what is shown

async function unpacked(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function make(tag, properties = {}, ...children) {
  const { className, title, text, ...rest } = properties;
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (title) made.title = title;
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(rest)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Whether keys belong to the field that has the focus.
function typing(field) {
  return ["SELECT", "TEXTAREA"].includes(field.tagName)
    || (field.tagName === "INPUT" && !["range", "checkbox"].includes(field.type));
}

// Whether a key presses the button that has the focus.
function pressing(event) {
  return event.key === "Enter" && !event.shiftKey
    && ["BUTTON", "SUMMARY"].includes(event.target.tagName);
}

// The last change of a key up to a place; history is [place, shape, place, shape, ...].
function shapeAt(history, place) {
  let low = 0;
  let high = history.length / 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (history[2 * middle] <= place) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? -1 : history[2 * low - 1];
}

// One picture: a place for every key, in drawing order, so that shapes can come and go.
class Panel {
  constructor(root, title, chose) {
    this.data = null;
    this.width = 0;
    this.height = 0;
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("role", "img");
    this.svg.addEventListener("click", (event) => {
      const place = event.target.closest("[data-about]");
      if (place) chose(JSON.parse(place.dataset.about));
    });
    const scroll = make("div", { className: "scroll" }, this.svg);
    root.append(make("details", { open: "" }, make("summary", { text: title }), scroll));
  }

  load(data, shapes) {
    if (this.data === data) return;
    this.data = data;
    this.shapes = shapes;
    this.now = new Array(data.keys.length).fill(-1);
    this.places = data.keys.map((key, number) => {
      const place = document.createElementNS(SVG, "g");
      if (data.about[number].length) place.dataset.about = JSON.stringify(data.about[number]);
      return place;
    });
    this.svg.replaceChildren(...this.places);
    // A picture never gets smaller while it plays: nothing below it jumps.
    this.width = Math.max(this.width, data.width);
    this.height = Math.max(this.height, data.height);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("height", this.height);
  }

  show(place, say, chosen) {
    this.svg.setAttribute("aria-label", say);
    this.data.history.forEach((history, key) => {
      const shape = shapeAt(history, place);
      const about = this.data.about[key];
      this.places[key].classList.toggle("chosen", chosen(about));
      if (shape === this.now[key]) return;
      this.now[key] = shape;
      this.places[key].replaceChildren(...(shape < 0 ? [] : [this.element(shape)]));
    });
  }

  element(index) {
    const [tag, attributes, classes, text, title] = this.shapes[index];
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (classes) made.setAttribute("class", classes);
    if (title !== null) {
      const tip = document.createElementNS(SVG, "title");
      tip.textContent = title;
      made.appendChild(tip);
    }
    if (text !== null) made.appendChild(document.createTextNode(text));
    return made;
  }
}

// The text of a pattern, cut where a clause begins or ends, so that clauses can be lit.
class Text {
  constructor(root, words, lits) {
    const cuts = new Set(lits.flat(2));
    this.pieces = [];
    let at = 0;
    for (const [kind, word] of words) {
      const inside = [...cuts].filter((cut) => cut > at && cut < at + word.length);
      const edges = [at, ...inside.sort((a, b) => a - b), at + word.length];
      edges.slice(1).forEach((end, number) => {
        const start = edges[number];
        const text = word.slice(start - at, end - at);
        const piece = make("span", { className: `cepviz-${kind}`, text });
        this.pieces.push([start, end, piece]);
        root.append(piece);
      });
      at += word.length;
    }
  }

  light(spans, say) {
    for (const [start, end, piece] of this.pieces) {
      const span = spans.find(([from, to]) => from <= start && end <= to);
      piece.classList.toggle("lit", span !== undefined);
      piece.classList.toggle("opens", span !== undefined && span[0] === start);
      piece.classList.toggle("closes", span !== undefined && span[1] === end);
      piece.title = span ? say : "";
    }
  }
}

// What was fetched: pictures of runs of places, kept up to a number of them.
class Parts {
  constructor(ask) {
    this.ask = ask;
    this.kept = new Map();
    this.asked = null;
    this.last = 0;
    this.steady = true;
    this.timer = null;
  }

  put(part) {
    this.kept.set(`${part.run}/${part.start}/${part.stop}`, part);
    if (this.kept.size > 2000) this.kept.delete(this.kept.keys().next().value);
    if (this.asked && this.asked.start === part.start && this.asked.run === part.run) {
      this.asked = null;
    }
  }

  find(place, run, whole) {
    for (const part of this.kept.values()) {
      if (part.run === run && part.start <= place && place < part.stop
          && (!whole || part.stop - part.start > 1 || part.whole)) return part;
    }
    return null;
  }

  // First the one picture that is wanted; then those around it and those that come next, at once
  // where somebody goes step by step, and after a while where the slider may be on its way.
  want(place, run, count) {
    if (!this.ask) return;
    if (place !== this.last) this.steady = Math.abs(place - this.last) === 1;
    this.last = place;
    clearTimeout(this.timer);
    if (this.asked) return;
    if (!this.find(place, run, false)) this.fetch({ run, start: place, stop: place + 1 });
    else if (this.steady) this.fill(place, run, count);
    else this.timer = setTimeout(() => this.fill(place, run, count), IDLE);
  }

  fill(place, run, count) {
    if (this.asked) return;
    for (const near of [place, place + PART]) {
      const start = Math.floor(near / PART) * PART;
      if (start < count && !this.find(Math.min(near, count - 1), run, true)) {
        this.fetch({ run, start, stop: Math.min(start + PART, count) });
        return;
      }
    }
  }

  fetch(wanted) {
    this.asked = wanted;
    this.ask(wanted);
  }
}

class Player {
  // `host` says how to ask for parts, what to tell of changes, and whether it is a whole page.
  constructor(root, head, host = {}) {
    this.root = root;
    this.data = head;
    this.host = host;
    this.count = head.say.length;
    this.step = 0;
    this.run = null;
    this.chosen = null;
    this.timer = null;
    this.question = null;
    this.quiz = false;
    this.score = [0, 0];
    this.parts = new Parts(host.ask);
    this.build();
    this.listener = (event) => this.key(event);
    // Before the notebook's own shortcuts, which listen at the document.
    window.addEventListener("keydown", this.listener, true);
    this.go(0);
  }

  remove() {
    this.pause();
    clearTimeout(this.parts.timer);
    window.removeEventListener("keydown", this.listener, true);
  }

  // ---- the parts of the page ----

  build() {
    const { data } = this;
    this.root.classList.add("cep", "cep-player");
    this.root.tabIndex = 0;
    this.root.append(make("div", { className: "title", text: data.title }));
    if (data.note) this.root.append(make("p", { className: "note", text: data.note }));
    const films = make("div", { className: data.films.length > 1 ? "films many" : "films" });
    this.films = data.films.map((film) => {
      const text = make("pre", { className: "cepviz-pattern", dir: "ltr" });
      const panels = make("div", { className: "panels" });
      const box = make("div", { className: "film" });
      if (film.title) box.append(make("h4", { text: film.title }));
      const note = make("div", { className: "film-say" });
      box.append(text, ...(data.films.length > 1 ? [note] : []), panels);
      films.append(box);
      return { text: new Text(text, film.pattern, data.lits), panels: [], box: panels, note, film };
    });
    this.root.append(films);
    this.tables = make("div", { className: "tables" });
    this.root.append(this.tables);
    data.tables.forEach((table) => this.tables.append(this.table(table)));
    this.root.append(this.bar());
    this.keys = make("dialog", {}, make("table", {}, ...HELP.map(([key, what]) => make("tr", {},
      make("td", {}, make("kbd", { text: key })), make("td", { text: what })))),
    make("form", { method: "dialog" }, make("button", { text: "close" })));
    this.root.append(this.keys);
  }

  bar() {
    const { data } = this;
    this.say = make("div", { className: "say", role: "status", "aria-live": "polite" });
    this.values = make("div", { className: "values" });
    this.asking = make("div", { className: "asking" });
    this.slider = make("input", {
      className: "slider", type: "range", min: 0, max: this.count - 1, value: 0,
      "aria-label": data.unit,
    });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.where = make("span", { className: "where" });
    this.speed = make("select", { className: "speed", "aria-label": "speed" });
    [[1, "slow"], [3, "medium"], [10, "fast"], [40, "very fast"]].forEach(([value, text]) => {
      this.speed.append(make("option", { value, text, ...(value === 3 ? { selected: "" } : {}) }));
    });
    const button = (className, text, title, act) => {
      const made = make("button", { className, text, title, type: "button" });
      made.addEventListener("click", act);
      return made;
    };
    this.playing = button("play", "play", "space", () => this.toggle());
    const jumps = Object.entries(JUMPS).map(([key, kind]) => {
      const made = button(`next-${kind}`, SIGNS[kind],
        `next ${NAMES[kind]} (${key}), previous (shift+${key})`,
        (event) => this.jump(kind, event.shiftKey ? -1 : 1));
      made.disabled = !data.kinds.some((kinds) => kinds.includes(kind));
      return made;
    });
    this.quizzing = button("quiz", "quiz", "guess each step before you see it (q)",
      () => this.ask(!this.quiz));
    this.quizzing.hidden = !Object.keys(data.questions).length;
    const controls = make("div", { className: "controls" },
      button("first", "|◀", `first ${data.unit} (home)`, () => this.go(0)),
      button("back", "◀", `one ${data.unit} back (left)`, () => this.move(-1)),
      button("on", "▶", `one ${data.unit} on (right)`, () => this.move(1)),
      button("last", "▶|", `last ${data.unit} (end)`, () => this.go(this.count - 1)),
      this.playing, make("label", { text: "speed " }, this.speed), this.slider, this.where,
      make("span", { text: "next:" }), ...jumps, this.quizzing,
      ...(this.host.page ? [button("theme", "◐", "light or dark", () => this.theme())] : []),
      button("help", "? keys", "keys", () => this.help()));
    return make("div", { className: "bar" }, this.say, this.values, this.asking, controls);
  }

  // Rows that say at which place each becomes true; a click goes to the first of them.
  table({ title, heads, rows }) {
    const body = rows.map(({ cells, at, differs }) => {
      const row = make("tr", { className: differs ? "differs" : "" }, ...cells.map((cell, number) => make("td", {
        text: cell, "data-at": at[number] ?? "" })));
      const first = at.filter((place) => place !== null);
      if (first.length) row.addEventListener("click", () => this.go(Math.min(...first)));
      return row;
    });
    return make("table", {}, make("caption", { text: title }),
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { text })))),
      make("tbody", {}, ...body));
  }

  // ---- moving ----

  go(step) {
    this.step = Math.max(0, Math.min(this.count - 1, step));
    this.question = null;
    this.draw();
    if (this.host.told) this.host.told({ step: this.step });
  }

  draw() {
    const { data, step } = this;
    const say = data.say[step];
    const run = this.run ?? "";
    const part = this.parts.find(step, this.host.runs ? run : "", false);
    if (part) this.picture(part, say);
    this.root.classList.toggle("waiting", !part);
    this.parts.want(step, this.host.runs ? run : "", this.count);
    this.say.textContent = say;
    this.say.dataset.kind = data.kinds[step][0];
    this.films.forEach(({ text, film, note }) => {
      text.light(data.lits[data.lit[step]], say);
      if (film.say) note.textContent = film.say[step];
    });
    this.tables.querySelectorAll("[data-at]").forEach((cell) => {
      if (cell.dataset.at !== "") cell.classList.toggle("later", Number(cell.dataset.at) > step);
    });
    const following = this.run === null ? "" : `, following run ${this.run}`;
    this.where.textContent = `${data.unit} ${step + 1} of ${this.count}${following}`;
    this.slider.value = step;
    this.tell();
    this.pose();
  }

  picture(part, say) {
    const chosen = this.isChosen();
    part.films.forEach(({ panels, shapes }, number) => {
      const film = this.films[number];
      panels.forEach((data, place) => {
        if (!film.panels[place]) {
          film.panels.push(new Panel(film.box, data.title, (about) => this.choose(about)));
        }
        film.panels[place].load(data, shapes);
        film.panels[place].show(this.step, say, chosen);
      });
    });
  }

  // Pictures that were asked for have come.
  receive(part) {
    this.parts.put(part);
    this.draw();
  }

  // The next step, or the next one of the run that is followed.
  move(by) {
    if (this.quiz && by > 0 && !this.question && this.data.questions[this.step + 1]) {
      this.question = this.data.questions[this.step + 1];
      this.pause();
      this.pose();
      return;
    }
    let step = this.step + by;
    while (this.run !== null && this.data.runs[step] !== undefined
           && this.data.runs[step] !== this.run) step += by;
    if (this.data.say[step] !== undefined) this.go(step);
    else this.pause();
  }

  jump(kind, by) {
    for (let step = this.step + by; this.data.kinds[step] !== undefined; step += by) {
      if (this.data.kinds[step].includes(kind)) { this.go(step); return; }
    }
    this.where.textContent = `no ${by > 0 ? "later" : "earlier"} ${NAMES[kind] || kind}`;
  }

  toggle() {
    if (this.timer !== null) { this.pause(); return; }
    const wait = () => 1500 / Number(this.speed.value);
    const tick = () => {
      if (!this.root.classList.contains("waiting")) this.move(1);
      if (this.timer !== null) this.timer = setTimeout(tick, wait());
      if (this.step === this.count - 1) this.pause();
    };
    this.playing.textContent = "pause";
    this.timer = setTimeout(tick, wait());
  }

  pause() {
    if (this.timer === null) return;
    clearTimeout(this.timer);
    this.timer = null;
    this.playing.textContent = "play";
  }

  // ---- choosing ----

  follow(number) {
    const seen = [];
    for (let step = this.step; step >= 0; step -= 1) {
      const run = this.data.runs[step];
      if (run !== "" && !seen.includes(run)) seen.unshift(run);
      if (seen.length >= 9) break;
    }
    this.watch(seen[number - 1] ?? null);
  }

  watch(run) {
    this.run = this.run === run || run === "" ? null : run;
    this.chosen = this.run === null ? null : ["run", this.run];
    this.draw();
    if (this.host.told) this.host.told({ run: this.run ?? "" });
  }

  choose(about) {
    const [kind, name] = about;
    if (kind === "step") { this.go(Number(name)); return; }
    // Side by side, each film has runs of its own: none can be followed in all.
    if (kind === "run") { if (this.films.length === 1) this.watch(name); return; }
    if (kind === "match") {
      const here = this.data.matches.filter(([, event]) => event === name);
      const next = here.find(([place]) => place > this.step) || here[0];
      if (next) { this.chosen = ["match", next]; this.go(next[0]); }
    } else {
      const same = this.chosen && this.chosen[0] === kind && this.chosen[1] === name;
      this.chosen = same ? null : about;
    }
    this.draw();
    const event = this.chosen && this.chosen[0] === "event" ? name : "";
    if (this.host.told) this.host.told({ event });
  }

  isChosen() {
    if (this.chosen === null) return () => false;
    const [kind, name] = this.chosen;
    if (kind === "match") return (about) => about[0] === "event" && name[2].includes(about[1]);
    return (about) => about[0] === kind && about[1] === name;
  }

  tell() {
    const event = this.chosen && this.chosen[0] === "event" ? this.chosen[1] : "";
    const known = this.data.events[event];
    this.values.textContent = known ? `Selected: ${known[1]}` : "";
  }

  // ---- the quiz ----

  ask(on) {
    this.quiz = on;
    this.question = null;
    this.verdict = on ? "Press → and guess." : "";
    this.quizzing.setAttribute("aria-pressed", String(on));
    this.pose();
    if (this.host.told) this.host.told({ quiz: on });
  }

  pose() {
    const score = this.score[1] ? ` ${this.score[0]} of ${this.score[1]} right.` : "";
    const parts = [];
    if (this.question) {
      const [text, answers] = this.question;
      parts.push(make("span", { className: "question", text }));
      answers.forEach((answer, number) => {
        const made = make("button", { text: `${number + 1}  ${answer}`, type: "button" });
        made.addEventListener("click", () => this.answer(number));
        parts.push(made);
      });
    } else if (this.quiz) {
      parts.push(make("span", { className: "verdict", text: `${this.verdict}${score}` }));
    }
    this.asking.replaceChildren(...parts);
  }

  answer(number) {
    const [, answers, right] = this.question;
    if (answers[number] === undefined) return;
    this.score = [this.score[0] + (number === right ? 1 : 0), this.score[1] + 1];
    this.verdict = number === right ? "✓ Right." : `✕ No: ${answers[right]}`;
    this.go(this.step + 1);
    if (this.host.told) this.host.told({ score: this.score });
  }

  // ---- keys ----

  help() {
    if (this.keys.open) this.keys.close();
    else this.keys.showModal();
  }

  theme() {
    const page = document.documentElement;
    const dark = page.dataset.theme
      ? page.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    page.dataset.theme = dark ? "light" : "dark";
  }

  // Only the player that has the focus takes keys. A letter that means nothing here is nobody
  // else's either: in a notebook it might cut the cell. What has ctrl, alt or enter passes.
  key(event) {
    const inside = this.root.contains(event.target)
      || (this.host.page && event.target === document.body);
    if (!inside || event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing(event.target) || this.keys.open) event.stopImmediatePropagation();
    else if (this.act(event.key.toLowerCase(), event.shiftKey ? -1 : 1)) {
      event.preventDefault();
      event.stopImmediatePropagation();
    } else if (event.key.length === 1 || pressing(event)) event.stopImmediatePropagation();
  }

  act(key, by) {
    if (this.question && key >= "1" && key <= "9" && key.length === 1) this.answer(Number(key) - 1);
    else if (key === "arrowright") by < 0 ? this.jump("arrive", 1) : this.move(1);
    else if (key === "arrowleft") by < 0 ? this.jump("arrive", -1) : this.move(-1);
    else if (key === "home") this.go(0);
    else if (key === "end") this.go(this.count - 1);
    else if (key === " ") this.toggle();
    else if (key === "?") this.help();
    else if (key === "q") { if (this.quizzing.hidden) return false; this.ask(!this.quiz); }
    else if (key === "escape" && (this.run !== null || this.chosen || this.question)) {
      this.chosen = null;
      this.question = null;
      this.watch(null);
    } else if (key >= "1" && key <= "9" && key.length === 1) this.follow(Number(key));
    else if (JUMPS[key]) this.jump(JUMPS[key], by);
    else return false;
    return true;
  }
}
