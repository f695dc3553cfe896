"""The look of figures: contrast, labels, and the SVG and PNG that they become."""

import io
import itertools
import re
import warnings
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

import matplotlib.pyplot as plt
from PIL import Image

from unrolled import plots

DARK_PAGE = "#121212"


pytestmark = pytest.mark.usefixtures("style")


@pytest.fixture
def shown(monkeypatch):
    """The bundles that were displayed."""
    bundles = []
    monkeypatch.setattr(plots, "display", lambda bundle, raw: bundles.append(bundle))
    return bundles


def luminance(colour):
    channels = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def svg(fig):
    """The parsed SVG of a figure, which is closed."""
    try:
        return ElementTree.fromstring(plots.draw(fig).svg("seen"))
    finally:
        plt.close(fig)


def texts(fig):
    return {"".join(text.itertext()): text for text in svg(fig).iter("text")}


# Colours


def test_contrast_formula():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", plots.COLOURS)
def test_series_colours_stand_out(name):
    assert contrast(plots.COLOURS[name], "#ffffff") >= 4.5  # they colour words
    assert contrast(plots.COLOURS[name], DARK_PAGE) >= 3  # where the page's theme is not known
    assert contrast(plots.DARK[name], DARK_PAGE) >= 4.5


@pytest.mark.parametrize("colours", [plots.COLOURS, plots.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("blindness", [
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],  # protanopia
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],  # deuteranopia
], ids=["protanopia", "deuteranopia"])
def test_first_three_colours_differ_for_colour_blind_eyes(colours, blindness):
    """Machado, Oliveira and Fernandes (2009), severity 1."""
    seen = [np.array(blindness) @ matplotlib.colors.to_rgb(colour) for colour in list(colours.values())[:3]]
    for a, b in itertools.combinations(seen, 2):
        assert np.linalg.norm(a - b) > 0.15


def test_dark_names_are_the_light_ones():
    assert list(plots.DARK) == list(plots.COLOURS)
    for name, value in plots.COLOURS.items():
        assert f"--u-{name}:{value}" in plots.STYLE and f"--u-{name}:{plots.DARK[name]}" in plots.STYLE


def test_ink_names_the_colours_it_knows():
    assert plots.ink("blue") == plots.COLOURS["blue"]
    with pytest.raises(ValueError, match="colour is 'red'; expected one of blue, vermillion"):
        plots.ink("red")


# The SVG


def curves():
    fig, ax = plots.axes("lag T − k", "‖∂h_T/∂h_{k−1}‖ & <1>", xlim=(0, 50), ylim=(1e-6, 1), ylog=True)
    lag = np.arange(51)
    plots.curve(ax, lag, 0.9**lag, "ρ = 0.9")
    plots.curve(ax, lag, 0.8**lag, "ρ = 0.8", "vermillion", "--", marker="o", markevery=10)
    return fig


def test_svg_is_clean():
    page = plots.with_ids(plots.draw(curves()).svg("It's <seen> & \"said\""))
    plt.close("all")
    root = ElementTree.fromstring(page)
    assert (root.get("role"), root.get("aria-label")) == ("img", "It's <seen> & \"said\"")
    assert root.get("viewBox") == "0 0 388.8 237.6"
    for word in ("<?xml", "<!DOCTYPE", "<metadata", "<style", "matplotlib", "DejaVu", "http", "xlink", "nan"):
        assert word not in page
    ids = re.findall(r" id='([^']+)'", page)
    used = set(re.findall(r"#([\w-]+)[)']", page))
    assert len(ids) == len(set(ids)) and set(ids) == used and used
    assert max(len(number.partition(".")[2]) for number in re.findall(r"\d+\.\d+", re.sub(r" [\w-]*opacity='[^']*'", "", page))) == 1


