"""The look of the course's figures, and the one way to show one.

A figure is an ordinary matplotlib figure that carries a description. It is shown as a small inline SVG whose inks are
`currentColor` and CSS variables, so that the same picture serves light and dark pages, screen and paper.
"""

import hashlib
import html
import io
import numbers
import re
import warnings
from typing import NamedTuple
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from IPython.display import display
from matplotlib import cbook, ticker
from PIL import Image

# Ink and its two weaker shades become currentColor at these opacities.
INK, MUTED, FAINT = "#16181d", "#60646c", "#d8dade"
SHADES = {INK: 1.0, MUTED: 0.72, FAINT: 0.2}

# Series colours after Okabe and Ito (2008), darkened so that they serve as text on white; the dark page has brighter ones.
COLOURS = {"blue": "#0072b2", "vermillion": "#c04a00", "green": "#007a58", "purple": "#a8487e", "ochre": "#8a6400"}
DARK = {"blue": "#56b4e9", "vermillion": "#ff8c4a", "green": "#2fc79d", "purple": "#e79bc6", "ochre": "#e6a91e"}

WIDTH, HEIGHT = 5.4, 3.3  # inches, of 72 units of the SVG each
LABEL_GAP = 13  # points between two labels at the ends of curves


def use_style():
    """Sets matplotlib's defaults to the style of the course."""
    plt.rcParams.update({
        "figure.figsize": (WIDTH, HEIGHT),
        "figure.dpi": 100,
        "figure.subplot.left": 0.11, "figure.subplot.right": 0.97,
        "figure.subplot.bottom": 0.15, "figure.subplot.top": 0.89,
        "figure.subplot.wspace": 0.3,
        "font.size": 10.5, "axes.labelsize": 10.5, "xtick.labelsize": 10, "ytick.labelsize": 10,
        "axes.titlesize": 11, "axes.titlelocation": "left", "legend.frameon": False,
        "text.color": INK, "axes.labelcolor": INK, "axes.titlecolor": INK,
        "axes.edgecolor": MUTED, "xtick.color": MUTED, "ytick.color": MUTED,
        "axes.linewidth": 0.8, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "axes.grid.axis": "y", "grid.color": FAINT, "grid.linewidth": 0.7,
        "axes.axisbelow": True,
        "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
        "xtick.major.pad": 5, "ytick.major.pad": 5,
        "lines.linewidth": 1.9, "lines.solid_capstyle": "round", "lines.markersize": 5,
        "axes.prop_cycle": cycler(color=list(COLOURS.values())),
        "axes.unicode_minus": True,
    })


def describe(fig, text):
    """Attaches to a figure the sentences that say what is seen in it, and returns the figure.

    Raises:
      TypeError: if `fig` is not a matplotlib figure.
      ValueError: if the text is empty.
    """
    if not isinstance(fig, matplotlib.figure.Figure):
        raise TypeError(f"describe: fig is {_kind(fig)}; expected a matplotlib figure, as in describe(fig, \"what is seen\").")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"describe: text is {text!r}; expected a sentence or two that say what is seen in the figure.")
    fig.description = re.sub(r"[ \t\r\n]+", " ", text).strip(" ")  # no-break spaces stay
    return fig


def show(fig, alt=None):
    """Shows a figure as one output (inline SVG, a small PNG, its description as text) and closes it.

    Args:
      fig: a matplotlib figure.
      alt: the sentences that say what is seen; not needed if the figure was given them by `describe`.

    Raises:
      TypeError: if `fig` is not a matplotlib figure.
      ValueError: if there is no description.
    """
    if not isinstance(fig, matplotlib.figure.Figure):
        raise TypeError(f"show: fig is {_kind(fig)}; expected a matplotlib figure, as in show(fig, \"what is seen\").")
    if alt is not None:
        describe(fig, alt)
    text = description(fig, "show")
    page = f"<div class='unrolled-figure'><style>{STYLE}</style>{draw(fig).svg(text)}</div>"
    bundle = {"text/html": with_ids(page), "image/png": png(fig), "text/plain": f"Figure: {text}"}
    plt.close(fig)
    display(bundle, raw=True)


