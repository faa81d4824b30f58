// The adaptivity lab: sliders on the left, plans in the middle, invariants on the right, below
// them what each policy costs.
function render({ model, el }) {
  const root = make("div", { className: "cep cep-player lab" });
  const pattern = make("pre", { className: "cepviz-pattern", dir: "ltr" });
  const sliders = make("div", { className: "sliders" });
  const told = make("div", { className: "say", role: "status", "aria-live": "polite" });
  const plans = make("div", { className: "panels plans" });
  const sides = make("div", { className: "panels" });
  const lines = make("div", { className: "panels" });
  const preview = make("div", { className: "preview" });
  const table = make("table", {});
  const busy = make("div", { className: "values" });
  const press = (text, act, title) => {
    const made = make("button", { className: act, text, title, type: "button" });
    made.addEventListener("click", () => model.send({ do: act }));
    return made;
  };
  root.append(make("div", { className: "title", text: "Adaptivity lab" }), pattern,
    make("div", { className: "three" }, make("div", { className: "left" }, sliders,
      make("div", { className: "controls" },
        press("play a drift", "script", "turns the rates by itself"),
        press("stop", "stop", "after this part of the stream"),
        press("start over", "again", "nothing read yet")), busy),
    make("div", { className: "right" }, told, plans, preview, sides)),
  lines, make("div", { className: "tables" }, table));
  el.append(root);
  new Text(pattern, model.get("_state").pattern, []);

  // Each slider with a tick at the estimate and a notch where an invariant breaks.
  const rows = new Map();
  let asked = null; // one question at a time: the next goes when the answer is here, or late
  let moved = false;
  const values = () => Object.fromEntries([...rows].map(([name, row]) => [name, Number(row.input.value)]));
  const drag = () => {
    if (asked !== null) { moved = true; return; }
    model.send({ do: "drag", values: values() });
    asked = setTimeout(answered, 300);
  };
  function answered() {
    clearTimeout(asked);
    asked = null;
    if (moved) { moved = false; drag(); }
  }
  for (const { name, top } of model.get("_state").sliders) {
    const input = make("input", { type: "range", min: 0, max: top, step: top / 300, "aria-label": name });
    const number = make("span", { className: "number" });
    const marks = make("div", { className: "marks" });
    input.addEventListener("input", () => {
      number.textContent = say(Number(input.value));
      drag();
    });
    input.addEventListener("change", () => {
      moved = false;
      model.send({ do: "release", values: values() });
    });
    sliders.append(make("div", { className: "slide" }, make("label", {},
      make("span", { text: name }), number, input), marks));
    rows.set(name, { input, number, marks, top });
  }
  function say(value) { return String(Number(value.toPrecision(3))); }

  const panels = new Map();
  function picture(box, { panels: listed, shapes }) {
    const kept = panels.get(box) || [];
    while (kept.length > listed.length) { kept.pop(); box.lastChild.remove(); }
    listed.forEach((data, number) => {
      if (!kept[number]) kept.push(new Panel(box, data.title, () => {}));
      kept[number].load(data, shapes);
      kept[number].show(0, "", () => false);
    });
    panels.set(box, kept);
  }

  let replanned = model.get("_state").replanned;
  function draw() {
    const state = model.get("_state");
    told.replaceChildren(...state.told.map((text) => make("div", { text })));
    picture(plans, state.plans);
    picture(lines, state.costs);
    table.replaceChildren(make("caption", { text: state.verdict }),
      make("thead", {}, make("tr", {}, ...state.heads.map((text) => make("th", { text })))),
      make("tbody", {}, ...state.rows.map((cells) => make("tr", {},
        ...cells.map((text) => make("td", { text }))))));
    if (state.replanned > replanned) {
      told.classList.add("flash");
      setTimeout(() => told.classList.remove("flash"), 1600);
    }
    replanned = state.replanned;
    mark();
  }

  function place(kind, value, top, title) {
    return make("span", { className: kind, title, style: `left:${(100 * Math.min(value, top)) / top}%` });
  }
  function mark() {
    const live = model.get("_live");
    for (const { name, estimate } of model.get("_state").sliders) {
      const { marks, top } = rows.get(name);
      const known = estimate === null ? []
        : [place("estimate", estimate, top, `estimated ${say(estimate)}`)];
      const notches = (live.notches[name] || []).map((value) =>
        place("notch", value, top, `an invariant breaks at ${say(value)}`));
      marks.replaceChildren(...known, ...notches);
    }
  }
  function look() {
    const live = model.get("_live");
    picture(sides, live.invariants);
    preview.textContent = live.said;
    preview.classList.toggle("broken", live.broken);
    answered();
    mark();
  }
  function turn() {
    for (const [name, value] of Object.entries(model.get("values"))) {
      const row = rows.get(name);
      if (!row || row.input.matches(":active")) continue;
      row.input.value = value;
      row.number.textContent = say(value);
    }
  }
  const working = () => { busy.textContent = model.get("busy"); };
  const heard = { "change:_state": draw, "change:_live": look, "change:values": turn, "change:busy": working };
  for (const [name, act] of Object.entries(heard)) model.on(name, act);
  turn();
  draw();
  look();
  working();
  return () => { for (const [name, act] of Object.entries(heard)) model.off(name, act); };
}
export default { render };
