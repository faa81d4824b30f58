// Events to change by hand, and which matches came and went by it.
function editorForm(state, send) {
  const pattern = make("pre", { className: "cepviz-pattern", dir: "ltr" });
  new Text(pattern, state.pattern, []);
  const rows = state.rows.map(({ label, cells, changed }) => make("tr", {
    className: changed ? "differs" : "",
  }, make("td", { text: label }), ...cells.map(({ column, value, fixed }) => {
    if (fixed) return make("td", { text: value });
    const field = make("input", {
      type: "text", value, size: Math.max(4, Math.min(24, value.length)), "data-field": `${label} ${column}`,
      "aria-label": `${column} of ${label}`,
    });
    field.addEventListener("change", () => send({ do: "edit", label, column, value: field.value }));
    return make("td", {}, field);
  }), make("td", {},
    button("▲", () => send({ do: "move", label, by: -1 }), "earlier: changes places with the one before"),
    button("▼", () => send({ do: "move", label, by: 1 }), "later: changes places with the next"),
    button("+", () => send({ do: "copy", label }), "adds a copy of it, just after it"),
    button("✕", () => send({ do: "drop", label }), "drops it"))));
  const table = make("div", { className: "scroll" }, make("table", { className: "events" },
    make("caption", { text: state.summary }),
    make("thead", {}, make("tr", {}, ...state.heads.map((text) => make("th", { text })),
      make("th", { text: "" }))),
    make("tbody", {}, ...rows)));
  const changes = state.changes.map(({ sign, text, why }) => make("details", {
    className: sign === "+" ? "came" : "gone",
  }, make("summary", { text: `${sign === "+" ? "+ new" : "− gone"}: ${text}` }), answer(why)));
  return [
    make("div", { className: "title", text: "Change the stream" }), pattern, table,
    ...(state.said ? [make("p", { className: "note", text: state.said })] : []),
    make("div", { className: "say", text: state.verdict, role: "status" }),
    ...changes,
    make("div", { className: "controls" },
      button("undo", () => send({ do: "undo" })), button("start over", () => send({ do: "reset" }))),
  ];
}

export default { render: ({ model, el }) => formAndPlayer(model, el, editorForm) };