def test_svg_colours_follow_the_page():
    page = plots.draw(curves()).svg("seen")
    plt.close("all")
    colours = set(re.findall(r" (?:fill|stroke)='([^']+)'", page))
    assert colours == {"none", "currentColor", "var(--u-blue)", "var(--u-vermillion)"}


def test_svg_of_a_plain_matplotlib_figure_follows_the_page():
    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        matplotlib.use("agg")
        fig, ax = plt.subplots()
        ax.plot([0, 1], color="black")
        ax.fill_between([0, 1], [0, 1], color="black")  # matplotlib leaves a black fill out
        root = svg(fig)
    assert root.get("fill") == "currentColor"
    assert not any("#000" in value for element in root.iter() for value in element.attrib.values())
    assert not any("#fff" in value for element in root.iter() for value in element.attrib.values())


def test_weak_ink_is_ink_with_opacity():
    fig, ax = plots.axes()
    ax.plot([0, 1], color=plots.MUTED, alpha=0.5)
    root = svg(fig)
    assert any(path.get("stroke-opacity") == "0.36" and path.get("stroke") == "currentColor" for path in root.iter("path"))


def test_lowered_and_raised_letters():
    label = texts(curves())["‖∂hT/∂hk−1‖ & <1>"]
    spans = [(span.text, span.get("dy"), span.get("font-size")) for span in label.iter("tspan")]
    assert spans == [("T", ".28em", "75%"), ("/∂h", "-.21em", None), ("k−1", ".28em", "75%"), ("‖ & <1>", "-.21em", None)]
    assert plots._shifted("w^T x") == "w<tspan dy='-.45em' font-size='75%'>T</tspan><tspan dy='.34em'> x</tspan>"
    assert plots._shifted("no_") == "no_"


def places(label):
    return [(span.text, *(float(span.get(name).split()[0]) for name in ("x", "y", "font-size"))) for span in label.iter("tspan")]


def test_mathtext_of_ticks_keeps_its_places():
    fig, ax = plt.subplots()
    ax.semilogy([1e-3, 1e5])
    ax.set_yticks([1e-3, 1e5])
    label = next(text for words, text in texts(fig).items() if words == "105")
    letters = "".join(span.text for span in label.iter("tspan"))
    assert letters == "105" and "".join(label.itertext()) == letters  # no spaces of the source
    base, exponent = places(label)[0], places(label)[-1]
    assert exponent[1] > base[1] + 5 and exponent[2] < base[2] - 3 and exponent[3] == pytest.approx(0.7 * base[3], abs=0.1)


def test_mathtext_of_a_title_keeps_its_places_size_and_slant():
    fig, ax = plots.axes()
    ax.set_title(r"$\frac{a}{b}$ & <c>")
    label = next(text for words, text in texts(fig).items() if "<c>" in words.replace(" ", ""))
    found = {letter: (x, y, size) for letter, x, y, size in places(label)}
    assert found["a"][1] < found["b"][1] - 5  # a stands above b
    assert {span.get("font-style") for span in label.iter("tspan") if span.text in "ab"} == {"italic"}
    assert {span.get("font-style") for span in label.iter("tspan") if span.text in "&<"} == {None}


@pytest.mark.parametrize("title", ["$h_t$", "$h_t$ and w_t", "costs $5, h_t", r"costs \$5, h_t", "h_t\n$h_t$", r"$\frac{h_t}{h_{t-1}}$"])
def test_png_takes_words_with_dollars(title):
    fig, ax = plots.axes()
    ax.set_title(title)
    assert Image.open(io.BytesIO(plots.png(fig))).format == "PNG"
    assert ax.get_title(loc="left") == title
    plt.close(fig)


def test_in_mathtext():
    assert plots._in_mathtext("h_t") == r"h$_{\mathregular{t}}$"
    assert plots._in_mathtext("$h_t$ w_t") == "$h_t$ w_t"
    assert plots._in_mathtext("$5 h_t") == r"\$5 h$_{\mathregular{t}}$"