def description(fig, caller):
    """The description that `describe` gave a figure; ValueError if there is none."""
    text = getattr(fig, "description", None)
    if text is None:
        raise ValueError(f"{caller}: the figure has no description; expected one, for those who can't see it. "
                         "Write `return describe(fig, \"what is seen\")`, or show(fig, \"what is seen\").")
    return text


# Axes, curves, labels


def axes(xlabel="", ylabel="", *, xlim=None, ylim=None, ylog=False):
    """A figure with one pair of axes, its labels upright: `fig, ax = axes("lag", "norm", ylim=(1e-12, 1), ylog=True)`."""
    for name, limits in (("xlim", xlim), ("ylim", ylim)):
        if limits is not None and np.shape(limits) != (2,):
            raise TypeError(f"axes: {name} is {limits!r}; expected two numbers, as in {name}=(0, 60).")
    fig, ax = plt.subplots(figsize=(WIDTH, HEIGHT))
    if ylog:
        log_ticks(ax)
    ax.set(xlim=xlim, ylim=ylim)
    label_axes(ax, xlabel, ylabel)
    return fig, ax


def label_axes(ax, xlabel, ylabel):
    """Writes the axes' names where they are read first: y above its axis, upright; x below its axis, at the right."""
    ax.set_xlabel(xlabel, loc="right")
    ax.annotate(ylabel, (0, 1), (0, 10), xycoords="axes fraction", textcoords="offset points", ha="left", va="baseline", color=INK)


def curve(ax, x, y, label="", colour="blue", line="-", **options):
    """Draws y over x in a colour and line style of the course, with its label at the right end in place of a legend.

    The label stands where the curve ends, or where it leaves the axes; labels that would overlap are moved apart when the
    figure is drawn. Room for the longest is made at the right. Further options are those of `Axes.plot`.
    """
    (drawn,) = ax.plot(x, y, linestyle=line, color=ink(colour), **options)
    if label:
        note = ax.annotate(label, (0, 0), (7, 0), textcoords="offset points", color=ink(colour), va="center", annotation_clip=False)
        note.curve = drawn
        room = 12 + 6 * max(len(re.sub(r"[_^{}]", "", row)) for row in label.split("\n"))
        fig = ax.figure
        fig.subplots_adjust(right=min(fig.subplotpars.right, 1 - room / (72 * fig.get_figwidth())))
    return drawn


def baseline(ax, y, label):
    """Draws the level that a curve is to be compared with, from end to end of the x axis (whose limits must be set before)."""
    return curve(ax, ax.get_xlim(), (y, y), label, "muted", (0, (4, 3)), linewidth=1.2)


def ink(colour):
    """The matplotlib colour of a name of the course: "blue", "vermillion", "green", "purple", "ochre", "ink", "muted", "faint"."""
    known = COLOURS | {"ink": INK, "muted": MUTED, "faint": FAINT}
    if not isinstance(colour, str):
        raise TypeError(f"ink: colour is {colour!r}, {_kind(colour)}; expected a name of the course: {', '.join(known)}.")
    if colour not in known:
        raise ValueError(f"ink: colour is {colour!r}; expected one of {', '.join(known)}.")
    return known[colour]


def log_ticks(ax, axis="y"):
    """Makes an axis ("x" or "y") logarithmic, with ticks written 0.1, 1, 10, 10², 10⁻¹²."""
    if axis not in ("x", "y"):
        raise ValueError(f"log_ticks: axis is {axis!r}; expected \"x\" or \"y\".")
    getattr(ax, f"set_{axis}scale")("log")
    line = getattr(ax, f"{axis}axis")
    line.set_major_locator(ticker.LogLocator(numticks=7))
    line.set_minor_locator(ticker.NullLocator())
    line.set_major_formatter(ticker.FuncFormatter(lambda value, _: power(round(np.log10(value)))))


