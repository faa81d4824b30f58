// Matches to click, events to pick, and the answer with its fixes.
function explainForm(state, send) {
  const pattern = make("pre", { className: "cepviz-pattern", dir: "ltr" });
  new Text(pattern, state.pattern, []);
  const rows = state.matches.map(({ cells, isNew }, number) => {
    const row = make("tr", {
      className: `${number === state.chosen ? "picked" : ""} ${isNew ? "differs" : ""}`,
      tabindex: 0, "data-field": `match ${number}`,
    }, ...cells.map((text) => make("td", { text })));
    row.addEventListener("click", () => send({ do: "match", number }));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") send({ do: "match", number });
    });
    return row;
  });
  const table = make("div", { className: "tables scroll" }, make("table", {},
    make("caption", { text: state.summary }),
    make("thead", {}, make("tr", {}, ...state.heads.map((text) => make("th", { text })))),
    make("tbody", {}, ...rows)));
  const fields = state.variables.map(({ name, kleene, labels, value }) => {
    const field = make("input", {
      type: "text", size: kleene ? 16 : 7, value, placeholder: "any", "data-field": name,
      list: `${state.id}-${name}`, title: kleene ? "all its events, with blanks between" : "an event",
    });
    const known = make("datalist", { id: `${state.id}-${name}` },
      ...labels.map(([label, text]) => make("option", { value: label, label: text })));
    return { name, field, label: make("label", { text: `${name}${kleene ? "[]" : ""} ` }, field, known) };
  });
  const ask = button("why not?", () => send({
    do: "why_not", picks: Object.fromEntries(fields.map(({ name, field }) => [name, field.value])),
  }), "why these events are not a match; without any, where the candidates get lost");
  const fixes = state.fixes.map((text, number) =>
    button(`apply: ${text}`, () => send({ do: "fix", number }), "change the pattern, and match again"));
  const back = state.changed ? [button("back to the first pattern", () => send({ do: "back" }))] : [];
  return [
    make("div", { className: "title", text: "Explain" }), pattern, table,
    make("div", { className: "controls" }, make("span", { text: "pick events:" }),
      ...fields.map(({ label }) => label), ask),
    ...(state.said ? [make("p", { className: "note", text: state.said })] : []),
    answer(state.answer), make("div", { className: "controls" }, ...fixes, ...back),
  ];
}

export default { render: ({ model, el }) => formAndPlayer(model, el, explainForm) };
