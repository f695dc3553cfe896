"""Interactive figures: the store and its frames, weight, errors, the live form, and the stored form in a real browser."""

import gzip
import hashlib
import html
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

import matplotlib.pyplot as plt

from unrolled import explore as module
from unrolled import plots
from unrolled.explore import explore, texts


pytestmark = pytest.mark.usefixtures("style")


@pytest.fixture
def shown(monkeypatch):
    """What was displayed, in static mode."""
    out = []
    monkeypatch.setenv("UNROLLED_STATIC", "1")
    monkeypatch.setattr(module, "display", lambda value, **_: out.append(value))
    return out


def decay(rho):
    lag = np.arange(61)
    fig, ax = plots.axes("lag", "norm", xlim=(0, 60), ylim=(1e-9, 1e3), ylog=True)
    plots.curve(ax, lag, rho**lag, f"ρ = {rho}")
    return plots.describe(fig, f"With rho {rho} the norm {'falls' if rho < 1 else 'does not fall'}.")


def wave(rate, shape):
    x = np.linspace(0, 1, 50)
    fig, ax = plots.axes(xlim=(0, 1), ylim=(-1, 1))
    plots.curve(ax, x, np.sin(rate * x) if shape == "sine" else np.sign(np.sin(rate * x)), shape)
    return plots.describe(fig, f"A {shape} wave at rate {rate}.")


def letters(word):
    fig, ax = plots.axes(ylim=(90, 125))
    ax.plot([ord(letter) for letter in word])
    return plots.describe(fig, f"The codes of “{word}” & </script> its <b>letters</b>.")


def bundle(function, start=None, **controls):
    return module.stored(function, module._controls(function, start, controls))


def store(page):
    (data,) = re.findall(r"<script type='application/json'>(.*?)</script>", page, re.S)
    return json.loads(data)


# The store


def prefixed(page, svg):
    """An SVG with the ids that stand in a page."""
    (prefix,) = set(re.findall(r"id='(u[0-9a-f]{8}-)", page))
    return svg.replace(plots.ID, prefix)


@pytest.mark.parametrize("function, controls", [
    (decay, {"rho": [0.5, 0.9, 1.1]}),
    (wave, {"rate": [1, 5, 9], "shape": ["sine", "square"]}),
    (letters, {"word": texts("abc", "zyx")}),
], ids=["number", "number and choice", "text"])
def test_every_frame_is_rebuilt_from_the_store(function, controls):
    page = bundle(function, **controls)["text/html"]
    kept = store(page)
    names = list(controls)
    sizes = [len(values) for values in controls.values()]
    assert len(kept["frames"]) == len(kept["descriptions"]) == np.prod(sizes)
    for place in np.ndindex(*sizes):
        frame = int(np.ravel_multi_index(place, sizes))
        fig = function(**{name: controls[name][index] for name, index in zip(names, place)})
        rebuilt = "".join(kept["parts"][part] for part in kept["frames"][frame])
        assert rebuilt == prefixed(page, "".join(plots.draw(fig).parts))
        assert kept["descriptions"][frame] == fig.description
        plt.close(fig)


def test_shared_parts_are_kept_once():
    kept = store(bundle(decay, rho=[0.5, 0.9, 1.1])["text/html"])
    assert len(kept["parts"]) == len(set(kept["parts"]))
    common = set.intersection(*map(set, kept["frames"]))
    assert len(common) > 15 and all(len(frame) - len(common) < 5 for frame in kept["frames"])


def test_the_setting_shown_first_is_drawn_in_the_page():
    page = bundle(wave, {"rate": 9, "shape": "square"}, rate=[1, 5, 9], shape=["sine", "square"])["text/html"]
    kept = store(page)
    assert kept["first"] == 5
    first = "".join(kept["parts"][part] for part in kept["frames"][5])
    assert f">{first}</svg>" in page
    assert "<p class='u-setting'>rate = 9, shape = square</p>" in page
    assert "<p class='u-description' aria-live='polite'>A square wave at rate 9.</p>" in page
    assert "value='2' aria-valuetext='9'" in page and "<option value='1' selected>square</option>" in page


