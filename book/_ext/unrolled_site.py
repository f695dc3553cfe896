"""The book's own part of the Sphinx build: mathematics, the page around the text, and a light output folder.

Mathematics is set by KaTeX while the site is built, so that a page needs a style sheet and fonts but no script, and a
formula that can't be set is a warning with its place. The page comes from ``templates/layout.html``. After the build,
whatever no page of ours uses is removed.
"""

import json
import re
import shutil
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from html import escape
from pathlib import Path
from textwrap import shorten

import colab
from address import parse
from bs4 import BeautifulSoup
from docutils import nodes
from py_mini_racer import MiniRacer
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinxcontrib.bibtex.plugin import register_plugin
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle

logger = logging.getLogger(__name__)
STATIC = Path(__file__).resolve().parent.parent / "_static"

# The longest formula, in letters of TeX, that may not be broken from its comma.
SHORT = 40

# What stays in the output's _static folder: our own files and what Sphinx's search needs.
KEPT_STATIC = [
    "unrolled.css", "unrolled.js", "favicon.svg", "pygments.css", "fonts/*", "katex/katex.min.css", "katex/LICENSE", "katex/fonts/*",
    "documentation_options.js", "doctools.js", "language_data.js", "searchtools.js", "sphinx_highlight.js",
]  # fmt: skip

# Pages with a number: a chapter, and the lab of the same number after it.
NUMBERED = re.compile(r"(?:book/|labs/release/lab)(\d\d)_")

