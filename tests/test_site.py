"""The built site: its files, its pages' text and links, and its behaviour in a real browser, over HTTP and from the disk.

Build the site first: ``make book``. Pages are those that _toc.yml names, so that a new chapter is tested by being listed.
"""

import functools
import gzip
import http.server
import io
import json
import re
import sys
import threading
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "book" / "_ext")]

yaml = pytest.importorskip("yaml")
bs4 = pytest.importorskip("bs4")

import browser  # noqa: E402

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
TEXTS = [TOC["root"]] + [chapter["file"] for part in TOC["parts"] for chapter in part["chapters"]]
PAGES = [f"{name}.html" for name in TEXTS] + ["search.html"]
CHAPTERS = [name for name in TEXTS if re.match(r"book/\d\d_", name)]
LABS = [name for name in TEXTS if name.startswith("labs/")]
NOTEBOOKS = CHAPTERS + LABS
FRONT = f"{TOC['root']}.html"

LIMIT = 700_000  # bytes of a first load, gzipped
WIDE, PHONE = 1280, 390
STRANGERS = re.compile(r"mathjax|thebe|require\.js|requirejs|jsdelivr|unpkg|cdnjs|googleapis|fontawesome|polyfill|katex-error", re.IGNORECASE)
LEFTOVERS = re.compile(r"\{[a-z][a-z:+-]*\}\s*`|:{3,}|\$\$|\$\w|\w\$|^\([a-z][\w-]*\)=|\]\{\.|\(eq-[\w-]+\)", re.MULTILINE)


@functools.cache
def soup(page):
    path = SITE / page
    if not path.exists():
        pytest.fail(f"{path} is not there. Build the site first: make book")
    return bs4.BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def prose(page):
    """What a reader sees of a page's text, without code, formulas and data."""
    article = bs4.BeautifulSoup(str(soup(page).article), "html.parser")
    for part in article.find_all(["pre", "code", "script", "style", "svg", "math"]):
        part.decompose()
    for part in article.select(".katex"):
        part.decompose()
    return article.get_text("\n")


# Files


@pytest.mark.site
def test_exactly_the_expected_pages():
    assert SITE.is_dir(), "build the site first: make book"
    assert {str(path.relative_to(SITE)) for path in SITE.rglob("*.html")} == {*PAGES, "index.html"}


@pytest.mark.site
def test_nothing_is_published_that_no_page_uses():
    kinds = {"html", "css", "js", "svg", "png", "jpg", "woff2", "ipynb", "inv"}
    files = [path for path in SITE.rglob("*") if path.is_file()]
    strays = [str(path.relative_to(SITE)) for path in files if path.suffix[1:] not in kinds and path.name not in {"LICENSE", ".nojekyll", ".buildinfo"}]
    assert not strays
    assert not (SITE / "_static/katex/katex.min.js").exists()
    scripts = {path.name for path in SITE.rglob("*.js")}
    assert scripts == {"unrolled.js", "searchindex.js", "documentation_options.js", "doctools.js", "language_data.js", "searchtools.js", "sphinx_highlight.js"}
    assert {str(path.relative_to(SITE)) for path in SITE.rglob("*.ipynb")} == {f"{name}.ipynb" for name in NOTEBOOKS}


@pytest.mark.parametrize("path", [
    "labs/source/lab01_x/lab01_x.ipynb", "labs/submitted/someone/lab01_x/lab01_x.ipynb", "labs/autograded/someone/lab01_x/lab01_x.ipynb",
    "labs/feedback/someone/lab01_x/lab01_x.html", "labs/unrolled/x.md", "labs/grading/x.md", "tests/x.md", ".venv/x.md", "_build/x.md",
])  # fmt: skip
def test_what_is_no_page_is_excluded(path):
    matching = pytest.importorskip("sphinx.util.matching")
    excluded = matching.Matcher(CONFIG["exclude_patterns"])
    assert any(excluded(part) for part in (path, *map(str, Path(path).parents)))
    assert not any(excluded(f"{name}.ipynb") or excluded(f"{name}.md") for name in TEXTS)


def test_every_student_copy_is_a_page():
    copies = sorted((ROOT / "labs/release").glob("lab[0-9]*/*.ipynb"))
    assert LABS == [str(path.relative_to(ROOT).with_suffix("")) for path in copies]


