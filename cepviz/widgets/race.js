// Engines racing: a bar for how far each is, and bars for what it has counted.
const COUNTED = [
  ["evaluations", "condition evaluations"], ["peak_runs", "most live runs"],
  ["peak_buffered", "most buffered events"], ["matches", "matches"],
];

function render({ model, el }) {
  const root = make("div", { className: "cep cep-player race" });
  const pattern = make("pre", { className: "cepviz-pattern", dir: "ltr" });
  new Text(pattern, model.get("pattern_words"), []);
  const table = make("table", { className: "bars" });
  const button = (text, act) => {
    const made = make("button", { className: act, text, type: "button" });
    made.addEventListener("click", () => model.send({ do: act }));
    return made;
  };
  const start = button("start", "start");
  const pause = button("pause", "pause");
  const verdict = make("div", { className: "say", role: "status", "aria-live": "polite" });
  root.append(make("div", { className: "title", text: "Race" }), pattern, table, verdict,
    make("div", { className: "controls" }, start, pause, button("back to the start", "again")));
  el.append(root);

  const bar = (value, most, text, kind) => make("td", { className: `bar-cell ${kind}` },
    make("span", { className: "fill", style: `width:${most ? (100 * value) / most : 0}%` }),
    make("span", { className: "number", text }));

  function draw() {
    const rows = model.get("rows");
    const total = model.get("total");
    const say = (number) => number.toLocaleString("en");
    const body = rows.map((row) => make("tr", {},
      make("td", { text: row.name }),
      bar(row.events, total, `${say(row.events)} of ${say(total)}`, "far"),
      make("td", { text: `${row.seconds.toFixed(2)} s` }),
      ...COUNTED.map(([name]) => bar(row[name], Math.max(...rows.map((other) => other[name])),
        say(row[name]), name)),
      make("td", { text: row.state.split(":")[0], title: row.state })));
    table.replaceChildren(make("thead", {}, make("tr", {}, make("th", { text: "engine" }),
      make("th", { text: "events read" }), make("th", { text: "time" }),
      ...COUNTED.map(([, text]) => make("th", { text })), make("th", { text: "" }))),
    make("tbody", {}, ...body));
    verdict.textContent = model.get("verdict");
    verdict.dataset.kind = model.get("verdict").startsWith("All") ? "match" : "";
    start.disabled = model.get("running");
    pause.disabled = !model.get("running");
  }
  model.on("change:rows", draw);
  model.on("change:running", draw);
  model.on("change:verdict", draw);
  draw();
  return () => {
    model.off("change:rows", draw);
    model.off("change:running", draw);
    model.off("change:verdict", draw);
  };
}
export default { render };