@pytest.mark.parametrize("controls, first", [
    ({"rho": [0.1, 0.2, 0.3]}, "rho 0.2"), ({"rho": [0.1, 0.2, 0.3, 0.4]}, "rho 0.3"), ({"rho": range(1, 6)}, "rho 3"),
])
def test_by_default_the_middle_number_is_shown(controls, first):
    assert f"aria-label='With {first} " in bundle(decay, **controls)["text/html"]


class Balance(HTMLParser):
    """Notes tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("input",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_words_cannot_break_the_page():
    page = bundle(letters, word=texts("a<!--b", "it's \"x\"", "</script>"))["text/html"]
    parser = Balance()
    parser.feed(page)
    assert not parser.wrong and not parser.open
    assert page.count("</script>") == 2
    assert store(page)["controls"][0]["words"] == ["a<!--b", "it's \"x\"", "</script>"]
    assert f"<option value='1'>{html.escape(chr(105) + chr(116) + chr(39))}s" in page


def test_a_description_cannot_open_a_comment_in_the_store():
    def figure(rho):
        fig = decay(rho)
        return plots.describe(fig, "It has <!--<script and more.")

    page = bundle(figure, rho=[0.5, 0.9])["text/html"]
    (data,) = re.findall(r"<script type='application/json'>(.*?)</script>", page, re.S)
    assert "<!" not in data and store(page)["descriptions"] == ["It has <!--<script and more."] * 2


def test_each_group_of_controls_is_named_by_its_controls():
    page = bundle(lambda rho, input_units: decay(rho), rho=[0.5, 0.9], input_units=[1, 2])["text/html"]
    assert "role='group' aria-label='Controls: ρ, input units'" in page


def test_controls_are_labelled_and_wait_for_the_script():
    page = bundle(wave, rate=[1, 5, 9], shape=["sine", "square"])["text/html"]
    assert re.search(r"<div class='u-controls' role='group' aria-label='Controls: rate, shape' hidden>", page)
    assert re.search(r"<label><span>rate</span><input type='range' min='0' max='2' step='1' value='1' aria-valuetext='5'", page)
    assert re.search(r"<label><span>shape</span><select", page)
    assert page.count("class='u-play'") == 1  # for numbers only


def test_nothing_is_fetched():
    page = bundle(decay, rho=[0.5, 0.9])["text/html"]
    assert not re.search(r"https?:|//|\bsrc=|@import|url\((?!#)", page)
    assert "currentScript" not in page


def test_text_names_controls_settings_and_descriptions():
    assert bundle(wave, rate=[1, 1e-5], shape=["sine", "square"])["text/plain"].split("\n") == [
        "Interactive figure. rate: 1, 10⁻⁵; shape: sine, square",
        "rate = 1, shape = sine | A sine wave at rate 1.",
        "rate = 1, shape = square | A square wave at rate 1.",
        "rate = 10⁻⁵, shape = sine | A sine wave at rate 1e-05.",
        "rate = 10⁻⁵, shape = square | A square wave at rate 1e-05.",
    ]


def test_png_is_of_the_setting_shown_first():
    fig = decay(1.1)
    assert bundle(decay, {"rho": 1.1}, rho=[0.5, 0.9, 1.1])["image/png"] == plots.png(fig)
    plt.close(fig)


@pytest.mark.parametrize("value, written", [
    (0.9, "0.9"), (np.float32(0.9), "0.9"), (0.1 + 0.2, "0.3"), (-1.5, "−1.5"), (2, "2"), (10**12 + 1, "1000000000001"),
    (np.int64(3), "3"), (1e-5, "10⁻⁵"), (2.5e-7, "2.5\u00a0×\u00a010⁻⁷"), (1e12, "10¹²"), ("abc", "abc"), ("", "(empty)"), ("a-b", "a-b"),
])
def test_printed(value, written):
    assert module.printed(value) == written


@pytest.mark.parametrize("name, label", [("rho", "ρ"), ("w", "w"), ("step_size", "step size"), ("sigma_max", "σ max"), ("ρ", "ρ")])
def test_labels(name, label):
    assert module.Control(name, "number", (1, 2), 0).label == label


@pytest.mark.parametrize("values", [[0.1, 0.25], (1, 2), np.array([0.5, 0.75], np.float32), range(2)])
def test_the_function_gets_the_values_given(values):
    got = []

    def figure(x):
        got.append(x)
        return decay(0.5)

    bundle(figure, x=values)
    assert got == list(values) and [type(x) for x in got] == [type(x) for x in values]


def test_jax_arrays_are_values_too():
    jnp = pytest.importorskip("jax.numpy")
    assert "x: 0.25, 0.5" in bundle(lambda x: decay(0.5), x=jnp.array([0.25, 0.5]))["text/plain"]


# Determinism and weight


def test_bytes_are_the_same_each_time():
    assert bundle(wave, rate=[1, 5], shape=["sine", "square"]) == bundle(wave, rate=[1, 5], shape=["sine", "square"])


def test_bytes_are_the_same_in_a_fresh_process():
    program = ("import sys, hashlib; sys.path.insert(0, sys.argv[1])\n"
               "import test_explore as t; t.plots.use_style()\n"
               "print(t.digest(t.bundle(t.wave, rate=[1, 5], shape=['sine', 'square'])))")
    fresh = subprocess.run([sys.executable, "-c", program, os.path.dirname(__file__)], capture_output=True, text=True, check=True,
                           env=dict(os.environ, PYTHONHASHSEED="7")).stdout
    assert fresh.strip() == digest(bundle(wave, rate=[1, 5], shape=["sine", "square"]))


def digest(output):
    return hashlib.sha256(repr(output).encode()).hexdigest()


def rough(rho, saturation):
    """Three lines of a hundred points with nothing in common."""
    rng = np.random.default_rng(int(1000 * rho) + saturation)
    fig, ax = plots.axes("lag", "norm", xlim=(0, 100), ylim=(-40, 40))
    for name, colour, line in (("a", "blue", "-"), ("b", "vermillion", "--"), ("c", "green", "-.")):
        plots.curve(ax, np.arange(101), np.cumsum(rng.normal(0, 3, 101)), name, colour, line)
    return plots.describe(fig, f"Three rough lines for rho {rho} and saturation {saturation}.")


@pytest.mark.slow
def test_sixty_three_settings_of_three_rough_lines_weigh_under_a_hundred_kilobytes():
    page = bundle(rough, rho=[round(0.6 + 0.1 * k, 1) for k in range(9)], saturation=range(7))["text/html"]
    assert len(gzip.compress(page.encode())) < module.HEAVIEST == 100_000


def test_too_heavy_a_figure_is_refused(monkeypatch):
    monkeypatch.setattr(module, "HEAVIEST", 5_000)
    with pytest.raises(ValueError, match=r"with its 3 settings weighs \d+ kB gzipped; expected at most 5 kB. Give fewer values"):
        bundle(lambda rho: rough(rho, 0), rho=[1, 2, 3])


# Wrong use


def bare(rho):
    return plots.axes()[0]


def nothing(rho):
    decay(rho)


def begins(start):
    return decay(start)


@pytest.mark.parametrize("call, error, words", [
    (lambda: explore(decay, rho=[0.5, 0.9], start={"rho": 0.7}), ValueError, r"start gives rho = 0.7; expected one of its values: 0.5, 0.9"),
    (lambda: explore(decay, rho=[0.5, 0.9], start={"w": 0.5}), ValueError, r"start names 'w'; expected a control of this figure: rho"),
    (lambda: explore(decay, rho=[0.5, 0.9], start=0.5), TypeError, r"start is 0.5; expected a dictionary, as in start=\{'rho': …\}"),
    (lambda: explore(decay), ValueError, r"controls given are none; expected one or two"),
    (lambda: explore(decay, rho=[1, 2], b=[1, 2], c=[1, 2]), ValueError, r"controls given are rho, b, c; expected one or two"),
    (lambda: explore(decay, rho=[]), ValueError, r"rho has no values: \[\]; expected at least two"),
    (lambda: explore(decay, rho=[1]), ValueError, r"rho has one value: \[1\]; expected at least two"),
    (lambda: explore(decay, rho=[1, 2, 1.0]), ValueError, r"rho has 1.0 twice; expected each value once"),
    (lambda: explore(decay, rho=[1, "2"]), TypeError, r"rho is \[1, '2'\]; expected numbers only or strings only"),
    (lambda: explore(decay, rho=[True, False]), TypeError, r"for yes and no write strings"),
    (lambda: explore(decay, rho=[1, np.nan]), ValueError, r"rho is \[1, nan\]; expected finite numbers"),
    (lambda: explore(decay, rho=0.5), TypeError, r"rho is 0.5; expected a list of numbers, a list of strings, or texts"),
    (lambda: explore(decay, rho="abc"), TypeError, r"rho is 'abc'; expected a list"),
    (lambda: explore(decay, w=[1, 2]), TypeError, r"decay\(rho\) can't be called with the controls w .*expected a function of exactly these, as in def decay\(w\)"),
    (lambda: explore(decay(0.5), rho=[1, 2]), TypeError, r"figure_function is .*expected a function that returns a matplotlib figure"),
    (lambda: explore(nothing, rho=[0.5, 0.9]), TypeError, r"nothing returned None for ρ = 0.5; expected a matplotlib figure. End the function with `return"),
    (lambda: explore(bare, rho=[0.5, 0.9]), ValueError, r"for ρ = 0.5, bare: the figure has no description"),
    (lambda: explore(begins, start=[0.5, 0.9]), TypeError, r"begins has a parameter `start`, but that name is taken .*Rename the parameter"),
    (lambda: explore(decay, rho={0.5, 0.9}), TypeError, r"rho is \{0\.\d, 0\.\d\}, a set, whose order is arbitrary; expected a list"),
    (lambda: explore(decay, rho=[0.3, 0.1 + 0.2]), ValueError, r"rho has 0.3 and 0.30000000000000004, which are both printed as 0.3"),
    (lambda: explore(letters, word=["(empty)", ""]), ValueError, r"word has '\(empty\)' and '', which are both printed as \(empty\)"),
    (lambda: explore(decay, rho=[1, 2], start={"rho": True}), ValueError, r"start gives rho = True; expected one of its values: 1, 2"),
    (lambda: texts("a", 1), TypeError, r"examples are \('a', 1\); expected strings"),
    (lambda: texts(), TypeError, r"examples are \(\); expected strings"),
])
def test_errors(shown, call, error, words):
    try:
        with pytest.raises(error, match=words):
            call()
        assert not shown
    finally:
        plt.close("all")


# The live form


def live(function, start=None, **controls):
    box = module.live(function, module._controls(function, start, controls))
    return *box.children[0].children, box.children[1]


def test_a_live_kernel_gets_widgets(monkeypatch):
    import ipywidgets

    out = []
    monkeypatch.delenv("UNROLLED_STATIC", raising=False)
    monkeypatch.setattr(module, "display", lambda value, **_: out.append(value))
    explore(decay, rho=[0.5, 0.9])
    assert len(out) == 1 and isinstance(out[0], ipywidgets.VBox)


def test_a_stored_notebook_gets_one_bundle(shown):
    explore(decay, rho=[0.5, 0.9])
    assert len(shown) == 1 and set(shown[0]) == {"text/html", "image/png", "text/plain"}


def test_live_controls_redraw():
    import ipywidgets

    rate, shape, picture = live(wave, {"rate": 5}, rate=[1, 5, 9], shape=["sine", "square"])
    assert isinstance(rate, ipywidgets.SelectionSlider) and isinstance(shape, ipywidgets.Dropdown)
    assert "A sine wave at rate 5.</p>" in picture.value
    before = re.search("<svg.*</svg>", picture.value)[0]
    rate.value = 9
    assert "A sine wave at rate 9.</p>" in picture.value and re.search("<svg.*</svg>", picture.value)[0] != before
    shape.value = "square"
    assert "A square wave at rate 9.</p>" in picture.value
    rate.value, shape.value = 5, "sine"
    assert re.search("<svg.*</svg>", picture.value)[0] == before


def test_live_text_is_free():
    import ipywidgets

    word, picture = live(letters, word=texts("abc", "zyx"))
    assert isinstance(word, ipywidgets.Combobox) and word.options == ("abc", "zyx")
    word.value = "a word that was not offered"
    assert picture.value.count("“a word that was not offered” &amp; &lt;/script&gt; its &lt;b&gt;") == 2  # the picture's label and the text


def test_live_error_is_shown_and_outlived():
    def half(rho):
        print("drawing", rho)
        fig = decay(rho)
        if rho > 1:
            raise ZeroDivisionError("rho is <too> large")
        return fig

    rho, picture = live(half, rho=[0.5, 0.9, 1.1])
    assert "<pre>drawing 0.9\n</pre>" in picture.value
    rho.value = 1.1
    assert "No figure for ρ = 1.1." in picture.value and "ZeroDivisionError: rho is &lt;too&gt; large (line " in picture.value
    assert " of half)" in picture.value and "<svg" not in picture.value
    rho.value = 0.5
    assert "With rho 0.5 the norm falls." in picture.value and "No figure" not in picture.value


def test_live_figure_that_is_not_returned_says_so():
    _, picture = live(nothing, rho=[0.5, 0.9])
    assert "expected a matplotlib figure. End the function with `return describe(" in picture.value


# In a browser


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    import browser

    with sync_api.sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=browser.find(), args=browser.FLAGS)
        yield program
        program.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A bare page with three figures: one slider; a slider and a choice; texts."""
    with matplotlib.rc_context():
        plots.use_style()
        figures = [bundle(decay, {"rho": 0.9}, rho=[0.5, 0.7, 0.9, 1.1]), bundle(wave, shape=["sine", "square"], rate=[1, 5, 9]),
                   bundle(letters, word=texts("abc", "zyx"))]
    path = tmp_path_factory.mktemp("page") / "page.html"
    body = "".join(figure["text/html"] for figure in figures)
    path.write_text("<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>Figures</title>"
                    "<style>body{font:16px sans-serif}html[data-theme=dark]{background:#121212;color:#ced6dd}</style>"
                    f"<main><h1>Figures</h1>{body}</main>", encoding="utf-8")
    return path