def power(n):
    """10 to the power n as it is printed: 0.1, 1, 10, or 10 with a Unicode superscript."""
    return {-1: "0.1", 0: "1", 1: "10"}.get(n, "10" + superscript(n))


def number(value, digits=2):
    """A number as it is printed in words and labels, to so many significant digits: 0.9, −1.5, 4 × 10⁻⁵ (its spaces don't break)."""
    word = format(float(value) + 0.0, f".{digits}g")  # −0.0 is 0
    mantissa, _, exponent = word.partition("e")
    if exponent and 0 < int(exponent) < 6:  # 1e+03 is 1000
        word = format(float(word), ".0f")
    elif exponent:
        word = (mantissa + "\u00a0×\u00a010" if mantissa not in ("1", "-1") else mantissa + "0") + superscript(int(exponent))
    return word.replace("-", "−")


def superscript(n):
    """An integer in Unicode superscripts: superscript(-12) is "⁻¹²"."""
    if not isinstance(n, numbers.Integral):
        raise TypeError(f"superscript: n is {n!r}, {_kind(n)}; expected an integer, as in superscript(-12).")
    return str(n).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


# Diagrams


def diagram(width, height):
    """A figure without axes, for boxes and arrows, measured in units of which the picture is `width` by `height`."""
    fig = plt.figure(figsize=(WIDTH, WIDTH * height / width))
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height), aspect="equal")
    ax.axis("off")
    return fig, ax


def node(ax, x, y, text, colour="ink", radius=0.36):
    """A circle with a letter in it, for a diagram."""
    ax.add_patch(plt.Circle((x, y), radius, fill=False, edgecolor=ink(colour), linewidth=1.3))
    ax.text(x, y, text, ha="center", va="center_baseline", color=ink(colour))


def arrow(ax, start, end, text="", colour="ink", line="-", bend=0.0, shrink=0.4):
    """An arrow of a diagram from one point (x, y) to another; it stops `shrink` short of both, and its text stands beside it."""
    (x0, y0), (x1, y1) = start, end
    length = np.hypot(x1 - x0, y1 - y0)
    dx, dy = shrink * (x1 - x0) / length, shrink * (y1 - y0) / length
    ax.annotate("", (x1 - dx, y1 - dy), (x0 + dx, y0 + dy),
                arrowprops={"arrowstyle": "-|>,head_length=0.35,head_width=0.16", "color": ink(colour), "linewidth": 1.3,
                            "linestyle": line, "shrinkA": 0, "shrinkB": 0, "connectionstyle": f"arc3,rad={bend}"})
    if text:
        x, y = (x0 + x1) / 2 - bend * (y0 - y1) / 2, (y0 + y1) / 2 - bend * (x1 - x0) / 2
        upright = abs(x1 - x0) < abs(y1 - y0)
        ax.annotate(text, (x, y), (5, 0) if upright else (0, 5), textcoords="offset points", color=ink(colour),
                    ha="left" if upright else "center", va="center" if upright else "baseline")


# From matplotlib's SVG to ours


STYLE = (
    # the site's theme puts all HTML output of a dark page on a light ground
    ".text_html:has(>.unrolled-figure){background:none!important;color:inherit!important;padding:0!important}"
    ".unrolled-figure{margin:0 auto;color:inherit;break-inside:avoid;"
    + "".join(f"--u-{name}:{value};" for name, value in COLOURS.items())
    + "}"
    + ":is(html[data-theme=dark],html[theme=dark],body[data-jp-theme-light=false],body.vscode-dark) .unrolled-figure{color-scheme:dark;"
    + "".join(f"--u-{name}:{value};" for name, value in DARK.items())
    + "}"
    + ".unrolled-figure svg.u-plot{display:block;width:100%;height:auto;margin:0 auto;font-family:inherit;background:none}"
    + "@media print{.unrolled-figure{color:#000!important;"
    + "".join(f"--u-{name}:{value}!important;" for name, value in COLOURS.items())
    + "}}"
)

