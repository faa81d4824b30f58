// What the widgets with a form share: the form above, the player below, and keys that stay inside.
function guarded(form) {
  const listener = (event) => {
    if (!form.contains(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing(event.target) || event.key.length === 1 || pressing(event)) {
      event.stopImmediatePropagation();
    }
  };
  window.addEventListener("keydown", listener, true);
  return () => window.removeEventListener("keydown", listener, true);
}

function button(text, act, title = "") {
  const made = make("button", { text, title, type: "button" });
  made.addEventListener("click", act);
  return made;
}

// An explanation: its sentences, its picture, then its tables.
function answer({ lines, tables, picture }) {
  const drawn = make("div", { className: "panels" });
  if (picture) {
    const panel = new Panel(drawn, "picture", () => {});
    panel.load(picture.panels[0], picture.shapes);
    panel.show(0, lines[0], () => false);
  }
  return make("div", { className: "answer" },
    ...lines.map((text) => make("div", { text, dir: "auto" })), drawn,
    ...tables.map(({ title, heads, rows }) => make("table", {},
      make("caption", { text: title }),
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { text })))),
      make("tbody", {}, ...rows.map((cells) => make("tr", {},
        ...cells.map((text) => make("td", { text, dir: "auto" }))))))));
}

// Draws the form anew whenever its state changes, and gives the focus back to the same field.
function formAndPlayer(model, el, draw) {
  const form = make("div", { className: "cep cep-player form" });
  const below = make("div");
  el.append(form, below);
  const redraw = () => {
    const field = form.contains(document.activeElement) ? document.activeElement.dataset.field : "";
    form.replaceChildren(...draw(model.get("_state"), (message) => model.send(message)));
    const again = field && [...form.querySelectorAll("[data-field]")]
      .find((other) => other.dataset.field === field);
    if (again) again.focus();
  };
  model.on("change:_state", redraw);
  redraw();
  const release = guarded(form);
  const unmount = mount(model, below);
  return () => { release(); unmount(); model.off("change:_state", redraw); };
}
