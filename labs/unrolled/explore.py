"""Figures that answer to a control: in a live kernel through ipywidgets, in a stored notebook through a few lines of script.

The stored form holds every setting's picture; the strings that pictures have in common are held once. It needs no kernel,
no network and no library, and without JavaScript it is the picture and the description of the setting shown first.
"""

import contextlib
import gzip
import html
import inspect
import io
import itertools
import json
import numbers
import traceback
from typing import NamedTuple

import matplotlib.figure
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display

from unrolled import plots, runtime

HEAVIEST = 100_000  # bytes of a stored figure, gzipped

GREEK = dict(zip(
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega".split(),
    "αβγδεζηθκλμνξπρστφχψω"))


class Control(NamedTuple):
    """One control of a figure: its name, its kind ("number", "choice" or "text"), its values and the place of the first shown."""

    name: str
    kind: str
    values: tuple
    start: int

    @property
    def label(self):
        """The name as it is printed: rho is ρ, an underscore is a space."""
        return " ".join(GREEK.get(word, word) for word in self.name.split("_") if word)

    @property
    def words(self):
        """The values as they are printed."""
        return [printed(value) for value in self.values]


class Texts(tuple):
    """Example texts for a control; in a live kernel any other text may be typed."""


def texts(*examples):
    """The values of a control that takes text: chosen among the examples in a stored notebook, free in a live kernel.

    Raises:
      TypeError: if an example is not a string, or none is given.
    """
    if not examples or not all(isinstance(example, str) for example in examples):
        raise TypeError(f"texts: examples are {examples!r}; expected strings, as in texts(\"abc\", \"abba\").")
    return Texts(examples)


def explore(figure_function, /, *, start=None, **controls):
    """Shows a figure with one or two controls that redraw it.

    Args:
      figure_function: takes one value of each control, by name, and returns a matplotlib figure that `plots.describe` was given.
      start: the setting shown first, as in {"rho": 0.9}; by default the middle one of numbers, the first of all else.
      **controls: the values of each control: a list of numbers (a slider), a list of strings (a choice), or `texts(...)`.

    Raises:
      TypeError, ValueError: for controls, a start or a figure function that can't work; the message says what to write.
    """
    chosen = _controls(figure_function, start, controls)
    if runtime.static():
        display(stored(figure_function, chosen), raw=True)
    else:
        display(live(figure_function, chosen))


def printed(value):
    """A control's value as it is printed: 0.9, −1.5, 10⁻⁵, abc."""
    if isinstance(value, str):
        return value or "(empty)"
    if isinstance(value, numbers.Integral):
        return str(value).replace("-", "−")
    return plots.number(str(value) if isinstance(value, np.floating) else value, digits=10)


# Checking what was asked for


def _controls(figure_function, start, controls):
    """The controls, checked, in the order in which they were given."""
    if not callable(figure_function):
        raise TypeError(f"explore: figure_function is {figure_function!r}; expected a function that returns a matplotlib figure. "
                        "Give the function itself, without calling it.")
    _check_start_is_free(figure_function, start)
    if not 1 <= len(controls) <= 2:
        given = ", ".join(controls) or "none"
        raise ValueError(f"explore: the controls given are {given}; expected one or two, as in explore(figure, rho=[0.5, 0.9, 1.1]).")
    _check_parameters(figure_function, controls)
    start = {} if start is None else start
    if not isinstance(start, dict):
        raise TypeError(f"explore: start is {start!r}; expected a dictionary, as in start={{{next(iter(controls))!r}: …}}.")
    for name in start:
        if name not in controls:
            raise ValueError(f"explore: start names {name!r}; expected a control of this figure: {', '.join(controls)}.")
    return tuple(_control(name, values, start) for name, values in controls.items())