# What plain Markdown leaves in a lab's page: a fold, and the line that a reader is to replace.
HINT = re.compile(r"<details><summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
STUB = re.compile(r'(<span class="k">raise</span> <span class="ne">NotImplementedError</span>.*)$', re.MULTILINE)

REDIRECT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url={page}">
<title>{title}</title>
<link rel="canonical" href="{page}">
<link rel="icon" href="_static/favicon.svg" type="image/svg+xml">
</head>
<body><main><h1>{title}</h1><p>The course is <a href="{page}">one page further</a>.</p></main></body>
</html>
"""


# Mathematics


@lru_cache(1)
def katex():
    """KaTeX in a JavaScript engine of its own, started once a build."""
    engine = MiniRacer()
    engine.eval((STATIC / "katex/katex.min.js").read_text(encoding="utf-8"))
    engine.eval("""function typeset(tex, display) {
        try { return {html: katex.renderToString(tex, {displayMode: display, output: "htmlAndMathml", strict: "error", throwOnError: true})}; }
        catch (problem) { return {problem: problem.message}; }
    }""")
    return engine


@lru_cache(None)
def typeset(tex, display):
    """HTML and MathML for a formula; ValueError with KaTeX's words if there is none."""
    answer = json.loads(katex().eval(f"JSON.stringify(typeset({json.dumps(tex)}, {json.dumps(display)}))"))
    if "problem" in answer:
        raise ValueError(answer["problem"])
    return answer["html"]


def set_formula(translator, node, display):
    try:
        return typeset(node.astext().strip(), display)
    except ValueError as problem:
        logger.warning("KaTeX can't set this formula: %s", problem, location=node, type="unrolled", subtype="katex")
        return f"<code>{translator.encode(node.astext())}</code>"


def visit_math(translator, node):
    translator.body.append(translator.starttag(node, "span", "", CLASS="math") + set_formula(translator, node, False) + "</span>")
    raise nodes.SkipNode


def visit_math_block(translator, node):
    """A display formula in a box that scrolls by itself, with its number beside the box."""
    translator.body.append(translator.starttag(node, "div", "", CLASS="equation"))
    translator.body.append(f'<div class="scroll" data-label="Equation">{set_formula(translator, node, True)}</div>')
    if node["number"]:
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def keep_together(app, doctree, page):
    """Keep a short formula on one line with the bracket before it and the comma or hyphen after it, as print does."""
    for formula in list(doctree.findall(nodes.math)):
        home, place = formula.parent, formula.parent.index(formula)
        before = home[place - 1] if place else None
        after = home[place + 1] if place + 1 < len(home) else None
        opening = re.search(r"[(\[“‘]+$", before) if isinstance(before, nodes.Text) else None
        closing = re.match(r"[.,;:!?)\]’”–-]+", after) if isinstance(after, nodes.Text) else None
        if len(formula.astext()) > SHORT or not (opening or closing):
            continue
        together = nodes.inline("", "", formula, classes=["together"])
        if opening:
            home[place - 1] = nodes.Text(before[: opening.start()])
            together.insert(0, nodes.Text(opening.group()))
        if closing:
            home[place + 1] = nodes.Text(after[closing.end() :])
            together += nodes.Text(closing.group())
        home[place] = together


# Citations


def round_brackets():
    return BracketStyle(left="(", right=")")


@dataclass
class RoundReferenceStyle(AuthorYearReferenceStyle):
    """Bengio et al. (1994) in the sentence, (Bengio et al., 1994) beside it."""

    bracket_parenthetical: BracketStyle = field(default_factory=round_brackets)
    bracket_textual: BracketStyle = field(default_factory=round_brackets)
    bracket_author: BracketStyle = field(default_factory=round_brackets)
    bracket_label: BracketStyle = field(default_factory=round_brackets)
    bracket_year: BracketStyle = field(default_factory=round_brackets)


# The page


def mark(html):
    """The course's list of pages, with the page that is being read marked for assistive technology."""
    html = html.replace('<p aria-level="2" class="caption" role="heading">', '<p class="caption">')
    return html.replace('class="current reference internal"', 'class="current reference internal" aria-current="page"')


def headings(html):
    """The list of the page's own headings, without the page's title, or nothing if there are fewer than two."""
    soup = BeautifulSoup(html or "", "html.parser")
    inner = soup.select_one("li > ul")
    return str(inner) if inner and len(inner.find_all("li")) > 1 else ""


def describe(doctree):
    """The first plain sentences of a page, for those who list it."""
    for paragraph in doctree.findall(nodes.paragraph) if doctree else []:
        if len(paragraph.astext()) > 60 and not next(paragraph.findall(nodes.math), None):
            return f'<meta name="description" content="{escape(shorten(paragraph.astext(), 200, placeholder=" …"))}">'
    return ""


def tidy(html):
    """The text of a page as ours: without settings of thebe, repeated ids and labels that hide the words, with all folds alike."""
    html = re.sub(r'<script type="text/x-thebe-config">.*?</script>\s*<script>kernelName = .*?</script>', "", html, flags=re.DOTALL)
    html = re.sub(r'<div class="toctree-wrapper compound">\s*</div>', "", html)
    html = html.replace(' role="list" class="citation-list"', "").replace(' role="doc-biblioentry"', "")
    html = re.sub(r' id="(proof|solution|exercise)-content"', "", html)
    html = re.sub(r'<div class="proof admonition"( id="[^"]*")>(\s*<p>)Proof\. ', begin_proof, html)
    html = html.replace('<th class="head"><p></p></th>', "<td></td>")
    html = HINT.sub(r'<details class="sd-dropdown"><summary>\1</summary><div class="sd-summary-content">\2</div></details>', html)
    html = STUB.sub(r'<span class="stub">\1</span>', html)
    return html.replace(' aria-label="Toggle hidden content"', "")


def begin_proof(found):
    """The beginning of a proof; all proofs without a label have the same id, which is dropped."""
    name = "" if found.group(1) == ' id="proof"' else found.group(1)
    return f'<div class="argument admonition"{name}>{found.group(2)}<em>Proof.</em> '


def in_reading_order(pages):
    """The pages as they are read: each chapter and its lab, though the list of contents has all chapters before all labs."""
    numbered = sorted(filter(NUMBERED.match, pages), key=lambda page: (NUMBERED.match(page)[1], page))
    others = [page for page in pages if page not in numbered]
    first = pages.index(numbered[0]) if numbered else len(pages)
    return others[:first] + numbered + others[first:]


def neighbour(app, page, step):
    """The link to the page before or after one, or None where there is none."""
    order = in_reading_order(list(app.builder.relations))
    place = order.index(page) + step if page in order else -1
    if not 0 <= place < len(order):
        return None
    other = order[place]
    return {"link": app.builder.get_relative_uri(page, other), "title": app.builder.render_partial(app.env.titles[other])["title"]}


def is_notebook(app, page):
    return page in app.env.found_docs and app.env.doc2path(page, base=False).endswith(".ipynb")


def prepare_page(app, page, template, context, doctree):
    """Give the template what it needs beyond what Sphinx gives it."""
    options = app.config.html_theme_options
    url = options["repository_url"]

    def asset(name):
        source = STATIC / name
        version = sha256(source.read_bytes()).hexdigest()[:8] if source.exists() else ""
        return context["pathto"](f"_static/{name}", 1) + (f"?v={version}" if version else "")

    context["asset"] = asset
    context["contents"] = lambda: mark(context["toctree"](collapse=False, maxdepth=1, titles_only=True, includehidden=True))
    context["headings"] = headings(context.get("toc"))
    context["address"] = url
    context["metatags"] = re.sub(r'<meta name="viewport"[^>]*>', "", context.get("metatags") or "").strip()
    if 'name="description"' not in context["metatags"]:
        context["metatags"] += describe(doctree)
    context["front_page"] = page == app.config.root_doc
    context["prev"], context["next"] = neighbour(app, page, -1), neighbour(app, page, 1)
    context["notebook"] = is_notebook(app, page)
    if context["notebook"]:
        path = app.env.doc2path(page, base=False)
        context["colab"] = parse(url).colab(path, options["repository_branch"])
        context["download"] = Path(path).name
    if "body" in context:
        context["body"] = tidy(context["body"])


def refuse_scripts(app, doctree, page):
    """Folds are `dropdown` directives, which need no script; the class that needs one is refused."""
    for node in doctree.findall(lambda n: isinstance(n, nodes.Element) and {"dropdown", "toggle"} & set(n.get("classes", []))):
        logger.warning("a fold that needs a script: put the text into a {dropdown} directive", location=node, type="unrolled", subtype="fold")


# The output


def copy_notebooks(app):
    """Put the notebooks beside their pages: the plain copies that Colab gets, so that they are readable anywhere."""
    try:
        commit, clean = colab.commit_here()
    except colab.Unplain:  # not a git repository: its copies would have nothing to install from
        for page in filter(lambda page: is_notebook(app, page), app.env.found_docs):
            shutil.copy(app.env.doc2path(page), Path(app.outdir) / app.env.doc2path(page, base=False))
        return []
    try:
        colab.make(app.outdir, commit, colab.load(Path(app.doctreedir).parent))
    except colab.Unplain as problem:
        logger.warning("%s", problem, type="unrolled", subtype="colab")
    if not clean:
        print(colab.behind(commit))
    return []


def finish(app, problem):
    """Write the first page and remove what no page uses."""
    if problem or app.builder.format != "html":
        return
    out = Path(app.outdir)
    (out / "index.html").write_text(REDIRECT.format(title=app.config.html_title, page=f"{app.config.root_doc}.html"), encoding="utf-8")
    (out / ".nojekyll").touch()
    kept = {path for pattern in KEPT_STATIC for path in (out / "_static").glob(pattern)}
    for path in sorted((out / "_static").rglob("*"), reverse=True):
        if path.is_file() and path not in kept:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    for folder in ("_sources", "_sphinx_design_static"):
        shutil.rmtree(out / folder, ignore_errors=True)


def setup(app):
    register_plugin("sphinxcontrib.bibtex.style.referencing", "author_year_round", RoundReferenceStyle)
    app.add_html_math_renderer("katex", (visit_math, None), (visit_math_block, None))
    app.connect("html-page-context", prepare_page, priority=900)
    app.connect("doctree-resolved", refuse_scripts)
    app.connect("doctree-resolved", keep_together)
    app.connect("html-collect-pages", copy_notebooks)
    app.connect("build-finished", finish, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
