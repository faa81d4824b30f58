// Plays a trace, in a page or in a notebook: keys, buttons and one cursor for all panels (panel.js).
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
