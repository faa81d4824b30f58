// Pictures and texts that change: a panel puts the shapes that belong to a place. All drawing was
// done in Python; here shapes are only put and removed, as elements and text, never as markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
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