@pytest.mark.site
def test_the_address_without_a_page_leads_to_the_front_page():
    start = soup("index.html")
    assert start.find("meta", attrs={"http-equiv": "refresh"})["content"] == f"0; url={FRONT}"
    assert start.find("a")["href"] == FRONT and start.html["lang"] == "en"


@pytest.mark.site
@pytest.mark.parametrize("sheet", ["unrolled.css", "katex/katex.min.css", "pygments.css"])
def test_style_sheets_ask_only_for_files_that_are_here(sheet):
    path = SITE / "_static" / sheet
    wanted = [address.strip("'\"") for address in re.findall(r"url\(([^)]*)\)", path.read_text(encoding="utf-8"))]
    missing = [address for address in wanted if not address.startswith("#") and not (path.parent / address).is_file()]
    assert not missing
    assert "@import" not in path.read_text(encoding="utf-8")


# Text


@pytest.mark.site
@pytest.mark.parametrize("page", PAGES)
def test_no_trace_of_other_hosts_scripts(page):
    assert not STRANGERS.findall((SITE / page).read_text(encoding="utf-8"))


@pytest.mark.site
@pytest.mark.parametrize("page", PAGES)
def test_no_markup_is_left_in_the_text(page):
    assert not [match.group() for match in LEFTOVERS.finditer(prose(page))]


@pytest.mark.parametrize("text", ["see {eq}`eq-step`", ":::{note}", "$$ x", "a $x$ b", "$x$ then", "(sec-a)=", "[word]{.start}", "then (eq-bound)"])
def test_left_markup_would_be_seen(text):
    assert LEFTOVERS.search(text)


@pytest.mark.site
@pytest.mark.parametrize("page", PAGES)
def test_structure(page):
    html = soup(page)
    assert html.html["lang"] == "en" and html.title.text.strip()
    assert len(html.find_all("h1")) == 1 and len(html.find_all("main")) == 1
    levels = [int(heading.name[1]) for heading in html.main.find_all(re.compile(r"^h[1-6]$"))]
    assert all(later <= earlier + 1 for earlier, later in zip(levels, levels[1:])), levels
    ids = [part["id"] for part in html.find_all(id=True)]
    assert sorted(set(ids)) == sorted(ids), {name for name in ids if ids.count(name) > 1}
    assert all(picture.get("alt") for picture in html.find_all("img"))
    assert all(picture.get("aria-label") or picture.find("title") for picture in html.find_all("svg", role="img"))
    assert len(html.select('nav.contents a[aria-current="page"]')) == (page != "search.html")


@pytest.mark.site
def test_titles_are_different():
    titles = [soup(page).title.text for page in PAGES]
    assert len(set(titles)) == len(titles)


@pytest.mark.site
@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_resolve(page):
    broken = []
    for part, attribute in [("a", "href"), ("link", "href"), ("script", "src"), ("img", "src")]:
        for tag in soup(page).find_all(part, **{attribute: True}):
            address = tag[attribute]
            if part == "link" and tag.get("rel") == ["canonical"] or urlsplit(address).scheme in {"http", "https", "mailto", "data"}:
                continue
            path, anchor = urldefrag(address)
            target = (SITE / page).parent / unquote(urlsplit(path).path) if path else SITE / page
            if not target.resolve().is_file():
                broken.append(address)
            elif anchor and target.suffix == ".html" and not soup(str(target.resolve().relative_to(SITE))).find(id=unquote(anchor)):
                broken.append(address)
    assert not broken


@pytest.mark.site
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_loads_is_ours(page):
    tags = soup(page).select("script[src], img[src], iframe[src], link[rel=stylesheet], link[rel=preload], link[rel=icon], source, video, audio")
    assert tags and all(not urlsplit(tag.get("src") or tag.get("href") or "").netloc for tag in tags)


@pytest.mark.site
@pytest.mark.parametrize("chapter", NOTEBOOKS)
def test_colab_button(chapter):
    owner = CONFIG["repository"]["url"].removeprefix("https://github.com/")
    wanted = f"https://colab.research.google.com/github/{owner}/blob/{CONFIG['repository']['branch']}/{chapter}.ipynb"
    assert CONFIG["repository"]["branch"] == "colab"
    assert [link["href"] for link in soup(f"{chapter}.html").select("a.colab")] == [wanted]
    assert [link["href"] for link in soup(f"{chapter}.html").select("a.download")] == [f"{Path(chapter).name}.ipynb"]
    assert json.loads((SITE / f"{chapter}.ipynb").read_text(encoding="utf-8"))["nbformat"] == 4


