// The player in a notebook: the same one as in a page; its pictures come from the kernel.
function mount(model, el) {
  let player = null;
  let removed = false;
  let saving = null;
  let shown = null; // the films that are in the player; others may be on their way
  const bytes = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  // Changes are gathered for a moment, so that a slider does not flood the kernel. Until they are
  // sent, an older value that comes back from the kernel is no news.
  let pending = {};
  const told = (changes) => {
    Object.assign(pending, changes);
    if (saving !== null) return;
    saving = setTimeout(() => {
      saving = null;
      model.set(pending);
      pending = {};
      model.save_changes();
    }, 80);
  };

  async function start() {
    const packed = model.get("_head");
    const head = await unpacked(bytes(packed));
    if (removed || packed !== model.get("_head")) return;
    shown = packed;
    if (player !== null) player.remove();
    const root = document.createElement("div");
    el.replaceChildren(root);
    const number = head.number;
    let ready = false; // what it does while it is set up is not news
    player = new Player(root, head, {
      runs: head.films.length === 1,
      ask: (want) => model.send({ ask: { ...want, number } }),
      told: (changes) => { if (ready) told(changes); },
    });
    if (model.get("quiz")) player.ask(true);
    player.score = model.get("score");
    player.go(model.get("step"));
    if (model.get("run")) player.watch(model.get("run"));
    ready = true;
    el.player = player;
  }

  async function came(message, buffers) {
    if (!message.part || player === null) return;
    const part = await unpacked(bytes(buffers[0]));
    if (player !== null && message.part === player.data.number) player.receive(part);
  }
  const here = () => player !== null && shown === model.get("_head") && saving === null;
  const moved = () => { if (here() && player.step !== model.get("step")) player.go(model.get("step")); };
  const followed = () => {
    if (here() && (player.run ?? "") !== model.get("run")) player.watch(model.get("run"));
  };
  const quizzed = () => { if (here() && player.quiz !== model.get("quiz")) player.ask(model.get("quiz")); };
  model.on("msg:custom", came);
  model.on("change:_head", start);
  model.on("change:step", moved);
  model.on("change:run", followed);
  model.on("change:quiz", quizzed);
  start();
  return () => {
    removed = true;
    if (player !== null) player.remove();
    model.off("msg:custom", came);
    model.off("change:_head", start);
    model.off("change:step", moved);
    model.off("change:run", followed);
    model.off("change:quiz", quizzed);
  };
}