def test_letters_that_matplotlib_lacks_give_no_warning():
    fig, ax = plots.axes("語")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "語" in texts(fig)


def test_draw_is_the_same_each_time():
    assert plots.draw(curves()) == plots.draw(curves())
    assert plots.png(curves()) == plots.png(curves())
    plt.close("all")


def test_ids_come_from_the_content():
    assert plots.with_ids(f"a {plots.ID}1") == plots.with_ids(f"a {plots.ID}1")
    assert plots.with_ids(f"a {plots.ID}1")[2:] != plots.with_ids(f"b {plots.ID}1")[2:]


# Paths


def ends(path):
    """The corners of a path of ours, by walking it."""
    here, out = np.zeros(2), []
    for command, body in re.findall(r"([Mlz])([^Mlz]*)", path):
        numbers = np.array([float(n) for n in re.findall(r"-?(?:\d+\.\d+|\.\d+|\d+)", body)]).reshape(-1, 2)
        for pair in numbers:
            here = pair if command == "M" else here + pair
            out.append(here)
    return np.array(out)


def test_short_path():
    assert plots.short_path("M 10 10 \nL 20 10 \nL 30 10 \nL 30 -5.25 \nz\n") == "M10 10l20 0 0-15.2z"
    assert plots.short_path("M 0 0 \nC 1 1 2 2 3.04 3") == "M0 0c1 1 2 2 3 3"
    assert plots.short_path("M 0 0 \nL 0 0.01 \nM 5 5 \nL 6 5") == "M0 0M5 5l1 0"
    assert plots.short_path("M 0 0 \nL 1 0 \nL 1 1 \nz\nL 2 2") == "M0 0l1 0 0 1zl2 2"
    assert plots.short_path("M 5 5 \nL 6 5 \nL 6 6 \nz\nL 7 8") == "M5 5l1 0 0 1zl2 3"  # z leads back to the start
    assert plots.short_path("M 5 5 \nL 6 5 \nL 6 6 \nz\nC 6 6 7 7 8 8") == "M5 5l1 0 0 1zc1 1 2 2 3 3"


@pytest.mark.parametrize("seed", range(5))
def test_short_path_stays_within_two_tenths(seed):
    rng = np.random.default_rng(seed)
    points = np.c_[np.linspace(40, 340, 200), 100 + np.cumsum(rng.normal(0, 2, 200))]
    path = "M " + "L ".join(f"{x:.6f} {y:.6f} \n" for x, y in points)
    short = ends(plots.short_path(path))
    assert len(short) < 200
    assert np.abs(np.interp(points[:, 0], *short.T) - points[:, 1]).max() < 1.2 * np.abs(np.gradient(points[:, 1], points[:, 0])).max() * 0.1 + 0.2
    np.testing.assert_allclose(short[[0, -1]], points[[0, -1]], atol=0.051)


def test_straight_line_keeps_its_ends_alone():
    path = "M 0 0 \n" + "".join(f"L {3.3 * k:.6f} {1.7 * k:.6f} \n" for k in range(1, 100))
    assert len(ends(plots.short_path(path))) == 2


# Axes, ticks, labels


@pytest.mark.parametrize("n, written", [(0, "1"), (1, "10"), (-1, "0.1"), (2, "10²"), (-12, "10⁻¹²"), (34567890, "10³⁴⁵⁶⁷⁸⁹⁰")])
def test_power(n, written):
    assert plots.power(n) == written


@pytest.mark.parametrize("value, digits, written", [
    (0.9, 2, "0.9"), (-1.234, 2, "−1.2"), (4.2e-5, 1, "4\u00a0×\u00a010⁻⁵"), (1e-7, 2, "10⁻⁷"), (-1e-7, 2, "−10⁻⁷"), (1234, 2, "1200"), (0, 2, "0"),
    (3.46e12, 2, "3.5\u00a0×\u00a010¹²"), (0.0004, 1, "0.0004"), (np.float32(0.1), 3, "0.1"), (float("inf"), 2, "inf"), (99999, 1, "100000"),
    (1e5, 2, "100000"), (1e6, 2, "10⁶"), (-0.0, 2, "0"),
])
def test_number(value, digits, written):
    assert plots.number(value, digits) == written