@pytest.fixture
def opened(chromium, page_file):
    """Opens the page, with the network cut; fails on anything written to the console and on any other request."""
    contexts, said = [], []

    def open_page(**options):
        context = chromium.new_context(**options)
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if request.url != page_file.as_uri() else None)
        page.goto(page_file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def state(figure):
    return (figure.locator("svg.u-plot").inner_html(), figure.locator("svg.u-plot").get_attribute("aria-label"),
            figure.locator(".u-description").inner_text())


@pytest.mark.browser
def test_arrow_keys_redraw(opened):
    page = opened()
    first, second = page.locator(".u-explore").nth(0), page.locator(".u-explore").nth(1)
    others = state(second)
    slider = first.get_by_role("slider", name="ρ", exact=True)
    before = state(first)
    assert before[1] == before[2] == "With rho 0.9 the norm falls."
    slider.focus()
    page.keyboard.press("ArrowRight")
    after = state(first)
    assert after[0] != before[0] and after[1] == after[2] == "With rho 1.1 the norm does not fall."
    assert slider.get_attribute("aria-valuetext") == "1.1" and first.locator(".u-value").inner_text() == "1.1"
    page.keyboard.press("ArrowLeft")
    assert state(first) == before
    page.keyboard.press("Home")
    assert state(first)[2] == "With rho 0.5 the norm falls."
    assert state(second) == others


@pytest.mark.browser
def test_two_controls_and_texts(opened):
    page = opened()
    second, third = page.locator(".u-explore").nth(1), page.locator(".u-explore").nth(2)
    second.get_by_role("combobox", name="shape").select_option(label="square")
    assert state(second)[2] == "A square wave at rate 5."
    second.get_by_role("slider").press("ArrowRight")
    assert state(second)[2] == "A square wave at rate 9."
    third.get_by_role("combobox", name="word").select_option(label="zyx")
    assert "“zyx” & </script> its <b>letters</b>" in state(third)[2]


@pytest.mark.browser
def test_ids_are_unique_and_resolve(opened):
    page = opened()
    page.get_by_role("slider").first.press("End")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    used = page.evaluate(r"""[...document.querySelectorAll('svg *')].flatMap((element) => [...element.attributes])
        .flatMap(({ value }) => [...value.matchAll(/url\(#(.*)\)|^#(.*)/g)]).map((match) => match[1] ?? match[2])""")
    assert len(ids) == len(set(ids)) and used and set(used) == set(ids)


@pytest.mark.browser
def test_a_figure_that_comes_late_is_made_ready_once(opened):
    """As in a notebook: the HTML is inserted, and its scripts are run after, without document.currentScript."""
    page = opened()
    page.evaluate("""() => {
        const first = document.querySelector(".u-explore");
        const place = document.createElement("div");
        const copy = first.cloneNode(true);
        copy.classList.remove("u-ready");
        place.innerHTML = copy.outerHTML;
        document.querySelector("main").append(place);
        for (const script of place.querySelectorAll("script")) {
            const again = document.createElement("script");
            if (script.type) again.type = script.type;
            again.textContent = script.textContent;
            script.replaceWith(again);
        }
    }""")
    late, first = page.locator(".u-explore").nth(3), page.locator(".u-explore").nth(0)
    late.get_by_role("slider").press("Home")
    assert state(late)[2] == "With rho 0.5 the norm falls." and state(first)[2] == "With rho 0.9 the norm falls."


@pytest.mark.browser
def test_play_steps_to_the_end_and_can_be_halted(opened):
    page = opened()
    figure = page.locator(".u-explore").nth(0)
    description = figure.locator(".u-description")
    figure.get_by_role("slider").press("Home")
    figure.get_by_role("button", name="Play ρ").click()
    assert description.get_attribute("aria-live") == "off"
    figure.get_by_role("button", name="Pause ρ").click()
    assert description.get_attribute("aria-live") == "polite"
    figure.get_by_role("button", name="Play ρ").click()
    page.wait_for_function("document.querySelector('.u-description').textContent.includes('1.1')")
    figure.get_by_role("button", name="Play ρ").wait_for()


@pytest.mark.browser
def test_play_at_the_last_value_begins_again(opened):
    page = opened()
    figure = page.locator(".u-explore").nth(0)
    figure.get_by_role("slider").press("End")
    figure.get_by_role("button", name="Play ρ").click()
    page.wait_for_function("document.querySelector('.u-description').textContent.includes('rho 0.7')")


@pytest.mark.browser
def test_moving_the_slider_halts_play(opened):
    page = opened()
    figure = page.locator(".u-explore").nth(0)
    slider = figure.get_by_role("slider")
    slider.press("Home")
    figure.get_by_role("button", name="Play ρ").click()
    slider.press("ArrowRight")
    moved = state(figure)
    assert moved[2] != "With rho 0.5 the norm falls." and figure.get_by_role("button", name="Play ρ").is_visible()
    page.wait_for_timeout(800)
    assert state(figure) == moved


@pytest.mark.browser
@pytest.mark.parametrize("size", [16, 32])
def test_controls_keep_apart_in_large_type(opened, size):
    page = opened(viewport={"width": 390, "height": 800})
    page.add_style_tag(content=f"html{{font-size:{size}px}}")
    page.evaluate("for (const name of document.querySelectorAll('label > :first-child')) name.textContent = 'input units'")
    for control in page.locator(".u-control").all():
        boxes = [part.bounding_box() for part in control.locator("label > *, button").all()]
        assert control.locator("input, select").bounding_box()["width"] >= 60
        for i, a in enumerate(boxes):
            assert a["x"] >= 0 and a["x"] + a["width"] <= 390
            for b in boxes[i + 1:]:
                beside = a["x"] + a["width"] <= b["x"] + 0.5 or b["x"] + b["width"] <= a["x"] + 0.5
                below = a["y"] + a["height"] <= b["y"] + 0.5 or b["y"] + b["height"] <= a["y"] + 0.5
                assert beside or below


@pytest.mark.browser
def test_reduced_motion_has_no_play(opened):
    assert opened().locator(".u-play").first.is_visible()
    page = opened(reduced_motion="reduce")
    assert not page.locator(".u-play").first.is_visible()
    before = state(page.locator(".u-explore").first)
    page.wait_for_timeout(500)
    assert state(page.locator(".u-explore").first) == before


@pytest.mark.browser
def test_print_shows_the_setting_and_no_controls(opened):
    page = opened()
    figure = page.locator(".u-explore").first
    assert not figure.locator(".u-setting").is_visible()
    figure.get_by_role("slider").press("End")
    page.emulate_media(media="print")
    assert not figure.get_by_role("slider").is_visible()
    assert figure.locator(".u-setting").inner_text() == "ρ = 1.1" and figure.locator(".u-setting").is_visible()
    assert figure.locator("svg.u-plot").bounding_box()["height"] > 100 and figure.locator(".u-description").is_visible()


@pytest.mark.browser
def test_without_javascript_the_first_setting_is_there(opened):
    page = opened(java_script_enabled=False)
    figure = page.locator(".u-explore").first
    assert not figure.locator("input").is_visible()
    assert figure.locator(".u-setting").inner_text() == "ρ = 0.9" and figure.locator(".u-setting").is_visible()
    assert figure.locator(".u-description").inner_text() == "With rho 0.9 the norm falls."
    assert figure.locator("svg.u-plot path").count() > 5


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["data-theme", "theme"], ids=["site", "Colab"])
def test_dark_page_recolours_the_same_picture(opened, theme):
    page = opened()

    def colours():
        return page.evaluate("""() => {
            const svg = document.querySelector("svg.u-plot");
            return [getComputedStyle(svg.querySelector("[stroke^=var]")).stroke, getComputedStyle(svg.querySelector("text")).fill];
        }""")

    def rgb(colour):
        return "rgb({}, {}, {})".format(*(round(255 * channel) for channel in matplotlib.colors.to_rgb(colour)))

    assert colours() == [rgb(plots.COLOURS["blue"]), "rgb(0, 0, 0)"]
    page.evaluate(f"document.documentElement.setAttribute('{theme}', 'dark')")
    page.add_style_tag(content="html{color:#ced6dd}")
    assert colours() == [rgb(plots.DARK["blue"]), "rgb(206, 214, 221)"]
    page.emulate_media(media="print")
    assert colours() == [rgb(plots.COLOURS["blue"]), "rgb(0, 0, 0)"]