@pytest.mark.site
def test_only_notebooks_have_a_colab_button():
    assert not [page for page in PAGES if soup(page).select("a.colab") and page.removesuffix(".html") not in NOTEBOOKS]


@pytest.mark.site
@pytest.mark.parametrize("lab", LABS)
def test_a_lab_has_its_own_number_and_looks_like_a_chapter(lab):
    html = soup(f"{lab}.html")
    number = int(re.search(r"lab(\d\d)_", lab)[1])
    assert html.h1.text.startswith(f"Lab {number}: ")
    assert not html.main.select("h1 .section-number, h2 .section-number, .eqno, figcaption")
    assert html.article.find("img") and not html.article.find("details", class_=False)
    assert not [head for head in html.find_all("th") if not head.text.strip()]
    stubs = [part.text for part in html.article.select(".stub")]
    assert len(stubs) == html.article.text.count("raise NotImplementedError(\"") and all(text.endswith(")") for text in stubs)


@pytest.mark.site
def test_after_a_chapter_comes_its_lab():
    for chapter, lab in zip(CHAPTERS, LABS):
        assert soup(f"{chapter}.html").select_one("nav.turn a[rel=next]")["href"].endswith(f"{lab}.html")
        assert soup(f"{lab}.html").select_one("nav.turn a[rel=prev]")["href"].endswith(f"{chapter}.html")


def test_the_order_of_reading():
    site = pytest.importorskip("unrolled_site")
    lab = "labs/release/lab{0}_x/lab{0}_x".format
    listed = ["book/index", "book/01_x", "book/02_y", lab("01"), lab("02"), "book/notation"]
    assert site.in_reading_order(listed) == ["book/index", "book/01_x", lab("01"), "book/02_y", lab("02"), "book/notation"]
    assert site.in_reading_order(["book/index", "book/notation"]) == ["book/index", "book/notation"]


@pytest.mark.site
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_numbers_begin_with_the_chapter(chapter):
    html = soup(f"{chapter}.html")
    number = str(int(re.search(r"\d\d", chapter).group()))
    assert html.h1.select_one(".section-number").text.strip() == f"{number}."
    equations = [re.match(r"\((.*?)\)", tag.text).group(1) for tag in html.select(".eqno")]
    assert equations == [f"{number}.{k}" for k in range(1, len(equations) + 1)] and equations
    figures = [tag.text.strip() for tag in html.select("figcaption .caption-number")]
    assert figures == [f"Figure {number}.{k}" for k in range(1, len(figures) + 1)] and figures
    assert len(figures) == len(html.article.find_all("figure")), "a figure without a caption"


@pytest.mark.site
def test_one_click_from_the_front_page_to_the_first_chapter():
    links = [link["href"] for link in soup(FRONT).article.select("a.start")]
    assert links == [f"{Path(CHAPTERS[0]).name}.html"]