@pytest.mark.parametrize("call, error, words", [
    (lambda ax: plots.superscript(1.5), TypeError, "superscript: n is 1.5, a float; expected an integer"),
    (lambda ax: plots.ink(["blue"]), TypeError, r"colour is \['blue'\], a list; expected a name of the course: blue"),
    (lambda ax: plots.curve(ax, [0, 1], [0, 1], colour=(0, 0, 1)), TypeError, r"colour is \(0, 0, 1\), a tuple; expected a name"),
    (lambda ax: plots.log_ticks(ax, "z"), ValueError, "log_ticks: axis is 'z'; expected \"x\" or \"y\""),
    (lambda ax: plots.axes(xlim=1), TypeError, r"axes: xlim is 1; expected two numbers, as in xlim=\(0, 60\)"),
    (lambda ax: plots.axes(ylim=(1, 2, 3)), TypeError, r"axes: ylim is \(1, 2, 3\); expected two numbers"),
])
def test_wrong_arguments(call, error, words):
    fig, ax = plots.axes()
    with pytest.raises(error, match=words):
        call(ax)
    plt.close(fig)


def test_log_ticks_are_few_and_in_unicode():
    written = [text for text in texts(curves()) if re.fullmatch("1|0.1|10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", text)]
    assert 3 <= len(written) <= 7 and "10⁻⁶" in written


def label_heights(*ends, ylim=(0, 10)):
    fig, ax = plots.axes(xlim=(0, 1), ylim=ylim)
    for index, end in enumerate(ends):
        plots.curve(ax, [0, 0.5, 1], [5, 5, end], f"curve {index}")
    found = texts(fig)
    return [float(found[f"curve {index}"].get("y")) for index in range(len(ends)) if f"curve {index}" in found]


def test_labels_of_curves_keep_apart_and_in_order():
    heights = label_heights(5.0, 5.1, 5.2, 1.0)
    assert heights[0] > heights[1] > heights[2]  # SVG counts downwards
    gaps = np.diff(sorted(heights))
    assert gaps.min() > plots.LABEL_GAP - 0.5


def test_label_stands_at_the_end_of_its_curve():
    (low,), (high,) = label_heights(1.0), label_heights(9.0)
    assert low - high == pytest.approx(0.8 * 72 * plots.HEIGHT * (0.89 - 0.15), abs=1)


def test_label_of_a_curve_that_leaves_stands_where_it_leaves():
    fig, ax = plots.axes(xlim=(0, 10), ylim=(0, 10))
    plots.curve(ax, [0, 10], [0, 40], "up")
    plots.curve(ax, [0, 10], [5, 5], "stays")
    plots.curve(ax, [0, 10], [5, -20], "down")
    found = texts(fig)
    top, bottom = 0.11 * 72 * plots.HEIGHT, 0.85 * 72 * plots.HEIGHT
    assert top + 6 < float(found["up"].get("y")) < top + 15  # its baseline, below the top of the axes
    assert bottom - 10 < float(found["down"].get("y")) < bottom - 3  # and above the bottom
    left, right = float(found["up"].get("x")), float(found["stays"].get("x"))
    axis = right - 7 - 0.11 * 388.8
    assert left - 7 - 0.11 * 388.8 == pytest.approx(axis / 4, abs=1)


def test_label_of_a_curve_out_of_sight_is_not_drawn():
    assert label_heights(5.0) and not texts_of_unseen()


def texts_of_unseen():
    fig, ax = plots.axes(xlim=(0, 1), ylim=(0, 1))
    plots.curve(ax, [0, 1], [5, 5], "unseen")
    return "unseen" in texts(fig)


