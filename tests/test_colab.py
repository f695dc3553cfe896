"""The Colab copies: each construct of MyST in plain Markdown, and the copies of the real chapters and labs."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("myst_parser", reason="the Colab copies are made in the site's environment")
from bs4 import BeautifulSoup  # noqa: E402
from markdown_it import MarkdownIt  # noqa: E402
from mdit_py_plugins.dollarmath import dollarmath_plugin  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import address  # noqa: E402
import colab  # noqa: E402
import notebooks  # noqa: E402

HERE = address.Address("owner", "name")
BASE = HERE.site + "book/"
SITE = colab.Site(
    address=HERE,
    pages={
        "book/01_first": colab.Target("page", "", "First chapter", f"{BASE}01_first.html"),
        "book/notation": colab.Target("page", "", "Notation", f"{BASE}notation.html"),
    },
    labels={
        "eq-step": colab.Target("equation", "1.1", "", f"{BASE}01_first.html#equation-eq-step"),
        "thm-bound": colab.Target("theorem", "1.2", "Theorem", f"{BASE}01_first.html#thm-bound"),
        "ex-bound": colab.Target("exercise", "1.3", "Exercise", f"{BASE}01_first.html#ex-bound"),
        "fig-latch": colab.Target("figure", "1.4", "A latch", f"{BASE}01_first.html#fig-latch"),
        "sec-latch": colab.Target("section", "", "The latch", f"{BASE}01_first.html#sec-latch"),
    },
    terms={"hidden state": f"{BASE}glossary.html#term-hidden-state"},
    citations={
        "elman": ("Elman", "1990", f"{BASE}bibliography.html#cite-elman"),
        "hochreiter": ("Hochreiter and Schmidhuber", "1997", f"{BASE}bibliography.html#cite-hochreiter"),
    },
)


@pytest.fixture
def page(tmp_path):
    (tmp_path / "dot.png").write_bytes(base64.b64decode("iVBORw0KGgo="))
    return colab.Page(SITE, "book/01_first", tmp_path)


def render(text):
    """What a plain renderer of CommonMark and mathematics makes of a text, as HTML."""
    return MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, allow_labels=False, double_inline=True).render(text)


def visible(text):
    """The words that a reader of the plain rendering sees, formulas and code set aside."""
    soup = BeautifulSoup(render(text), "html.parser")
    for piece in soup.select(".math, code, pre"):
        piece.replace_with(" ")
    return soup.get_text(" ")


DEAD = re.compile(r":::|^\s*:\w[\w-]*:\s|\{[a-z][\w:-]*\}|\)=\s*$|\{\{|\$\$|\[\^|(?<!\w)\((?:eq|fig|thm|def|ex|sec)-[\w-]+\)", re.MULTILINE)

INLINE = {
    "{eq}`eq-step`": f"[(1.1)]({BASE}01_first.html#equation-eq-step)",
    "{prf:ref}`thm-bound`": f"[Theorem 1.2]({BASE}01_first.html#thm-bound)",
    "{prf:ref}`this bound <thm-bound>`": f"[this bound]({BASE}01_first.html#thm-bound)",
    "{numref}`fig-latch`": f"[Figure 1.4]({BASE}01_first.html#fig-latch)",
    "{numref}`Picture %s <fig-latch>`": f"[Picture 1.4]({BASE}01_first.html#fig-latch)",
    "{ref}`sec-latch`": f"[The latch]({BASE}01_first.html#sec-latch)",
    "{ref}`ex-bound`": f"[Exercise 1.3]({BASE}01_first.html#ex-bound)",
    "{ref}`there <sec-latch>`": f"[there]({BASE}01_first.html#sec-latch)",
    "{doc}`notation`": f"[Notation]({BASE}notation.html)",
    "{doc}`the letters <notation>`": f"[the letters]({BASE}notation.html)",
    "{term}`hidden state`": f"[hidden state]({BASE}glossary.html#term-hidden-state)",
    "{term}`states <hidden state>`": f"[states]({BASE}glossary.html#term-hidden-state)",
    "{cite:t}`elman`": f"Elman ([1990]({BASE}bibliography.html#cite-elman))",
    "{cite:p}`elman,hochreiter`": f"([Elman, 1990]({BASE}bibliography.html#cite-elman), "
                                  f"[Hochreiter and Schmidhuber, 1997]({BASE}bibliography.html#cite-hochreiter))",
    "{math}`x_t`": "$x_t$",
    "x{sub}`t`": "x<sub>t</sub>",
    "[](#sec-latch)": f"[The latch]({BASE}01_first.html#sec-latch)",
    "[](#eq-step)": f"[(1.1)]({BASE}01_first.html#equation-eq-step)",
    "[above](#sec-latch)": f"[above]({BASE}01_first.html#sec-latch)",
    "[the first](01_first.ipynb)": f"[the first]({BASE}01_first.html)",
    "[](notation.md)": f"[Notation]({BASE}notation.html)",
    "[x](../book/notation.md)": f"[x]({BASE}notation.html)",
    "[letters](notation.md#shapes)": f"[letters]({BASE}notation.html#shapes)",
    "[out](https://example.org/a_(b))": "[out](https://example.org/a_(b))",
    "[see {eq}`eq-step`](https://example.org)": f"[see [(1.1)]({BASE}01_first.html#equation-eq-step)](https://example.org)",
    "`{eq}` and ``{eq}`eq-step` ``": "`{eq}` and ``{eq}`eq-step` ``",
    "$\\{a\\}$ costs \\$5 and $f(x)[1](2)$": "$\\{a\\}$ costs \\$5 and $f(x)[1](2)$",
    "![a dot](dot.png)": "![a dot](data:image/png;base64,iVBORw0KGgo=)",
}  # fmt: skip

BLOCKS = {
    "$$\nh = 1\n$$ (eq-step)": "$$\nh = 1\n\\tag{1.1}\n$$",
    "$$h = 1$$": "$$\nh = 1\n$$",
    "$$\nh = 5\\,\\%\n$$": "$$\nh = 5\\,\\%\n$$",
    "```{math}\n:label: eq-step\nh = 1\n```": "$$\nh = 1\n\\tag{1.1}\n$$",
    "(sec-latch)=\n## The latch": "## The latch",
    "{.wide}\nWords": "Words",
    "% a comment\n\nWords": "Words",
    ":::{prf:theorem} Bound on $x$\n:label: thm-bound\nAs {eq}`eq-step`:\n\n$$\na\n\\le b\n$$ (eq-step)\n:::":
        f"> **Theorem 1.2 (Bound on $x$)**\n>\n> As [(1.1)]({BASE}01_first.html#equation-eq-step):\n>\n> $$ a \\le b \\tag{{1.1}} $$",
    ":::{prf:remark}\n:nonumber:\nWords.\n:::": "> **Remark**\n>\n> Words.",
    ":::{prf:proof}\nClear.\n\nQuite.\n:::": "> *Proof.* Clear.\n>\n> Quite.",
    ":::{exercise} Bound\n:label: ex-bound\nDo.\n:::": "> **Exercise 1.3 (Bound)**\n>\n> Do.",
    ":::{solution} ex-bound\nDone.\n:::": "<details><summary>Solution to Exercise 1.3</summary>\n\nDone.\n\n</details>",
    ":::{dropdown} The *answer* for $a<b$\nYes.\n\n- a list\n:::":
        "<details><summary>The <em>answer</em> for $a&lt;b$</summary>\n\nYes.\n\n- a list\n\n</details>",
    ":::{note}\nWords.\n:::": "> **Note**\n>\n> Words.",
    ":::{note} Words.\n:::": "> **Note**\n>\n> Words.",
    ":::{admonition} Predict, then run\n:class: tip\nWords.\n:::": "> **Predict, then run**\n>\n> Words.",
    "::::{exercise} Bound\n:label: ex-bound\nDo.\n\n:::{dropdown} Answer\nYes.\n:::\n::::":
        "> **Exercise 1.3 (Bound)**\n>\n> Do.\n>\n> <details><summary>Answer</summary>\n>\n> Yes.\n>\n> </details>",
    "```{image} dot.png\n:alt: a dot\n```": "![a dot](data:image/png;base64,iVBORw0KGgo=)",
    "```{figure} dot.png\n:name: fig-latch\n:alt: a dot\nA *latch*.\n```":
        "![a dot](data:image/png;base64,iVBORw0KGgo=)\n\n**Figure 1.4.** A *latch*.",
    "```python\nx = {eq}\n:::\n```": "```python\nx = {eq}\n:::\n```",
    "- one {term}`hidden state`\n- two\n\n  ```python\n  {eq}`no`\n  ```":
        f"- one [hidden state]({BASE}glossary.html#term-hidden-state)\n- two\n\n  ```python\n  {{eq}}`no`\n  ```",
    "| a | b |\n|---|---|\n| {doc}`notation` | 1 |": f"| a | b |\n|---|---|\n| [Notation]({BASE}notation.html) | 1 |",
    "> quoted {doc}`notation`": f"> quoted [Notation]({BASE}notation.html)",
}  # fmt: skip


@pytest.mark.parametrize("source", INLINE)
def test_inline_construct_in_plain_markdown(page, source):
    assert colab.markdown(page, f"Here {source} there.") == f"Here {INLINE[source]} there."


@pytest.mark.parametrize("source", BLOCKS)
def test_block_in_plain_markdown(page, source):
    plain = colab.markdown(page, f"Before.\n\n{source}\n\nAfter.")
    assert plain == f"Before.\n\n{BLOCKS[source]}\n\nAfter."
    assert not DEAD.search(visible(plain))


@pytest.mark.parametrize("source, named", {
    "{nonsense}`x`": "nonsense",
    ":::{nonsense} x\n:::": "nonsense",
    ":::{prf:theorem} Without a label\nx\n:::": "label",
    "{eq}`eq-absent`": "eq-absent",
    "{eq}`fig-latch`": "fig-latch",
    "{numref}`sec-latch`": "no number",
    "{prf:ref}`eq-step`": "eq-step",
    "{term}`absent`": "absent",
    "{cite:t}`absent`": "absent",
    "{doc}`absent`": "absent",
    "[x](absent.md)": "absent.md",
    "![x](absent.png)": "absent.png",
    "words[^1]\n\n[^1]: note": "footnote",
    "term\n: definition": "dl",
    "<project:#x>": "project",
    "- a\n\n  :::{note}\n  x\n  :::": "inside a list",
    "$$\na % b\n$$": "comment",
    ":::{note}\n:class: dropdown\nx\n:::": "dropdown",
}.items())  # fmt: skip
def test_unknown_construct_is_an_error_that_names_it_and_its_cell(page, source, named):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_markdown_cell(source, id="here")])
    with pytest.raises(colab.Unplain, match=rf"book/01_first, cell 1 \(here\).*{re.escape(named)}"):
        colab.convert(notebook, page, "abc")


def test_renderer_sees_what_is_dead():
    for dead in (":::{note}\nx\n:::", "{eq}`x`", "(sec-latch)=\n# x", "$$\nx\n$$ (eq-step)", "a[^1]"):
        assert DEAD.search(visible(dead)), dead


def notebook_of(*cells):
    return nbformat.v4.new_notebook(cells=list(cells))


def test_caption_becomes_a_cell_below_the_figure(page):
    output = nbformat.v4.new_output("display_data", data={"text/plain": "Figure: a latch"})
    figure = {"figure": {"name": "fig-latch", "caption": "A latch, by {eq}`eq-step`."}, "image": {"alt": "A latch"}}
    cell = nbformat.v4.new_code_cell("draw()", id="latch", metadata={"mystnb": figure}, outputs=[output], execution_count=1)
    code, caption = colab.convert(notebook_of(cell), page, "abc").cells
    assert code.outputs == [output] and code.metadata == {}
    assert caption.source == f"**Figure 1.4.** A latch, by [(1.1)]({BASE}01_first.html#equation-eq-step)."
    assert (code.id, caption.id) == ("latch", "latch-caption")


def test_tags_fold_code_and_drop_outputs(page):
    output = nbformat.v4.new_output("stream", name="stdout", text="x")
    cells = [nbformat.v4.new_code_cell("x", metadata={"tags": [tag]}, outputs=[output]) for tag in ("hide-input", "remove-output", "other")]
    hidden, emptied, other = colab.convert(notebook_of(*cells), page, "abc").cells
    assert hidden.metadata == {"cellView": "form"} and hidden.source.startswith("# @title") and hidden.outputs
    assert emptied.outputs == [] and emptied.source == "x"
    assert other.source == "x" and other.outputs


def test_what_grading_reads_is_kept(page):
    marks = {"nbgrader": {"grade": True, "grade_id": "a", "points": 2}, "tags": ["setup"]}
    cells = [nbformat.v4.new_code_cell("x", metadata=marks | {"other": 1}), nbformat.v4.new_markdown_cell("Words.", metadata=marks | {"other": 1}),
             nbformat.v4.new_code_cell("x", metadata={"tags": ["remove-cell"]})]  # fmt: skip
    assert [cell.metadata for cell in colab.convert(notebook_of(*cells), page, "abc").cells] == [marks, marks, {}]


def test_install_line_names_the_commit(page):
    start = f'%pip install -q "unrolled @ git+{HERE.url}"'
    (cell,) = colab.convert(notebook_of(nbformat.v4.new_code_cell(start)), page, "0123abc").cells
    assert cell.source == f'%pip install -q "unrolled @ git+{HERE.url}@0123abc"'


def test_attachment_is_an_error(page):
    cell = nbformat.v4.new_markdown_cell("![x](attachment:x.png)", attachments={"x.png": {"image/png": ""}})
    with pytest.raises(colab.Unplain, match="attached"):
        colab.convert(notebook_of(cell), page, "abc")


@pytest.mark.parametrize("people, names", [
    (["Elman, Jeffrey"], "Elman"),
    (["Hochreiter, Sepp", "Schmidhuber, Jürgen"], "Hochreiter and Schmidhuber"),
    (["Bengio, Yoshua", "Simard, Patrice", "Frasconi, Paolo"], "Bengio et al."),
])  # fmt: skip
def test_three_authors_are_the_first_and_others(people, names):
    from pybtex.database import Entry, Person

    entry = Entry("article", fields={"year": "1990"}, persons={"author": [Person(name) for name in people]})
    assert colab.author_year(entry) == (names, "1990")


def test_no_build_is_an_error(tmp_path):
    with pytest.raises(colab.Unplain, match="make book"):
        colab.load(tmp_path)


# ---------------------------------------------------------------- the copies of chapters and labs


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """The copies of all chapters and labs, as (path in the repository, notebook)."""
    folder = tmp_path_factory.mktemp("colab")
    paths = [path.relative_to(folder) for path in colab.make(folder, "0" * 40, colab.load())]
    assert [ROOT / path for path in paths] == [*colab.chapters(), *colab.labs()] and colab.chapters() and colab.labs()
    return [(path, nbformat.read(folder / path, as_version=4)) for path in paths]


@pytest.fixture(scope="module")
def built():
    """Every page of the built site by its URL."""
    base, html = address.current().site, ROOT / "_build" / "html"
    return {base + str(path.relative_to(html)): BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
            for path in html.rglob("*.html")}  # fmt: skip


def texts(notebook):
    return [(cell.id, cell.source) for cell in notebook.cells if cell.cell_type == "markdown"]


@pytest.mark.site
def test_copies_show_nothing_dead(copies):
    for path, notebook in copies:
        nbformat.validate(notebook)
        for cell, text in texts(notebook):
            assert not (dead := DEAD.search(visible(text))), f"{path.name}, cell {cell}: {dead[0]!r}"
            assert not (left := colab.leftovers(text)), f"{path.name}, cell {cell}: {left}"


@pytest.mark.site
def test_links_of_copies_resolve(copies, built):
    base, count = address.current().site, 0
    for path, notebook in copies:
        for cell, text in texts(notebook):
            for anchor in BeautifulSoup(render(text), "html.parser").select("a[href], img[src]"):
                url = anchor.get("href") or anchor.get("src")
                count += 1
                assert re.match(r"https?://|data:image/", url), f"{path.name}, cell {cell}: {url}"
                if url.startswith(base):
                    target, _, fragment = url.partition("#")
                    assert target in built, f"{path.name}, cell {cell}: {url} leads to no page"
                    assert not fragment or built[target].find(id=fragment), f"{path.name}, cell {cell}: {url} leads to no place"
    assert count > 0


@pytest.mark.site
def test_numbers_of_copies_are_those_of_the_site(copies, built):
    base = address.current().site
    for path, notebook in copies:
        site = built[f"{base}{path.with_suffix('.html')}"].select_one("article")
        text = "\n".join(text for _, text in texts(notebook))
        equations = {number.get_text().split(")")[0].strip("(# ") for number in site.select(".eqno")}
        heads = {re.sub(r"\s+", " ", head.get_text()).strip() for head in site.select(".proof .caption-number, .exercise .caption-number")}
        figures = {head.get_text().strip() for head in site.select("figure .caption-number")}
        assert set(re.findall(r"\\tag\{([^}]*)\}", text)) == equations
        assert set(re.findall(r"> \*\*((?:%s) [\d.]+)" % "|".join(map(str.capitalize, (*colab.STATEMENTS, "exercise"))), text)) == heads
        assert set(re.findall(r"\*\*(Figure [\d.]+)\.\*\*", text)) == figures


@pytest.mark.site
def test_copies_keep_outputs_and_pin_the_install_line(copies):
    for path, copy in copies:
        original = [cell for cell in notebooks.read(ROOT / path).cells if cell.cell_type == "code"]
        code = [cell for cell in copy.cells if cell.cell_type == "code"]
        kept = [[] if colab.EMPTIED.intersection(cell.metadata.get("tags", [])) else cell.outputs for cell in original]
        assert any(kept) == (ROOT / path in colab.chapters()) and [cell.outputs for cell in code] == kept
        assert code[0].source.count("0" * 40) == 1
        assert all(a.source == b.source for a, b in zip(code[1:], original[1:]) if not b.metadata.get("tags"))


@pytest.mark.site
def test_copies_of_labs_are_the_student_copies_but_for_links_and_the_commit(copies):
    for path, copy in (pair for pair in copies if ROOT / pair[0] in colab.labs()):
        original = notebooks.read(ROOT / path)
        assert [cell.id for cell in copy.cells] == [cell.id for cell in original.cells]
        for mine, given in zip(copy.cells, original.cells):
            assert mine.metadata.get("nbgrader") == given.metadata.get("nbgrader"), mine.id
            assert not given.metadata.get("nbgrader") or mine.source == given.source, mine.id
            assert re.sub(r"\]\([^)]*\)", "]", mine.source).replace("@" + "0" * 40, "") == re.sub(r"\]\([^)]*\)", "]", given.source), mine.id


# ---------------------------------------------------------------- the run on Colab's versions


def test_cold_run_compares_texts_strictly_but_lets_the_installer_speak():
    import cold

    def notebook(first, second):
        out = [nbformat.v4.new_output("stream", text=piece) for piece in second]
        return notebook_of(nbformat.v4.new_code_cell("start", outputs=[nbformat.v4.new_output("stream", text=first)]), nbformat.v4.new_code_cell("x", outputs=out))

    stored = notebook("On the CPU.\n", ["a\nb\n"])
    assert cold.differences(stored, notebook("Note: restart.\nOn the CPU.\n", ["a\n", "b\n"])) == []
    assert len(cold.differences(stored, notebook("On the GPU.\n", ["a\nb\n"]))) == 1
    assert len(cold.differences(stored, notebook("On the CPU.\n", ["a\nc\n"]))) == 1


def lab(*outputs, solution="raise NotImplementedError(\"f: return 'x', an array (T,).\")"):
    """A lab of four code cells, as far as it ran; `outputs` has the outputs of each cell that did."""
    ids, sources = ("start", "f", "number", "f-check"), ("runtime.start()", f"def f(x):\n    {solution}", "print(f(1))", "check.f(f)")
    cells = [nbformat.v4.new_markdown_cell("Replace `raise NotImplementedError(...)`.")]
    for place, (name, source) in enumerate(zip(ids, sources)):
        ran = {"outputs": outputs[place], "execution_count": place + 1} if place < len(outputs) else {}
        cells.append(nbformat.v4.new_code_cell(source, id=name, metadata={"nbgrader": {"solution": name == "f"}}, **ran))
    return notebook_of(*cells)


def stream(text):
    return [nbformat.v4.new_output("stream", text=text)]


def error(kind, words):
    return [nbformat.v4.new_output("error", ename=kind, evalue=words, traceback=[])]


@pytest.mark.parametrize("outputs, problem", [
    ([[], [], error("NotImplementedError", "f: return 'x', an array (T,).")], None),
    ([[], [], error("NotImplementedError", "")], "cell number ended with NotImplementedError: . Expected the stub's words: f: return 'x'"),
    ([[], error("NameError", "f")], "cell f ended with NameError: f."),
    ([[], []], "cell number did not run"),
    ([[], [], [], []], "no cell met a stub"),
])  # fmt: skip
def test_cold_run_of_a_lab_stops_at_its_first_stub_and_nowhere_else(outputs, problem):
    import cold

    found = cold.stop(lab(*outputs))
    assert found == "" if problem is None else problem in found


def test_cold_run_of_a_solved_lab_expects_what_the_master_shows_but_for_hidden_tests():
    import cold

    master = lab([], [], stream("2\n"), stream("f: visible checks passed.\nf: hidden checks passed.\n"), solution="return x")
    solved = cold.solved(lab(), master)
    assert [cell.source for cell in solved.cells[1:]] == [cell.source for cell in master.cells[1:]]
    assert cold.differences(solved, lab([], [], stream("2\n"), stream("f: visible checks passed.\n"))) == []
    assert len(cold.differences(solved, lab([], [], stream("3\n"), stream("f: visible checks passed.\n")))) == 1
    assert cold.master_of(Path("/x/labs/release/lab09/lab09.ipynb"), Path("/x")) == ROOT / "labs/source/lab09/lab09.ipynb"
    assert cold.master_of(Path("/x/book/09.ipynb"), Path("/x")) is None


def test_cold_run_tests_uncommitted_changes_as_a_commit(tmp_path, monkeypatch, capsys):
    import cold

    def git(*words):
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path / "here", check=True, capture_output=True)

    (tmp_path / "here").mkdir()
    for name in ("kept", "gone", "changed"):
        (tmp_path / "here" / name).write_text("old")
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "-m", "first")
    monkeypatch.setattr(cold, "ROOT", tmp_path / "here")
    first = cold.clone(tmp_path / "clean")
    assert first == cold.git("rev-parse", "HEAD", folder=tmp_path / "here").strip() and capsys.readouterr().out == ""
    (tmp_path / "here" / "gone").unlink()
    (tmp_path / "here" / "changed").write_text("new")
    (tmp_path / "here" / "added").write_text("new")
    second = cold.clone(tmp_path / "dirty")
    assert second != first and "uncommitted changes" in capsys.readouterr().out
    assert {path.name: path.read_text() for path in (tmp_path / "dirty").iterdir() if path.is_file()} == {"kept": "old", "changed": "new", "added": "new"}
    assert cold.git("rev-parse", "HEAD", folder=tmp_path / "here").strip() == first