@pytest.mark.browser
def test_dark_page_of_the_site_is_the_ground_of_the_figure(opened):
    page = opened()
    page.evaluate("""() => {
        const figure = document.querySelector(".u-explore"), output = document.createElement("div");
        output.className = "text_html";
        figure.replaceWith(output);
        output.append(figure);
        document.documentElement.dataset.theme = "dark";
    }""")
    page.add_style_tag(content="html[data-theme=dark] .text_html:not(:has(table.dataframe)){background-color:#eee;color:#111;padding:9px}")
    style = page.evaluate("(({ color, backgroundColor, padding }) => [color, backgroundColor, padding])(getComputedStyle(document.querySelector('.text_html')))")
    assert style == ["rgb(206, 214, 221)", "rgba(0, 0, 0, 0)", "0px"]


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = opened()
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    found = axe.run(page).response["violations"]
    assert [f"{one['id']}: {one['help']}" for one in found if one["impact"] in ("serious", "critical")] == []


@pytest.mark.browser
def test_phone_has_no_overflow_and_legible_words(opened):
    page = opened(viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    heights = page.evaluate("[...document.querySelectorAll('svg.u-plot text')].map((text) => text.getScreenCTM().a * parseFloat(getComputedStyle(text).fontSize))")
    assert min(heights) > 8.5
    for control in page.locator(".u-control label").all():
        assert control.bounding_box()["height"] >= 44