@pytest.mark.site
def test_bibliography_has_an_anchor_for_every_key():
    keys = re.findall(r"^@\w+\{([\w-]+),", (ROOT / "book/references.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert keys and all(soup("book/bibliography.html").find(id=f"cite-{key}") for key in keys)


@pytest.mark.site
def test_every_term_has_a_chinese_and_a_japanese_name():
    entries = soup("book/glossary.html").select("dl.glossary > dd")
    assert len(entries) >= 25
    for entry in entries:
        chinese, japanese = entry.find(lang="zh-hans"), entry.find(lang="ja")
        assert chinese and re.fullmatch(r"[\u4e00-\u9fff]+", chinese.text), entry.text
        assert japanese and re.fullmatch(r"[\u3040-\u30ff\u4e00-\u9fff]+", japanese.text), entry.text


@pytest.mark.site
def test_a_formula_that_cannot_be_set_stops_the_build():
    site = pytest.importorskip("unrolled_site")
    assert "mathml" in site.typeset(r"h_t = \tanh(W h_{t-1})", True)
    with pytest.raises(ValueError, match="KaTeX parse error"):
        site.typeset(r"\frac{1", True)
    with pytest.raises(ValueError, match="Undefined control sequence"):
        site.typeset(r"\undefinedcommand", False)


def test_a_short_formula_keeps_its_bracket_and_comma_and_the_text_around_them():
    site = pytest.importorskip("unrolled_site")
    from docutils import nodes

    paragraph = nodes.paragraph("", "", nodes.Text("the share ("), nodes.math("", "h"), nodes.Text("), then"))
    site.keep_together(None, paragraph, "page")
    assert [part.astext() for part in paragraph] == ["the share ", "(h),", " then"]
    assert paragraph[1]["classes"] == ["together"]


def test_a_comma_is_moved_from_where_it_stands_and_not_from_an_equal_text_before():
    site = pytest.importorskip("unrolled_site")
    from docutils import nodes

    paragraph = nodes.paragraph("", "", nodes.literal("", "b"), nodes.Text(", a vector; "), nodes.math("", "h"), nodes.Text(", a vector; "))
    site.keep_together(None, paragraph, "page")
    assert [part.astext() for part in paragraph] == ["b", ", a vector; ", "h,", " a vector; "]


# In a browser


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A browser that leaves a page breaks off what it was still loading."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@pytest.fixture(scope="module")
def address():
    assert SITE.is_dir(), "build the site first: make book"
    server = Server(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api")
    path = browser.find()
    assert path, "no Chromium: install one, or name it in $CHROMIUM"
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=browser.FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(chromium):
    """Open a page: the tab, and the lists of its requests and of what it complains of."""
    contexts = []

    def open_page(url, width=WIDE, theme="light", **settings):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **settings)
        contexts.append(context)
        context.set_default_timeout(10_000)
        tab = context.new_page()
        tab.requests, tab.complaints = [], []
        tab.on("request", lambda request: tab.requests.append(request.url))
        tab.on("console", lambda message: tab.complaints.append(message.text) if message.type in {"error", "warning"} else None)
        tab.on("pageerror", lambda problem: tab.complaints.append(str(problem)))
        tab.goto(url)
        if settings.get("java_script_enabled", True):
            tab.evaluate("document.fonts.ready")
        return tab

    yield open_page
    for context in contexts:
        context.close()


def overflow(tab):
    return tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def weight(urls, address):
    """Bytes of a load as a server with gzip sends them; fonts and pictures are compressed already."""
    total = 0
    for url in {url.split("?")[0] for url in urls if url.startswith(address)}:
        content = (SITE / unquote(url.removeprefix(address))).read_bytes()
        total += len(content) if url.endswith((".woff2", ".png", ".jpg")) else len(gzip.compress(content, 6))
    return total


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("page", PAGES)
def test_page(page, width, theme, opened, address):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = opened(address + page, width, theme, reduced_motion="reduce")
    assert not [url for url in tab.requests if not url.startswith((address, "data:", "blob:"))]
    assert not tab.complaints
    assert overflow(tab) <= 0
    assert weight(tab.requests, address) <= LIMIT
    assert tab.evaluate("document.documentElement.dataset.theme") == theme
    parts = {"exclude": [[".katex"]]}  # a formula's thousand boxes have the text's own colour
    found = axe.run(tab, context=parts).response["violations"]
    grave = [(finding["id"], [node["target"] for node in finding["nodes"]][:3]) for finding in found if finding["impact"] in {"serious", "critical"}]
    assert not grave


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("lab", LABS)
def test_pictures_of_a_lab_have_the_ground_of_the_page(lab, theme, opened, address):
    tab = opened(f"{address}{lab}.html", theme=theme)
    tab.locator("article img").first.scroll_into_view_if_needed()
    place = tab.locator("article img").first.bounding_box()
    corner = {"x": place["x"] - 4, "y": place["y"] + place["height"] - 6, "width": 8, "height": 4}
    shot = pytest.importorskip("PIL.Image").open(io.BytesIO(tab.screenshot(clip=corner))).convert("RGB")
    assert all(low == high for low, high in shot.getextrema()), "the edge of a picture is seen"


@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 195], ids=["narrowest", "letters of twice the size"])
def test_narrow_pages_have_nothing_beside_them(width, opened, address):
    tab = opened(address + FRONT, width)
    wide = []
    for page in PAGES:
        tab.goto(address + page)
        wide += [page] if overflow(tab) > 0 else []
    assert not wide


