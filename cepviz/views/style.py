"""The marks of every picture: colours by name, and what each class of shape looks like.

Colours are Okabe and Ito's, which the colour-blind can tell apart, each for light and for dark.
No mark differs by colour alone: lines are solid, dashed or dotted, dots filled, hollow or square.
"""

from __future__ import annotations

#: Name to (light, dark).
COLOURS = {
    "paper": ("#ffffff", "#16181d"),
    "ink": ("#1b1b1b", "#ececec"),
    "faint": ("#6b6b6b", "#a0a4ab"),
    "line": ("#c9c9c9", "#4a4f57"),
    "wash": ("#f2f2f2", "#24272e"),
    "blue": ("#0072B2", "#56a8dc"),
    "purple": ("#b0568a", "#CC79A7"),
    "orange": ("#a86f00", "#E69F00"),
    "green": ("#00805c", "#2bc295"),
    "vermilion": ("#c04e00", "#f08a4b"),
    "sky": ("#2a7fb8", "#56B4E9"),
}

#: The colours of lines that are compared, in this order.
HUES = ("blue", "vermilion", "green", "purple", "orange", "sky")

FONT = "ui-sans-serif, system-ui, 'DejaVu Sans', 'Segoe UI', Helvetica, Arial, sans-serif"

#: Class to SVG properties; a colour's name stands for the colour of the theme.
CLASSES: dict[str, dict[str, str]] = {
    "text": {"fill": "ink", "font-size": "12px"},
    "small": {"fill": "faint", "font-size": "11px"},
    "label": {"fill": "ink", "font-size": "13px", "font-weight": "600"},
    "middle": {"text-anchor": "middle"},
    "end": {"text-anchor": "end"},
    "state": {"fill": "paper", "stroke": "ink", "stroke-width": "1.5"},
    "final": {"fill": "none", "stroke": "ink", "stroke-width": "1.5"},
    "past": {"fill": "paper", "stroke": "line", "stroke-width": "1.5"},
    "edge": {"fill": "none", "stroke": "faint", "stroke-width": "1.5"},
    "begin": {"fill": "none", "stroke": "blue", "stroke-width": "1.8"},
    "take": {"fill": "none", "stroke": "blue", "stroke-width": "1.8"},
    "ignore": {"fill": "none", "stroke": "faint", "stroke-width": "1.4", "stroke-dasharray": "5 4"},
    "proceed": {"fill": "none", "stroke": "purple", "stroke-width": "1.8"},
    "store": {"fill": "none", "stroke": "orange", "stroke-width": "1.8", "stroke-dasharray": "1 4",
              "stroke-linecap": "round"},
    "negate": {"fill": "none", "stroke": "vermilion", "stroke-width": "1.6",
               "stroke-dasharray": "8 3 2 3"},
    "match": {"fill": "green", "stroke": "green"},
    "drop": {"fill": "none", "stroke": "vermilion", "stroke-width": "2"},
    "dot": {"fill": "blue", "stroke": "blue"},
    "hollow": {"fill": "paper", "stroke": "faint", "stroke-width": "1.4"},
    "square": {"fill": "orange", "stroke": "orange"},
    "badge": {"fill": "ink"},
    "badge-text": {"fill": "paper", "font-size": "11px", "font-weight": "600",
                   "text-anchor": "middle"},
    "window": {"fill": "none", "stroke": "ink", "stroke-width": "1.5"},
    "scope": {"fill": "none", "stroke": "orange", "stroke-width": "1.5"},
    "gap": {"fill": "vermilion", "fill-opacity": "0.14"},
    "grid": {"stroke": "line", "stroke-width": "1"},
    "cell": {"fill": "wash", "stroke": "line", "stroke-width": "1"},
    "read": {"fill": "faint", "stroke": "faint"},
    "hollow-square": {"fill": "paper", "stroke": "orange", "stroke-width": "1.6"},
    "join": {"fill": "none", "stroke": "green", "stroke-width": "4", "stroke-opacity": "0.6",
             "stroke-linejoin": "round", "stroke-linecap": "round"},
    "tried": {"fill": "none", "stroke": "faint", "stroke-width": "2", "stroke-dasharray": "6 4"},
    "now": {"fill": "none", "stroke": "ink", "stroke-width": "1", "stroke-dasharray": "2 3"},
    "ring": {"fill": "none", "stroke": "ink", "stroke-width": "1.8"},
    "band": {"fill": "wash"},
    "run": {"fill": "none", "stroke": "faint", "stroke-width": "2"},
    "kin": {"fill": "none", "stroke": "faint", "stroke-width": "1", "stroke-opacity": "0.7"},
    "watched": {"fill": "sky"},
    "other-side": {"fill": "paper", "stroke": "sky", "stroke-width": "1.6"},
    "broken": {"fill": "vermilion", "stroke": "vermilion"},
    "said-drop": {"fill": "vermilion", "font-size": "11px"},
    "said-match": {"fill": "green", "font-size": "11px", "font-weight": "600"},
    "said-store": {"fill": "orange", "font-size": "11px"},
    "start-arrow": {"fill": "none", "stroke": "ink", "stroke-width": "1.5"},
    "ink-head": {"fill": "ink", "stroke": "ink"},
    "begin-head": {"fill": "blue", "stroke": "blue"},
    "take-head": {"fill": "blue", "stroke": "blue"},
    "ignore-head": {"fill": "faint", "stroke": "faint"},
    "proceed-head": {"fill": "paper", "stroke": "purple", "stroke-width": "1.6"},
    "store-head": {"fill": "orange", "stroke": "orange"},
    "negate-head": {"fill": "vermilion", "stroke": "vermilion"},
    "said-begin": {"fill": "blue", "font-size": "12px", "font-weight": "600"},
    "said-take": {"fill": "blue", "font-size": "12px", "font-weight": "600"},
    "said-ignore": {"fill": "faint", "font-size": "12px", "font-weight": "600"},
    "said-proceed": {"fill": "purple", "font-size": "12px", "font-weight": "600"},
    "said-keep": {"fill": "orange", "font-size": "12px", "font-weight": "600"},
    "said-negate": {"fill": "vermilion", "font-size": "12px", "font-weight": "600"},
    "negated": {"fill": "paper", "stroke": "vermilion", "stroke-width": "1.5",
                "stroke-dasharray": "8 3 2 3"},
    "fork": {"fill": "none", "stroke": "ink", "stroke-width": "1.5", "stroke-linecap": "round"},
    "tick": {"fill": "none", "stroke": "green", "stroke-width": "2.2", "stroke-linecap": "round",
             "stroke-linejoin": "round"},
    "cross": {"fill": "none", "stroke": "vermilion", "stroke-width": "2.2",
              "stroke-linecap": "round"},
    "accepted": {"fill": "green", "stroke": "green"},
    "on-green": {"fill": "paper"},
    "pointer": {"fill": "none", "stroke": "blue", "stroke-width": "1.4"},
    "pointer-head": {"fill": "blue", "stroke": "blue"},
    "found": {"stroke": "green"},
    "in-scope": {"stroke": "orange", "stroke-width": "1.8"},
    "fresh": {"stroke": "blue"},
    "halo": {"stroke": "paper", "stroke-width": "4", "paint-order": "stroke"},
    "path": {"stroke-width": "2.8"},
    "selected": {"stroke": "ink", "stroke-width": "2.5"},
    "lit": {"stroke-width": "3.5"},
    "dim": {"opacity": "0.28"},
    "bold": {"font-weight": "700"},
    "yes": {"fill": "green", "font-weight": "700"},
    "no": {"fill": "vermilion", "font-weight": "700"},
}  # fmt: skip

