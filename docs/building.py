"""What mkdocs does for this site beside Markdown: notebooks as pages, pictures, examples.

- Every notebook becomes a page, with what its cells show; `CEPVIZ_RUN_NOTEBOOKS=false` leaves that
  out, and the build takes seconds.
- Behind a block that begins with ```` ```python picture ```` stands the picture it makes.
- In the reference, examples of docstrings are blocks of code.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import griffe
import nbformat
from mkdocs.structure.files import File

from cepviz.views.replay import PLAYER_STYLE
from cepviz.views.style import COLOURS, stylesheet

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```python( picture)?\n(.*?)^```$", re.M | re.S)
LONGEST = 600  # seconds for a cell


def on_files(files: Any, config: Any) -> Any:
    """Adds the notebooks as pages, and the looks of our pictures."""
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    run = executed if config.extra["run_notebooks"] else read
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, notebook in zip(paths, pool.map(run, paths), strict=True):
            uri = f"notebooks/{path.stem}.md"
            files.append(File.generated(config, uri, content=page_of(notebook)))
    files.append(File.generated(config, "cepviz.css", content=looks()))
    config.extra_css.append("cepviz.css")
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Puts pictures behind the blocks that make them, and leads links to notebooks to pages."""
    if "```python picture" in markdown:
        markdown = with_pictures(markdown)
    return re.sub(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", r"](notebooks/\1.md)", markdown)


def on_post_build(config: Any) -> None:
    """Writes the index of the search as a script, too.

    A page opened from disk asks for that one, and without it none of the theme's buttons work.
    """
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")


# ---- notebooks ----


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def executed(path: Path) -> Any:
    """A notebook with what its cells show; a cell that fails stops the build."""
    from nbclient import NotebookClient

    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(
            notebook, timeout=LONGEST, kernel_name="python3", resources=resources
        ).execute()
    return notebook


def page_of(notebook: Any) -> str:
    """A notebook as Markdown: text as it is, code as blocks, outputs as HTML."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(re.sub(r"\]\((\w+)\.ipynb\)", r"](\1.md)", cell.source))
            continue
        kind = "text" if cell.source.startswith("%%") else "python"
        parts.append(f"```{kind}\n{cell.source}\n```")
        parts += [part for output in cell.outputs if (part := shown(output))]
    return "\n\n".join(parts) + "\n"


def shown(output: Any) -> str:
    """What a cell printed or displayed, as a block of HTML that Markdown leaves alone."""
    if output.output_type == "stream":
        return pre(output.text)
    data = output.get("data", {})
    if "application/vnd.plotly.v1+json" in data:
        return pre("(a figure that needs the notebook)")
    if "text/html" in data:
        return inlined(data["text/html"])
    return pre(data["text/plain"]) if "text/plain" in data else ""


def pre(text: str) -> str:
    # Markdown ends a block of HTML at an empty line.
    return f'<pre class="printed">{html.escape(text.rstrip())}</pre>'.replace("\n", "&#10;")


def inlined(page: str) -> str:
    """HTML on one line, with the looks that all pictures share taken out: the site has them."""
    page = page.replace(f"<style>{stylesheet()}</style>", "")
    page = re.sub(r"<style scoped>.*?</style>", "", page, flags=re.S)  # those of pandas
    body = re.sub(
        r"(<pre.*?</pre>)|\n\s*",
        lambda found: (found[1] or " ").replace("\n", "&#10;"),
        page,
        flags=re.S,
    )
    return f'<div class="shown">{body}</div>'


# ---- pictures ----


def with_pictures(markdown: str) -> str:
    """Runs the blocks of a page in one namespace; those marked get their picture behind them."""
    space: dict[str, Any] = {"__name__": "__main__"}

    def run(block: re.Match[str]) -> str:
        made = value_of(block[2], space)
        text = f"```python\n{block[2]}```"
        if not block[1]:
            return text
        bundle = made._repr_mimebundle_()
        return f"{text}\n\n{inlined(bundle['text/html'])}"

    return FENCE.sub(run, markdown)


def value_of(code: str, space: dict[str, Any]) -> Any:
    """Runs code and gives the value of its last line, as a notebook does."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(tree, "picture", "exec"), space)
        if last is None:
            return None
        return eval(compile(ast.Expression(last.value), "picture", "eval"), space)


def looks() -> str:
    """The style of our pictures, following the light and dark of the site's theme."""
    light, dark = (
        ";".join(f"--{name}:{pair[which]}" for name, pair in COLOURS.items()) for which in (0, 1)
    )
    return "\n".join(
        [
            stylesheet(),
            PLAYER_STYLE,
            f"[data-md-color-scheme=default] .cep{{{light}}}",
            f"[data-md-color-scheme=slate] .cep{{{dark}}}",
            ".md-grid {max-width: 84rem}",  # Wide enough for our pictures.
            ".md-typeset .shown, .md-typeset .printed {overflow-x: auto; font-size: 0.68rem}",
            ".md-typeset .printed {background: none; white-space: pre-wrap; line-height: 1.4}",
            ".md-typeset .cep svg {max-width: none}",
            ".md-typeset .shown table {font-size: 0.68rem}",
        ]
    )


# ---- the reference ----


class Examples(griffe.Extension):
    """Makes the examples of docstrings blocks of code: `>>>` is a quotation to Markdown."""

    def on_instance(self, *, obj: griffe.Object, **keywords: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_blocks(obj.docstring.value)


def with_blocks(text: str) -> str:
    """Puts fences around the paragraphs of a docstring that are examples.

    >>> print(with_blocks("One.\\n\\n>>> 1 + 1\\n2\\n\\nMore."))
    One.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    More.
    """
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.lstrip().startswith(">>>"):
            paragraph = f"```pycon\n{paragraph}\n```"
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)