@pytest.mark.browser
@pytest.mark.parametrize("page", PAGES)
def test_page_from_the_disk(page, opened):
    tab = opened((SITE / page).as_uri())
    assert not tab.complaints and tab.locator("h1").is_visible()
    assert not [url for url in tab.requests if not url.startswith(("file:", "data:"))]
    assert tab.evaluate("document.fonts.check('1em \"Source Serif\"')")


@pytest.mark.browser
@pytest.mark.parametrize("page", PAGES)
def test_page_without_scripts(page, opened, address):
    tab = opened(address + page, PHONE, java_script_enabled=False)
    assert tab.locator("h1").is_visible() and tab.locator("nav.contents a").first.is_visible()
    assert not tab.locator("#menu").is_visible() and not tab.locator("#theme").is_visible()
    assert tab.locator("nav.contents").evaluate("list => getComputedStyle(list).position") == "static", "the list lies on the text"


@pytest.mark.browser
@pytest.mark.parametrize("from_disk", [False, True], ids=["http", "file"])
@pytest.mark.parametrize("words", ["clipping threshold", "梯度裁剪"], ids=["English", "Chinese"])
def test_search(from_disk, words, opened, address):
    tab = opened((SITE / FRONT).as_uri() if from_disk else address + FRONT)
    tab.keyboard.press("/")
    tab.keyboard.type(words)
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#search-results li a")
    hrefs = tab.eval_on_selector_all("#search-results li a", "links => links.map(link => link.getAttribute('href'))")
    assert "book/glossary.html" in hrefs
    assert not tab.complaints
    tab.click('#search-results li a[href="book/glossary.html"]')
    tab.wait_for_url("**/glossary.html*")


@pytest.mark.browser
def test_search_says_when_there_is_nothing(opened, address):
    tab = opened(address + "search.html?q=qwertzuiop")
    tab.wait_for_function("document.querySelector('#search-results').innerText.includes('No page has all of these words')")
    assert tab.input_value("#words") == "qwertzuiop"


@pytest.mark.browser
@pytest.mark.parametrize("word", ["constructor", "__proto__"])
def test_search_for_a_word_that_every_object_has(word, opened, address):
    tab = opened(f"{address}search.html?q={word}")
    tab.wait_for_selector("#search-results .search-summary:not(:empty)")
    assert not tab.complaints
    assert "undefined" not in tab.inner_html("#search-results")


@pytest.mark.browser
def test_the_theme_is_changed_by_keyboard_and_kept(opened, address):
    tab = opened(address + FRONT)
    ground = "getComputedStyle(document.body).backgroundColor"
    before = tab.evaluate(ground)
    tab.focus("#theme")
    tab.keyboard.press("Enter")
    assert tab.get_attribute("#theme", "aria-pressed") == "true"
    after = tab.evaluate(ground)
    assert before != after
    tab.goto(address + PAGES[1])
    assert tab.evaluate(ground) == after and tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.focus("#theme")
    tab.keyboard.press("Space")
    assert tab.evaluate(ground) == before


@pytest.mark.browser
def test_the_theme_follows_the_system_until_it_is_chosen(opened, address):
    tab = opened(address + FRONT)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")


@pytest.mark.browser
def test_the_menu_by_keyboard(opened, address):
    tab = opened(address + PAGES[1], PHONE)
    link = tab.locator("nav.contents a").first
    assert not link.is_visible()
    tab.focus("#menu")
    tab.keyboard.press("Enter")
    assert link.is_visible() and tab.get_attribute("#menu", "aria-expanded") == "true"
    panel = tab.locator("nav.contents").bounding_box()
    assert panel["y"] + panel["height"] == tab.viewport_size["height"] and panel["width"] == PHONE, "the text is seen beside the menu"
    assert tab.evaluate("document.activeElement.closest('#contents') !== null")
    assert tab.evaluate("document.querySelector('#main').inert")
    tab.keyboard.press("Escape")
    assert not link.is_visible() and tab.evaluate("document.activeElement.id") == "menu"
    assert not tab.evaluate("document.querySelector('#main').inert")
    tab.keyboard.press("Enter")
    tab.locator("nav.contents a", has_text="Glossary").click()
    tab.wait_for_url("**/glossary.html")