def _control(name, values, start):
    free = isinstance(values, Texts)
    if isinstance(values, str) or not np.iterable(values) or isinstance(values, dict):
        raise TypeError(f"explore: {name} is {values!r}; expected a list of numbers, a list of strings, or texts(\"…\", \"…\").")
    if isinstance(values, (set, frozenset)):
        raise TypeError(f"explore: {name} is {values!r}, a set, whose order is arbitrary; expected a list, as in {name}=[…, …].")
    values = tuple(np.asarray(values) if hasattr(values, "dtype") else values)
    if len(values) < (1 if free else 2):
        raise ValueError(f"explore: {name} has {'one value' if values else 'no values'}: {list(values)!r}; expected at least two.")
    number = [isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_)) for value in values]
    word = [isinstance(value, str) for value in values]
    if not all(number) and not all(word):
        raise TypeError(f"explore: {name} is {list(values)!r}; expected numbers only or strings only "
                        "(for yes and no write strings, such as [\"without\", \"with\"]).")
    if all(number) and not all(np.isfinite(value) for value in values):
        raise ValueError(f"explore: {name} is {list(values)!r}; expected finite numbers.")
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"explore: {name} has {value!r} twice; expected each value once.")
        for other in values[:index]:
            if printed(other) == printed(value):
                raise ValueError(f"explore: {name} has {other!r} and {value!r}, which are both printed as {printed(value)}; "
                                 "expected values that can be told apart.")
    first = start.get(name, values[len(values) // 2] if all(number) else values[0])
    if first not in values or (all(number) and isinstance(first, (bool, np.bool_))):
        raise ValueError(f"explore: start gives {name} = {first!r}; expected one of its values: {', '.join(map(repr, values))}.")
    kind = "number" if all(number) else "text" if free else "choice"
    return Control(name, kind, values, values.index(first))


def _check_start_is_free(figure_function, start):
    """TypeError if `start` was meant as a control: the name is taken."""
    try:
        parameter = inspect.signature(figure_function).parameters.get("start")
    except (TypeError, ValueError):  # built-in functions may have none
        return
    if parameter and (parameter.default is parameter.empty or not isinstance(start, (dict, type(None)))):
        name = getattr(figure_function, "__name__", "figure_function")
        raise TypeError(f"explore: {name} has a parameter `start`, but that name is taken by the setting shown first; "
                        "expected another name for the control. Rename the parameter, for example to `first`.")


def _check_parameters(figure_function, controls):
    try:
        signature = inspect.signature(figure_function)
    except (TypeError, ValueError):  # built-in functions may have none
        return
    try:
        signature.bind(**controls)
    except TypeError as error:
        name = getattr(figure_function, "__name__", "figure_function")
        raise TypeError(f"explore: {name}{signature} can't be called with the controls {', '.join(controls)} ({error}); "
                        f"expected a function of exactly these, as in def {name}({', '.join(controls)}).") from None


def _figure(figure_function, setting):
    """The described figure of one setting; figures left open by a failing function are closed."""
    before = set(plt.get_fignums())
    try:
        fig = figure_function(**setting)
        name, words = getattr(figure_function, "__name__", "figure_function"), _setting(setting)
        if not isinstance(fig, matplotlib.figure.Figure):
            raise TypeError(f"explore: {name} returned {plots._kind(fig)} for {words}; expected a matplotlib figure. "
                            "End the function with `return describe(fig, \"what is seen\")`.")
        plots.description(fig, f"explore: for {words}, {name}")
        return fig
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def _setting(setting):
    return ", ".join(f"{Control(name, '', (), 0).label} = {printed(value)}" for name, value in setting.items())


def _settings(controls):
    for values in itertools.product(*(control.values for control in controls)):
        yield {control.name: value for control, value in zip(controls, values)}


# The stored form


def stored(figure_function, controls):
    """The output of a figure in a stored notebook: HTML with every setting, a PNG of the first shown, and all descriptions as text."""
    pool, frames, descriptions = {}, [], []
    first = 0
    for control in controls:
        first = first * len(control.values) + control.start
    for index, setting in enumerate(_settings(controls)):
        fig = _figure(figure_function, setting)
        drawing = plots.draw(fig)
        frames.append([pool.setdefault(part, len(pool)) for part in drawing.parts])
        descriptions.append(fig.description)
        if index == first:
            shown, picture = drawing, plots.png(fig)
    words = [_setting(setting) for setting in _settings(controls)]
    store = {"controls": [{"label": control.label, "words": control.words} for control in controls], "first": first,
             "parts": list(pool), "frames": frames, "descriptions": descriptions}
    page = plots.with_ids(_page(controls, shown, descriptions[first], words[first], store))
    weight = len(gzip.compress(page.encode(), 6, mtime=0))
    if weight > HEAVIEST:
        raise ValueError(f"explore: the stored figure with its {len(frames)} settings weighs {weight // 1000} kB gzipped; expected at most "
                         f"{HEAVIEST // 1000} kB. Give fewer values, or draw curves through fewer points.")
    names = "; ".join(f"{control.label}: {', '.join(control.words)}" for control in controls)
    lines = [f"Interactive figure. {names}"] + [f"{setting} | {text}" for setting, text in zip(words, descriptions)]
    return {"text/html": page, "image/png": picture, "text/plain": "\n".join(lines)}


def _page(controls, shown, text, words, store):
    inputs = "".join(map(_input, controls))
    labels = html.escape(", ".join(control.label for control in controls))
    data = json.dumps(store, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/").replace("<!", "<\\u0021")
    return (f"<div class='unrolled-figure u-explore'><style>{plots.STYLE}{STYLE}</style>"
            f"<div class='u-controls' role='group' aria-label='Controls: {labels}' hidden>{inputs}</div>"
            f"{shown.svg(text)}<p class='u-setting'>{html.escape(words)}</p>"
            f"<p class='u-description' aria-live='polite'>{html.escape(text)}</p>"
            f"<script type='application/json'>{data}</script><script>{SCRIPT}</script></div>")


def _input(control):
    label = html.escape(control.label)
    if control.kind == "number":
        word = control.words[control.start]
        widest = max(map(len, control.words))
        return (f"<div class='u-control'><label><span>{label}</span><input type='range' min='0' max='{len(control.values) - 1}' step='1' "
                f"value='{control.start}' aria-valuetext='{word}' autocomplete='off'>"
                f"<span class='u-value' aria-hidden='true' style='min-width:{widest}ch'>{word}</span></label>"
                f"<button type='button' class='u-play' aria-label='Play {label}'>"
                "<svg viewBox='0 0 16 16' aria-hidden='true'><path class='u-go' d='M4 2l10 6-10 6z'/><path class='u-halt' d='M3 2h4v12h-4zM9 2h4v12h-4z'/></svg>"
                "</button></div>")
    options = "".join(f"<option value='{index}'{' selected' if index == control.start else ''}>{html.escape(word)}</option>"
                      for index, word in enumerate(control.words))
    return f"<div class='u-control'><label><span>{label}</span><select autocomplete='off'>{options}</select></label></div>"


STYLE = """
.u-explore .u-controls{display:flex;flex-wrap:wrap;gap:.25rem 2rem;max-width:35rem;margin:0 auto .5rem;font-size:1rem}
.u-explore .u-controls[hidden]{display:none}
.u-explore .u-control{display:flex;align-items:center;gap:.5rem;flex:1 1 14rem;min-width:fit-content;max-width:100%}
.u-explore label{display:flex;flex-wrap:wrap;align-items:center;gap:0 .6rem;flex:1;min-width:0;margin:0;min-height:2.75rem;color:inherit}
.u-explore label>span{white-space:nowrap}
.u-explore input{flex:1 1 5rem;width:5rem;min-width:0;margin:0;height:2rem;accent-color:var(--u-blue);cursor:pointer}
.u-explore select{flex:1 1 6rem;min-width:0;max-width:20rem;min-height:2.25rem;padding:.2rem .4rem;font:inherit;color:inherit;background-color:transparent;border:1px solid currentColor;border-radius:.3rem}
.u-explore option{color:initial;background-color:initial}
.u-explore .u-value{font-variant-numeric:tabular-nums}
.u-explore .u-play{flex:none;width:2.25rem;height:2.25rem;padding:.6rem;border:0;border-radius:50%;color:inherit;background:none;cursor:pointer}
.u-explore .u-play:hover{background:color-mix(in srgb,currentColor 12%,transparent)}
.u-explore .u-play svg{display:block;width:100%;height:100%;fill:currentColor}
.u-explore :is(input,select,button):focus-visible{outline:2px solid var(--u-blue);outline-offset:2px}
.u-explore .u-halt,.u-explore .u-playing .u-go{display:none}
.u-explore .u-playing .u-halt{display:inline}
.u-explore p{max-width:35rem;margin:.4rem auto 0;font-size:.95rem;line-height:1.45}
.u-explore .u-setting{font-weight:600}
@media screen{.u-explore.u-ready .u-setting{display:none}}
@media print{.u-explore .u-controls{display:none}}
@media (prefers-reduced-motion:reduce){.u-explore .u-play{display:none}}
""".replace("\n", "")

SCRIPT = """
(() => {
  const step = 350;
  for (const figure of document.querySelectorAll(".u-explore:not(.u-ready)")) {
    const data = figure.querySelector("script[type='application/json']");
    if (!data) continue;
    figure.classList.add("u-ready");
    const { controls, parts, frames, descriptions } = JSON.parse(data.textContent);
    const svg = figure.querySelector("svg.u-plot");
    const [setting, description] = ["u-setting", "u-description"].map((name) => figure.querySelector("." + name));
    const inputs = [...figure.querySelectorAll("input, select")];
    let tallest = 0;

    const draw = () => {
      const places = inputs.map((input) => +input.value);
      const frame = places.reduce((sum, place, i) => sum * controls[i].words.length + place, 0);
      svg.innerHTML = frames[frame].map((part) => parts[part]).join("");
      svg.setAttribute("aria-label", descriptions[frame]);
      description.textContent = descriptions[frame];
      description.style.minHeight = (tallest = Math.max(tallest, description.offsetHeight)) + "px";
      setting.textContent = controls.map(({ label, words }, i) => label + " = " + words[places[i]]).join(", ");
      inputs.forEach((input, i) => {
        const word = controls[i].words[places[i]];
        if (input.type !== "range") return;
        input.setAttribute("aria-valuetext", word);
        input.nextElementSibling.textContent = word;
      });
    };

    for (const input of inputs) {
      const button = input.closest(".u-control").querySelector(".u-play");
      let timer = 0;
      const halt = () => {
        clearInterval(timer);
        timer = 0;
        button.classList.remove("u-playing");
        button.setAttribute("aria-label", "Play " + controls[inputs.indexOf(input)].label);
        description.setAttribute("aria-live", "polite");
      };
      input.addEventListener("input", () => {
        if (timer) halt();
        draw();
      });
      if (!button) continue;
      button.addEventListener("click", () => {
        if (timer) return halt();
        if (input.value === input.max) input.value = 0;
        button.classList.add("u-playing");
        button.setAttribute("aria-label", "Pause " + controls[inputs.indexOf(input)].label);
        description.setAttribute("aria-live", "off");
        timer = setInterval(() => {
          input.value = +input.value + 1;
          draw();
          if (input.value === input.max || !figure.isConnected) halt();
        }, step);
      });
    }
    figure.querySelector(".u-controls").hidden = false;
  }
})();
"""


# The live form


def live(figure_function, controls):
    """The widgets of a figure in a live kernel: its controls above the picture, which they redraw."""
    import ipywidgets

    picture = ipywidgets.HTML()
    inputs = [_widget(ipywidgets, control) for control in controls]

    def redraw(_=None):
        setting = {control.name: widget.value for control, widget in zip(controls, inputs)}
        picture.value = _live_page(figure_function, setting)

    for widget in inputs:
        widget.observe(redraw, names="value")
    redraw()
    return ipywidgets.VBox([ipywidgets.HBox(inputs, layout={"flex_flow": "row wrap"}), picture])


def _widget(ipywidgets, control):
    value = control.values[control.start]
    options = list(zip(control.words, control.values))
    style = {"description_width": "initial"}
    if control.kind == "number":
        return ipywidgets.SelectionSlider(options=options, value=value, description=control.label, continuous_update=False, style=style)
    if control.kind == "choice":
        return ipywidgets.Dropdown(options=options, value=value, description=control.label, style=style)
    return ipywidgets.Combobox(options=control.values, value=value, description=control.label, ensure_option=False, continuous_update=False, style=style)


def _live_page(figure_function, setting):
    """One setting's picture, description and whatever its function printed; an error is shown in their place."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            fig = _figure(figure_function, setting)
        body = f"{plots.draw(fig).svg(fig.description)}<p class='u-description'>{html.escape(fig.description)}</p>"
    except Exception as error:  # a learner's own function may raise anything; the controls must outlive it
        own = [place for place in traceback.extract_tb(error.__traceback__) if "-packages" not in place.filename and place.filename != __file__]
        where = f" (line {own[-1].lineno} of {own[-1].name})" if own else ""
        message = f"{type(error).__name__}: {error}{where}"
        body = f"<p role='alert'><strong>No figure for {html.escape(_setting(setting))}.</strong> {html.escape(message)}</p>"
    if said.getvalue():
        body += f"<pre>{html.escape(said.getvalue())}</pre>"
    return plots.with_ids(f"<div class='unrolled-figure u-explore'><style>{plots.STYLE}{STYLE}</style>{body}</div>")