ID = "unrolled-id-"  # stands before every id until with_ids gives it the figure's own prefix
NAMES = {value: f"var(--u-{name})" for name, value in COLOURS.items()} | {"#000000": "currentColor"}
XLINK = "{http://www.w3.org/1999/xlink}href"
SHIFTED = re.compile(r"([_^](?:\w|\{[^{}]*\}))")  # lowered or raised: h_T, h_{t−1}, w^T
ENLARGED = 1.45  # of the SVG's units, at most, on a wide page


class Drawing(NamedTuple):
    """A figure as cleaned SVG: its size in units and the strings of its elements, in the order of drawing."""

    width: float
    height: float
    parts: tuple[str, ...]

    def svg(self, text):
        """The whole inline SVG, described by `text`."""
        return (f"<svg class='u-plot' role='img' aria-label='{html.escape(text)}' viewBox='0 0 {self.width:g} {self.height:g}' "
                f"style='max-width:{ENLARGED * self.width:.0f}px' fill='currentColor' stroke-linejoin='round'>{''.join(self.parts)}</svg>")


def draw(fig):
    """Draws a figure as cleaned SVG: no prolog, metadata or fonts, inks that follow the page, coordinates to a tenth."""
    _place_labels(fig)
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "path.simplify": True}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the letters are the page's, not matplotlib's
        fig.savefig(file, format="svg", transparent=True, bbox_inches=None,
                    metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(file.getvalue())
    _, _, width, height = (round(float(number), 1) for number in root.get("viewBox").split())
    definitions = {element.get("id"): element for defs in root.iter() if _tag(defs) == "defs" for element in defs if element.get("id")}
    used = {}
    body = tuple(_elements(root, definitions, used))
    head = ("<defs>" + "".join(used.values()) + "</defs>",) if used else ()
    return Drawing(width, height, head + body)


def png(fig):
    """The figure as a small opaque PNG in black on white: the fallback for viewers that strip HTML."""
    _place_labels(fig)
    plain = {text: text.get_text() for text in fig.findobj(matplotlib.text.Text)}
    for text, words in plain.items():
        text.set_text("\n".join(map(_in_mathtext, words.split("\n"))))
    raw, file = io.BytesIO(), io.BytesIO()
    fig.savefig(raw, format="png", dpi=84, facecolor="white", transparent=False, bbox_inches=None)
    for text, words in plain.items():
        text.set_text(words)
    Image.open(raw).convert("RGB").quantize(48, dither=Image.Dither.NONE).save(file, format="PNG", optimize=True)
    return file.getvalue()


def _in_mathtext(row):
    """A row of words with its lowered and raised letters as matplotlib writes them; rows that hold mathtext stay."""
    if cbook.is_math_text(row) or not SHIFTED.search(row):
        return row
    row = re.sub(r"(?<!\\)\$", r"\\$", row)
    return SHIFTED.sub(lambda part: f"${part[0][0]}{{\\mathregular{{{part[0][1:].strip('{}')}}}}}$", row)


def with_ids(page):
    """Gives the ids in a figure's HTML a prefix made from its content, so that no two figures of a page share one."""
    return page.replace(ID, "u" + hashlib.sha256(page.encode()).hexdigest()[:8] + "-")


def _place_labels(fig):
    """Puts the labels of curves where these end or leave the axes, and moves overlapping ones apart."""
    for ax in fig.axes:
        notes = [note for note in ax.texts if hasattr(note, "curve")]
        ends = [_last_seen(ax, note.curve) for note in notes]
        for outside in (True, False):  # labels beside the axes, then those within
            chosen = [(note, end) for note, end in zip(notes, ends) if end and end.at_end == outside]
            heights = _apart([end.height for _, end in chosen])
            for (note, end), height in zip(chosen, heights):
                note.xy = end.xy
                note.set_position((7, round(height - end.anchor, 1)))
        for note, end in zip(notes, ends):
            note.set_visible(end is not None)


class _End(NamedTuple):
    xy: tuple[float, float]  # in the units of the axes
    anchor: float  # its height, in points above the bottom of the figure
    height: float  # the height at which its label stands best
    at_end: bool  # of the axes, so that the label stands beside them


def _last_seen(ax, line):
    """Where a curve is last seen within the limits of y: its end, or the point where it leaves; None if it is never seen."""
    x, y = (np.asarray(values, float) for values in line.get_data())
    (left, right), (bottom, top) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
    seen = np.flatnonzero((x >= left) & (x <= right) & (y >= bottom) & (y <= top))
    if not len(seen):
        return None
    last = seen[-1]
    points = ax.transData.transform(np.c_[x, y][last:last + 2]) * 72 / ax.figure.dpi
    low, high = ax.bbox.y0 * 72 / ax.figure.dpi, ax.bbox.y1 * 72 / ax.figure.dpi
    if last + 1 == len(x) or not np.isfinite(points).all():
        beside = x[last] > right - 0.03 * (right - left)
        return _End((right if beside else x[last], y[last]), points[0][1], np.clip(points[0][1], low + 4, high - 4), beside)
    (x0, y0), (x1, y1) = points
    edge = high if y[last + 1] > top else low if y[last + 1] < bottom else y0
    share = (edge - y0) / (y1 - y0) if y1 != y0 else 0.0
    place = ax.transData.inverted().transform(np.array((x0 + share * (x1 - x0), edge)) * ax.figure.dpi / 72)
    return _End(tuple(place), edge, np.clip(edge, low + 9, high - 6), x[last + 1] > right)


def _apart(heights):
    """Heights moved by as little as leaves LABEL_GAP between any two."""
    order = np.argsort(heights, kind="stable")
    placed = np.array(heights, float)[order]
    for _ in range(200):  # overlapping neighbours are pushed apart by equal parts
        overlap = np.maximum(LABEL_GAP - np.diff(placed), 0)
        if overlap.max(initial=0) < 0.05:
            break
        placed[:-1] -= overlap / 2
        placed[1:] += overlap / 2
    out = np.empty(len(placed))
    out[order] = placed
    return [float(height) for height in out]


def _kind(value):
    return "None" if value is None else f"{'an' if type(value).__name__[0] in 'aeiouAEIOU' else 'a'} {type(value).__name__}"


def _tag(element):
    return element.tag.rpartition("}")[2]


def _elements(parent, definitions, used):
    """The strings of the visible elements below `parent`; what they refer to is added to `used`."""
    for element in parent:
        tag = _tag(element)
        if tag in ("metadata", "defs"):
            continue
        if tag == "g":
            inner = list(_elements(element, definitions, used))
            attributes = _attributes(element, definitions, used)
            if inner and attributes:
                yield f"<g{attributes}>{''.join(inner)}</g>"
            else:
                yield from inner
        elif tag == "text":
            words = "".join(element.itertext()).strip()
            spans = "".join(_span(span) for span in element if _tag(span) == "tspan")
            if spans:  # mathtext: every letter has its place
                yield f"<text{_attributes(element, definitions, used)}>{spans}</text>"
            elif words:
                yield f"<text{_attributes(element, definitions, used)}>{_shifted(html.escape(words, quote=False))}</text>"
        else:
            if tag == "path" and _invisible(element):
                continue
            if tag == "use" and _invisible(definitions[element.get(XLINK)[1:]]):
                continue
            yield f"<{tag}{_attributes(element, definitions, used)}/>"


def _span(span):
    """A letter or more of mathtext, at their places and in their size and style; their colour is that of the group around them."""
    places = "".join(f" {name}='{' '.join(_number(float(part)) for part in span.get(name).split())}'" for name in ("x", "y") if span.get(name))
    style = _style(span)
    slanted = re.search("italic|oblique", style.get("font-style", "") + style.get("font", ""))
    inks = _inks({name: value for name, value in style.items() if name in ("font", "font-size", "font-weight")})
    look = "".join(f" {name}='{value}'" for name, value in inks.items()) + (" font-style='italic'" if slanted else "")
    return f"<tspan{places}{look}>{html.escape(span.text or '', quote=False)}</tspan>"


def _invisible(path):
    style = _style(path)
    nothing = style.get("fill") == "none" and style.get("stroke", "none") == "none"
    return nothing or len(set(re.findall(r"[-\d.e]+ [-\d.e]+", path.get("d", "")))) < 2


def _attributes(element, definitions, used):
    """An element's attributes as a string, with short numbers, inks of the page and references to `used` definitions."""
    out = {}
    for name, value in element.attrib.items():
        if name == "d":
            out["d"] = short_path(value)
        elif name in ("x", "y", "width", "height"):
            out[name] = _number(float(value))
        elif name == "transform":
            if short := _transform(value):
                out[name] = short
        elif name == "clip-path":
            out[name] = f"url(#{_refer(value[5:-1], definitions, used)})"
        elif name == XLINK:
            out["href"] = "#" + _refer(value[1:], definitions, used) if value.startswith("#") else value
        elif name not in ("id", "style"):
            out[name.rpartition("}")[2]] = value
    out.update(_inks(_style(element)))
    if _tag(element) == "image":
        out["preserveAspectRatio"] = "none"
    return "".join(f" {name}='{value}'" for name, value in out.items())


def _refer(name, definitions, used):
    """The new id of a definition, made from its content, which is added to `used`."""
    element = definitions[name]
    tag, inner, attributes = _tag(element), "".join(_elements(element, definitions, used)), _attributes(element, definitions, used)
    new = ID + hashlib.sha256(f"{tag}{attributes}>{inner}".encode()).hexdigest()[:6]
    used[new] = f"<{tag} id='{new}'{attributes}>{inner}</{tag}>"
    return new


def _style(element):
    pairs = (pair.partition(":") for pair in element.get("style", "").split(";") if pair.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _inks(style):
    """A style as presentation attributes: sentinel colours become the page's, fonts are left to the page."""
    out = {}
    for name, value in style.items():
        if name == "font":  # the short form: weight, size and family in one
            size = re.search(r"([\d.]+)px", value)
            out["font-size"] = _number(float(size[1]))
            if "bold" in value or re.search(r"\b[6-9]00\b", value):
                out["font-weight"] = "bold"
        elif name == "font-size":
            out[name] = _number(float(value.removesuffix("px")))
        elif name == "stroke-dasharray":
            out[name] = " ".join(_number(float(part)) for part in value.split(","))
        elif name in ("fill", "stroke"):
            out[name] = "currentColor" if value in SHADES else NAMES.get(value, value)
            shade = SHADES.get(value, 1.0) * float(style.get(f"{name}-opacity", 1))
            if shade < 1:
                out[f"{name}-opacity"] = f"{shade:.3g}"
        elif name in ("stroke-width", "stroke-dashoffset", "stroke-miterlimit"):
            out[name] = f"{float(value):.3g}"
        elif name not in ("font-family", "fill-opacity", "stroke-opacity", "line-height"):
            out[name] = value
    for name in ("fill", "stroke"):  # black is left out by matplotlib, its opacity is not
        if f"{name}-opacity" in style and name not in style:
            out[f"{name}-opacity"] = f"{float(style[f'{name}-opacity']):.3g}"
    for name, value in (("stroke-dashoffset", "0"), ("text-anchor", "start"), ("stroke-linejoin", "round"), ("stroke-linecap", "butt")):
        if out.get(name) == value:
            del out[name]
    if out.get("stroke", "none") == "none":
        out.pop("stroke", None)
    return out


def _shifted(words):
    """Lowers what follows an underscore and raises what follows a caret: one letter, or a group in braces."""
    out, back = [], ""
    for piece in SHIFTED.split(words):
        if SHIFTED.fullmatch(piece):
            there, back = (".28em", "-.21em") if piece[0] == "_" else ("-.45em", ".34em")
            out.append(f"<tspan dy='{there}' font-size='75%'>{piece[1:].strip('{}')}</tspan>")
        elif piece:
            out.append(f"<tspan dy='{back}'>{piece}</tspan>" if back else piece)
            back = ""
    return "".join(out)


def _number(value):
    """A coordinate to a tenth of a unit, in as few characters as can be."""
    return _tenths(round(10 * value))


def _tenths(n):
    sign, n = ("-", -n) if n < 0 else ("", n)
    whole, part = divmod(n, 10)
    return sign + (str(whole) if whole or not part else "") + (f".{part}" if part else "")


def _transform(value):
    """A transformation with places and angles to a tenth; rotations by nothing are left out."""
    def short(part):
        numbers = [_number(float(number)) for number in re.split(r"[ ,]+", part[2].strip())]
        return "" if part[1] == "rotate" and numbers[0] == "0" else f"{part[1]}({' '.join(numbers)})"

    return re.sub(r"(translate|rotate)\(([^)]*)\)", short, value).strip()


def short_path(d):
    """Path data with coordinates to a tenth, relative to the point before, without the points that a straight line passes."""
    out, line = [], []
    here = start = (0, 0)

    def flush():
        nonlocal here
        if len(line) > 1:
            steps = [_tenth(point) for point in _straightened(line)]
            moves = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(steps, steps[1:])]
            if moves := [move for move in moves if move != (0, 0)]:
                out.append("l" + _join(moves))
            here = steps[-1]
        line.clear()

    for command, numbers in re.findall(r"([MLCQzZ])([^MLCQzZ]*)", d):
        values = [float(number) for number in numbers.split()]
        points = list(zip(values[::2], values[1::2]))
        if command == "L":
            line += points
            continue
        flush()
        if command == "M":
            out.append("M" + _join([_tenth(points[-1])]))
            start = here = _tenth(points[-1])
        elif command in "CQ":
            out.append(command.lower() + _join([(x - here[0], y - here[1]) for x, y in map(_tenth, points)]))
            here = _tenth(points[-1])
        else:
            out.append("z")
            here = start
        line.append(points[-1] if points else (here[0] / 10, here[1] / 10))
    flush()
    return "".join(out)


def _straightened(points, tolerance=0.07):
    """The points of a polyline that are needed to stay within a tolerance of it (Ramer 1972, Douglas and Peucker 1973)."""
    xy = np.array(points)
    keep = np.zeros(len(xy), bool)
    keep[[0, -1]] = True
    stack = [(0, len(xy) - 1)]
    while stack:
        first, last = stack.pop()
        if last - first < 2:
            continue
        along = xy[last] - xy[first]
        apart = xy[first + 1:last] - xy[first]
        length = along @ along
        share = np.clip(apart @ along / length, 0, 1) if length > 0 else np.zeros(len(apart))
        distance = np.hypot(*(apart - share[:, None] * along).T)
        if distance.max() > tolerance:
            middle = first + 1 + int(distance.argmax())
            keep[middle] = True
            stack += [(first, middle), (middle, last)]
    return [point for point, kept in zip(points, keep) if kept]


def _tenth(point):
    return round(10 * point[0]), round(10 * point[1])


def _join(points):
    text = " ".join(_tenths(n) for point in points for n in point)
    return text.replace(" -", "-")