@pytest.mark.browser
def test_the_first_tab_stop_skips_to_the_text(opened, address):
    tab = opened(address + PAGES[1], reduced_motion="reduce")
    tab.keyboard.press("Tab")
    skip = tab.locator("a.skip")
    assert skip.evaluate("link => link === document.activeElement")
    assert skip.bounding_box()["y"] >= 0, "the link is not seen when it has the focus"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_focus_is_seen(theme, opened, address):
    tab = opened(address + FRONT, theme=theme)
    plain = []
    for _ in range(14):
        tab.keyboard.press("Tab")
        style = tab.evaluate("(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])(getComputedStyle(document.activeElement))")
        if style[0] == "none" or style[1] == "0px":
            plain.append(tab.evaluate("document.activeElement.outerHTML.slice(0, 80)"))
    assert not plain


@pytest.mark.browser
@pytest.mark.parametrize("page", PAGES)
def test_boxes_that_scroll_are_reached_by_keyboard(page, opened, address):
    tab = opened(address + page, PHONE)
    tab.wait_for_timeout(100)
    boxes = tab.evaluate("""Array.from(document.querySelectorAll("main *")).filter((box) => box.scrollWidth > box.clientWidth + 1
        && ["auto", "scroll"].includes(getComputedStyle(box).overflowX) && box.checkVisibility())
        .map((box) => [box.tabIndex, box.getAttribute("aria-label") || "", box.outerHTML.slice(0, 60)])""")
    assert not [box for box in boxes if box[0] != 0 or not box[1]]


@pytest.mark.browser
@pytest.mark.parametrize("name", TEXTS)
def test_paper(name, opened, address):
    tab = opened(f"{address}{name}.html", theme="dark")
    tab.emulate_media(media="print")
    for hidden in (".bar", "nav.contents", "nav.headings", ".actions", "nav.turn", ".skip"):
        assert not any(part.is_visible() for part in tab.locator(hidden).all()), hidden
    assert tab.locator("h1").is_visible()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert all(picture.is_visible() for picture in tab.locator("article figure svg, article figure img").all() if not picture.evaluate("part => part.closest('button') !== null"))
    assert not any(part.is_visible() for part in tab.locator("details.hide > summary").all()), "a button on paper"
    folded = tab.locator("details:not(.hide) .equation, details:not(.hide) p, details pre").all()
    assert all((part.bounding_box() or {"height": 0})["height"] > 5 for part in folded)


@pytest.mark.browser
def test_the_heading_that_is_read_is_marked(opened, address):
    tab = opened(f"{address}book/notation.html", reduced_motion="reduce")
    tab.click("nav.headings a >> nth=2")
    tab.wait_for_selector("nav.headings a.here >> nth=0")
    assert tab.get_attribute("nav.headings a >> nth=2", "aria-current") == "location"


@pytest.mark.browser
def test_code_is_copied(opened, address):
    tab = opened(address + FRONT, permissions=["clipboard-read", "clipboard-write"])
    tab.locator(".highlight button.copy").first.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_function("document.querySelector('button.copy').textContent === 'Copied'")
    assert tab.evaluate("navigator.clipboard.readText()").startswith("@misc{")


@pytest.mark.browser
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_interactive_figures_answer_to_arrow_keys_without_a_network(chapter, opened):
    tab = opened((SITE / f"{chapter}.html").as_uri(), offline=True)
    figures = tab.locator(".u-explore").all()
    assert len(figures) >= 2, "an interactive chapter has at least two"
    for figure in figures:
        picture, description = figure.locator("svg.u-plot"), figure.locator(".u-description")
        for control in figure.locator("input, select").all():
            drawn, told = picture.inner_html(), description.inner_text()
            at_end = control.evaluate("box => +box.value === +(box.max || box.length - 1)")
            chosen = control.evaluate("box => box.tagName === 'SELECT'")
            control.focus()
            tab.keyboard.press(("ArrowUp" if at_end else "ArrowDown") if chosen else ("ArrowLeft" if at_end else "ArrowRight"))
            assert picture.inner_html() != drawn
            assert description.inner_text() != told
    assert not tab.complaints
