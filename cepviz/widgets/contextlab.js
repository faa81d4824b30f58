// The context lab: intervals with ends to drag, all four contexts, the cache. What they mean is
// the kernel's business; here a handle only tells where it was put.
function render({ model, el }) {
  const root = make("div", { className: "cep cep-player contextlab" });
  const pattern = make("pre", { className: "cepviz-pattern", dir: "ltr" });
  const menus = make("div", { className: "controls" });
  const picture = make("div", { className: "panels" });
  const cache = make("div", { className: "panels" });
  const said = make("div", { className: "say", role: "status", "aria-live": "polite" });
  root.append(make("div", { className: "title", text: "Context lab" }), pattern, menus, said, picture, cache);
  el.append(root);

  const panels = new Map();
  function show(box, { panels: [data], shapes }) {
    // A cache of another query has another size: it gets a panel of its own.
    if (!panels.has(box)) panels.set(box, new Panel(box, data.title, () => {}));
    const panel = panels.get(box);
    panel.load(data, shapes);
    panel.show(0, "", () => false);
    panel.svg.closest("details").querySelector("summary").textContent = data.title;
    return panel;
  }

  const handles = new Map();
  // The handles lie over the picture, which is drawn anew while one of them is held or has the focus.
  const layer = document.createElementNS(SVG, "svg");
  layer.setAttribute("style", "position:absolute;left:0;top:0;pointer-events:none");
  let dragged = null; // the handle that is held
  const send = (handle, to) => {
    const { low, high } = model.get("_state");
    const put = Math.min(Math.max(to, low), high);
    if (put !== handle.asked) {
      handle.asked = put;
      model.send({ do: "move", id: handle.id, edge: handle.edge, to: put });
    }
  };
  function handleOf({ id, edge }) {
    const key = `${edge} of ${id}`;
    if (handles.has(key)) return handles.get(key);
    const node = document.createElementNS(SVG, "circle");
    const handle = { id, edge, node, asked: null };
    for (const [name, value] of Object.entries({
      r: 6, class: "hollow", tabindex: 0, role: "slider", "aria-label": key, style: "cursor:ew-resize;touch-action:none;pointer-events:all",
    })) node.setAttribute(name, value);
    node.addEventListener("pointerdown", (event) => {
      dragged = handle;
      node.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    node.addEventListener("pointermove", (event) => {
      if (dragged !== handle) return;
      const svg = panels.get(picture).svg;
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) * svg.viewBox.baseVal.width) / box.width;
      const { scale, low } = handle;
      send(handle, Math.round(low + (x - scale.left) / scale.per));
    });
    const drop = () => { dragged = null; };
    node.addEventListener("pointerup", drop);
    node.addEventListener("pointercancel", drop);
    node.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      send(handle, (handle.asked ?? handle.at) + by);
    });
    layer.append(node);
    handles.set(key, handle);
    return handle;
  }

  function draw() {
    const state = model.get("_state");
    pattern.replaceChildren();
    new Text(pattern, state.pattern, []);
    said.textContent = state.said;
    menus.replaceChildren(...state.menus.map(({ name, value, options }) => {
      const known = options.some(([, text]) => text === value) ? options : [...options, [value, value]];
      const select = make("select", { "aria-label": name, "data-menu": name },
        ...known.map(([text, put]) => make("option", { text, value: put })));
      select.value = value;
      select.addEventListener("change", () => model.send({ do: "choose", name, value: select.value }));
      return make("label", { text: `${name} ` }, select);
    }));
    const panel = show(picture, state.picture);
    show(cache, state.cache);
    for (const told of state.handles) {
      const handle = handleOf(told);
      Object.assign(handle, { at: told.at, asked: null, low: state.low, scale: state.scale });
      handle.node.setAttribute("cx", told.x);
      handle.node.setAttribute("cy", told.y);
      handle.node.setAttribute("aria-valuenow", told.at);
    }
    if (!layer.isConnected) {
      panel.svg.parentNode.style.position = "relative";
      panel.svg.parentNode.append(layer);
    }
    for (const name of ["viewBox", "width", "height"]) {
      layer.setAttribute(name, panel.svg.getAttribute(name));
    }
  }
  model.on("change:_state", draw);
  draw();
  return () => model.off("change:_state", draw);
}
export default { render };