#: The lines of a chart: of twelve no two have the same colour and dash.
for _n, _dash in enumerate(("", "7 4", "2 4", "9 3 2 3") * 3):
    _hue = HUES[_n % len(HUES)]
    CLASSES[f"line-{_n}"] = {"fill": "none", "stroke": _hue, "stroke-width": "2"}
    if _dash:
        CLASSES[f"line-{_n}"]["stroke-dasharray"] = _dash
    CLASSES[f"mark-{_n % 6}"] = {"fill": _hue, "stroke": _hue}
    CLASSES[f"name-{_n % 6}"] = {"fill": _hue, "font-size": "12px", "font-weight": "600"}


def resolved(classes: str, theme: str) -> dict[str, str]:
    """The SVG properties of some classes in the light or the dark theme; later classes win."""
    which = 0 if theme == "light" else 1
    merged: dict[str, str] = {}
    for name in classes.split():
        merged |= CLASSES.get(name, {})
    return {
        prop: COLOURS[value][which] if value in COLOURS else value for prop, value in merged.items()
    }


def stylesheet() -> str:
    """The classes as CSS, with variables for the colours: they follow the page's theme."""
    light, dark = (
        ";".join(f"--{name}:{pair[which]}" for name, pair in COLOURS.items()) for which in (0, 1)
    )
    rules = [
        f".cep{{{light};font-family:{FONT};color:var(--ink)}}",
        f"@media (prefers-color-scheme: dark){{.cep{{{dark}}}}}",
        # A notebook or a page that says which theme it shows is believed before the system.
        f"[data-jp-theme-light=true] .cep,[data-theme=light] .cep,.cep.light{{{light}}}",
        f"[data-jp-theme-light=false] .cep,[data-theme=dark] .cep,.cep.dark{{{dark}}}",
    ]
    for name, properties in CLASSES.items():
        body = ";".join(
            f"{prop}:{f'var(--{value})' if value in COLOURS else value}"
            for prop, value in properties.items()
        )
        rules.append(f".cep .{name}{{{body}}}")
    return "\n".join(rules)