def test_curve_with_values_that_are_not_numbers():
    fig, ax = plots.axes(xlim=(0, 3), ylim=(0, 3))
    plots.curve(ax, [0, 1, 2, 3], [1, 2, np.nan, np.inf], "ends early")
    assert "ends early" in texts(fig)


def test_room_is_made_for_the_longest_label():
    fig, ax = plots.axes(xlim=(0, 1))
    plots.curve(ax, [0, 1], [0, 1], "a label of some length")
    box = ax.get_position()
    assert box.x1 * 388.8 + 7 + 5.5 * len("a label of some length") < 388.8
    plots.curve(ax, [0, 1], [1, 1], "short")
    assert ax.get_position().x1 == box.x1
    plt.close(fig)


def test_baseline_spans_the_axes():
    fig, ax = plots.axes(xlim=(2, 8), ylim=(0, 1))
    assert tuple(plots.baseline(ax, 1 / 6, "mean: 1/6").get_xdata()) == (2, 8)
    assert "mean: 1/6" in texts(fig)


def test_diagram():
    fig, ax = plots.diagram(6, 3)
    plots.node(ax, 1, 1, "h_1", "blue")
    plots.node(ax, 3, 1, "h_2")
    plots.arrow(ax, (1, 1), (3, 1), "W")
    root = svg(fig)
    assert root.get("viewBox") == "0 0 388.8 194.4"
    assert {"".join(text.itertext()) for text in root.iter("text")} == {"h1", "h2", "W"}
    assert not any(element.tag == "path" and element.get("stroke") is None and element.get("fill") == "none" for element in root.iter())


# show and describe


def test_show_gives_one_bundle_and_closes_the_figure(shown):
    plots.show(curves(), "Two straight lines fall;\n the lower is steeper.")
    (bundle,) = shown
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    assert bundle["text/plain"] == "Figure: Two straight lines fall; the lower is steeper."
    assert "aria-label='Two straight lines fall; the lower is steeper.'" in bundle["text/html"]
    assert plots.ID not in bundle["text/html"]
    assert not plt.get_fignums()


def test_png_is_small_opaque_and_bare(shown):
    plots.show(curves(), "seen")
    data = shown[0]["image/png"]
    image = Image.open(io.BytesIO(data))
    assert len(data) < 16_000 and image.width < 500
    assert image.info == {}
    pixels = np.asarray(image.convert("RGB"))
    assert (pixels[0, 0] == 255).all() and pixels.min() < 60


def test_png_leaves_the_words_as_they_were():
    fig = curves()
    before = plots.draw(fig)
    plots.png(fig)
    assert plots.draw(fig) == before
    plt.close(fig)


def test_no_break_spaces_of_a_description_stay(shown):
    plots.show(curves(), f" It is {plots.number(4e-5)}\r\n\there. ")
    assert shown[0]["text/plain"] == "Figure: It is 4\u00a0×\u00a010⁻⁵ here."


def test_show_takes_the_description_that_the_figure_has(shown):
    plots.show(plots.describe(curves(), "seen before"))
    assert shown[0]["text/plain"] == "Figure: seen before"


@pytest.mark.parametrize("call, error, words", [
    (lambda fig: plots.show(fig), ValueError, "show: the figure has no description"),
    (lambda fig: plots.show(fig, " "), ValueError, "describe: text is ' '; expected a sentence"),
    (lambda fig: plots.show(fig.axes[0], "seen"), TypeError, "show: fig is an Axes; expected a matplotlib figure"),
    (lambda fig: plots.describe(None, "seen"), TypeError, "describe: fig is None; expected a matplotlib figure"),
    (lambda fig: plots.describe(fig, 3), ValueError, "describe: text is 3; expected"),
])
def test_errors(call, error, words):
    fig = curves()
    with pytest.raises(error, match=words):
        call(fig)
    plt.close(fig)
