"""Make the Colab copies: notebooks in plain Markdown, from chapters written in MyST and from the labs' student copies.

    python book/_ext/colab.py [folder]

Colab shows plain Markdown with mathematics and would print a directive as dead text. So in a copy a theorem is a quoted
block, a fold is `<details>`, a citation or a cross-reference is a link to the site, and a picture travels in its cell.
Numbers, titles and anchors are those of the site: they are read from its build, which must be there (`make book`).
The install line names the commit that the copy was made from. A construct that has no plain form is an error.
"""

import base64
import mimetypes
import pickle
import re
import subprocess
import sys
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import NamedTuple

import nbformat
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

import address
import notebooks

ROOT = address.ROOT
BUILD = ROOT / "_build"
EXTENSIONS = {"amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"}

ADMONITIONS = ("attention", "caution", "danger", "error", "hint", "important", "note", "seealso", "tip", "warning")
STATEMENTS = ("algorithm", "assumption", "axiom", "conjecture", "corollary", "criterion", "definition", "example", "lemma",
              "notation", "observation", "property", "proposition", "remark", "theorem")  # fmt: skip
FOLDED = {"hide-cell", "hide-input", "remove-input"}
EMPTIED = {"remove-output"}


class Unplain(ValueError):
    """A construct that has no form in plain Markdown."""


# ---------------------------------------------------------------- what the site says


class Target(NamedTuple):
    """A thing that a text can refer to: its kind, its number ("1.2") or "", its words, and its place on the site."""

    kind: str
    number: str
    words: str
    url: str

    @property
    def name(self):
        """The text of a reference to it: "(1.2)", "Theorem 1.2", or its words."""
        if self.kind == "equation":
            return f"({self.number})"
        return f"{self.kind.capitalize()} {self.number}" if self.number else self.words


class Site(NamedTuple):
    """What the build knows: the address, pages by name, labels, terms, and citations as (names, year, URL)."""

    address: address.Address
    pages: dict
    labels: dict
    terms: dict
    citations: dict


def load(build=BUILD):
    """The built site's pages, numbers and anchors, from the environment that Sphinx keeps."""
    path = build / ".doctrees" / "environment.pickle"
    if not path.exists():
        raise Unplain(f"No built site in {build}. Build it first: make book")
    environment = pickle.loads(path.read_bytes())
    here = address.current()

    def url(page, anchor=""):
        return f"{here.site}{page}.html" + (f"#{anchor}" if anchor else "")

    pages = {page: Target("page", "", title.astext(), url(page)) for page, title in environment.titles.items()}
    labels = {}
    for label, (page, anchor, words) in environment.domaindata["std"]["labels"].items():
        if page in pages:
            labels[label] = Target("section", "", str(words), url(page, anchor))
    for page, kinds in environment.toc_fignumbers.items():
        for kind, numbers in kinds.items():
            for anchor, number in numbers.items():
                label = anchor.removeprefix("equation-") if kind == "displaymath" else anchor
                kind_here = "equation" if kind == "displaymath" else kind
                words = labels[label].words if label in labels else ""
                labels[label] = Target(kind_here, ".".join(map(str, number)), words, url(page, anchor))
    for label, proof in environment.proof_list.items():
        if label not in labels:
            labels[label] = Target(proof["realtype"], "", proof["realtype"].capitalize(), url(proof["docname"], label))
    standard = environment.domaindata["std"]
    terms = {name.lower(): url(page, anchor) for (kind, name), (page, anchor) in standard["objects"].items() if kind == "term"}
    citations = {entry.key: (*author_year(entry.entry), url(entry.bibliography_key.docname, entry.citation_id))
                 for entry in environment.domaindata["cite"]["citations"]}  # fmt: skip
    return Site(here, pages, labels, terms, citations)


def author_year(entry):
    """The names and the year by which a text cites an entry: ("Hochreiter and Schmidhuber", "1997")."""
    from pybtex.richtext import Text

    people = entry.persons.get("author") or entry.persons.get("editor") or []
    names = [str(Text.from_latex(" ".join(person.prelast_names + person.last_names))) for person in people]
    if len(names) > 2:
        names = [f"{names[0]} et al."]
    return " and ".join(names), entry.fields.get("year", "n.d.")


# ---------------------------------------------------------------- one line of text


INLINE = re.compile(r"""
    (?P<escape>\\.)
  | \{(?P<role>[a-zA-Z][\w:.+-]*)\}(?P<fence>`+)(?P<content>.+?)(?<!`)(?P=fence)(?!`)
  | (?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))
  | (?P<mathematics>\$\$.+?\$\$|\$(?=\S)(?:\\.|[^\\$])+?(?<=\S)\$)
  | (?P<footnote>\[\^[^\]]+\])
  | (?P<picture>!?)\[(?P<words>(?:\\.|`[^`]*`|\$[^$]*\$|\[[^\[\]]*\]|[^\[\]\\])*)\]\((?P<to><[^>]*>|[^()\s]*(?:\([^()]*\)[^()\s]*)*)(?P<title>\s+"[^"]*")?\)
  | <(?P<automatic>[a-z][a-z+.-]*:[^\s<>]*)>
""", re.VERBOSE | re.DOTALL)  # fmt: skip


class Page(NamedTuple):
    """Where a text stands: the site, the page's name ("book/01_vanilla_rnn") and its folder."""

    site: Site
    name: str
    folder: Path

    def label(self, name, kind=""):
        """The target of a label; Unplain where the site has none, or one of another kind."""
        target = self.site.labels.get(name) or self.site.labels.get(name.lower())
        if target is None:
            raise Unplain(f"the label {name!r} is nowhere on the site")
        if kind and target.kind != kind:
            raise Unplain(f"the label {name!r} is of a {target.kind}, not of a {kind}")
        return target

    def page(self, path):
        """The page at a path that is relative to this one, with or without its ending."""
        name = str(Path(re.sub(r"\.(md|ipynb)$", "", path)))
        folder = Path(self.name).parent
        parts = []
        for part in (folder / name if not path.startswith("/") else Path(name[1:])).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        target = self.site.pages.get("/".join(parts))
        if target is None:
            raise Unplain(f"the link {path!r} leads to no page of the site")
        return target


def link(words, url):
    return f"[{words}]({url})"


def explicit(content):
    """The words and the target of a role's content: "words <target>", or the target alone."""
    match = re.fullmatch(r"(.+?)\s*<([^<>]+)>", content, re.DOTALL)
    return (match[1], match[2].strip()) if match else (None, content.strip())


def reference(page, content, kind=""):
    words, label = explicit(content)
    target = page.label(label, kind)
    return link(words or target.name or target.words, target.url)


def numbered(page, content):
    words, label = explicit(content)
    target = page.label(label)
    if not target.number:
        raise Unplain(f"{label!r} has no number")
    words = (words or "").replace("%s", target.number).replace("{number}", target.number).replace("{name}", target.words)
    return link(words or target.name, target.url)


def statement_reference(page, content):
    words, label = explicit(content)
    target = page.label(label)
    if target.kind not in STATEMENTS:
        raise Unplain(f"{label!r} is of a {target.kind}, not of a theorem or the like")
    return link(words or target.name, target.url)


def section_reference(page, content):
    words, label = explicit(content)
    target = page.label(label)
    return link(words or (target.name if target.kind == "exercise" else target.words), target.url)


def page_reference(page, content):
    words, path = explicit(content)
    target = page.page(path)
    return link(words or target.words, target.url)


def term(page, content):
    words, name = explicit(content)
    url = page.site.terms.get(name.lower())
    if url is None:
        raise Unplain(f"the term {name!r} is not in the glossary")
    return link(words or name, url)


def citation(page, content, textual):
    """Elman (1990) where the names are a part of the sentence, (Elman, 1990) where they are not."""
    pieces = []
    for key in (key.strip() for key in content.split(",")):
        if key not in page.site.citations:
            raise Unplain(f"the citation {key!r} is not in the bibliography")
        names, year, url = page.site.citations[key]
        pieces.append(f"{names} ({link(year, url)})" if textual else link(f"{names}, {year}", url))
    return ", ".join(pieces) if textual else f"({', '.join(pieces)})"


def tagged(tag, page, content):
    return f"<{tag}>{escape(content)}</{tag}>"


ROLES = {
    "cite:p": partial(citation, textual=False),
    "cite:t": partial(citation, textual=True),
    "doc": page_reference,
    "eq": partial(reference, kind="equation"),
    "kbd": partial(tagged, "kbd"),
    "math": lambda page, content: f"${content}$",
    "numref": numbered,
    "prf:ref": statement_reference,
    "ref": section_reference,
    "sub": partial(tagged, "sub"),
    "sup": partial(tagged, "sup"),
    "term": term,
}


def destination(page, to):
    """Where a link leads from a copy: out into the world, or to the site."""
    to = to.strip("<>")
    if re.match(r"(https?|mailto):", to):
        return to, ""
    path, _, anchor = to.partition("#")
    if not path:
        if anchor in page.site.labels:
            return page.label(anchor).url, page.label(anchor).name or page.label(anchor).words
        return f"{page.site.pages[page.name].url}#{anchor}", ""
    target = page.page(path)
    if anchor in page.site.labels and page.label(anchor).url.startswith(target.url):
        return page.label(anchor).url, page.label(anchor).words
    return target.url + (f"#{anchor}" if anchor else ""), target.words


def picture(page, path):
    """A picture as a data URI."""
    if re.match(r"(https?|data):", path):
        return path
    file = page.folder / path.strip("<>")
    kind = mimetypes.guess_type(file.name)[0]
    if not file.is_file() or not (kind or "").startswith("image/"):
        raise Unplain(f"the picture {path!r} is not a picture beside the notebook")
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def inline(page, text):
    """A text without blocks, in plain Markdown."""

    def plain(match):
        if match["role"]:
            if match["role"] not in ROLES:
                raise Unplain(f"the role {{{match['role']}}} has no plain form; there is one for {', '.join(sorted(ROLES))}")
            return ROLES[match["role"]](page, match["content"].strip())
        if match["footnote"]:
            raise Unplain(f"the footnote {match['footnote']} has no plain form: put it into the text or a fold")
        if match["automatic"] and not re.match(r"(https?|mailto):", match["automatic"]):
            raise Unplain(f"the link <{match['automatic']}> has no plain form: write [words](place)")
        if match["to"] is None:
            return match[0]
        if match["picture"]:
            return f"![{match['words']}]({picture(page, match['to'])}{match['title'] or ''})"
        url, words = destination(page, match["to"])
        return f"[{inline(page, match['words']) or words}]({url}{match['title'] or ''})"

    return INLINE.sub(plain, text)


# ---------------------------------------------------------------- blocks

ATTRIBUTES = re.compile(r"\{[.#%][^}]*\}\s*")


@cache
def parser():
    """The parser of the site, which tells where MyST's blocks begin and end."""
    return create_md_parser(MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML)


def quoted(text):
    """The text as a quoted block."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip("\n").splitlines())


def folded(summary, body):
    """The text under a summary that opens it."""
    return f"<details><summary>{summary}</summary>\n\n{body.strip()}\n\n</details>"


def summary(page, title):
    """A fold's title as HTML: Markdown is not read there, mathematics is."""
    spans = re.split(r"(\$[^$]+\$)", inline(page, title))
    return "".join(escape(span, quote=False) if span.startswith("$") else parser().renderInline(span) for span in spans)


def equation(page, content, label="", one_line=False):
    """A displayed equation with its number. In a quoted block it takes one line, for Colab finds mathematics before quotes."""
    if re.search(r"(?<!\\)%", content):
        raise Unplain("an equation with a % comment: take the comment out")
    lines = content.strip().splitlines()
    if label:
        lines.append(f"\\tag{{{page.label(label, 'equation').number}}}")
    return f"$$ {' '.join(line.strip() for line in lines)} $$" if one_line else "\n".join(["$$", *lines, "$$"])


def options(content):
    """The options at the head of a directive (`:label: thm-latch`) and the text below them."""
    found, lines = {}, content.splitlines()
    while lines and (match := re.fullmatch(r":([\w-]+):\s*(.*)", lines[0].strip())):
        found[match[1]] = match[2].strip()
        lines.pop(0)
    return found, "\n".join(lines).strip("\n")


def block(page, head, body):
    """A quoted block under a bold head."""
    return quoted(f"**{head}**\n\n{blocks(page, body, True)}")


def statement(kind, page, title, settings, body):
    """A numbered theorem, definition, exercise …"""
    head = kind.capitalize()
    if "nonumber" not in settings:
        if "label" not in settings:
            raise Unplain(f"this {kind} has no label, so its number is not known: add :label: to it, or :nonumber:")
        head += f" {page.label(settings['label']).number}"
    return block(page, f"{head} ({inline(page, title)})" if title else head, body)


def proof(page, title, settings, body):
    return quoted(blocks(page, f"*Proof.* {body}", True))


def solution(page, title, settings, body):
    target = page.label(title, "exercise")
    return folded(f"Solution to {target.name}", blocks(page, body))


def fold(page, title, settings, body):
    return folded(summary(page, title or "More"), blocks(page, body))


def admonition(page, title, settings, body):
    return block(page, inline(page, title), body)


def note(kind, page, title, settings, body):
    """A note; Jupyter Book reads words on the opening line as the first words of the text."""
    return block(page, "See also" if kind == "seealso" else kind.capitalize(), f"{title}\n\n{body}" if title else body)


def image(page, title, settings, body):
    return f"![{settings.get('alt', '')}]({picture(page, title)})"


def figure(page, title, settings, body):
    text = image(page, title, settings, body)
    if "name" not in settings:
        raise Unplain("this figure has no name, so its number is not known: add :name: to it")
    return f"{text}\n\n{caption(page, settings['name'], body)}"


def listing(page, title, settings, body):
    return f"```{title}\n{body}\n```"


DIRECTIVES = {
    **{f"prf:{kind}": partial(statement, kind) for kind in STATEMENTS},
    **{kind: partial(note, kind) for kind in ADMONITIONS},
    "admonition": admonition,
    "code-block": listing,
    "dropdown": fold,
    "exercise": partial(statement, "exercise"),
    "figure": figure,
    "image": image,
    "prf:proof": proof,
    "solution": solution,
}


def directive(page, info, content, in_quote):
    """A directive in plain Markdown."""
    match = re.fullmatch(r"\{([\w:.+-]+)\}\s*(.*)", info.strip())
    if match is None or match[1] not in (known := {*DIRECTIVES, "math"}):
        raise Unplain(f"the directive {info.strip()!r} has no plain form; there is one for {', '.join(sorted(known))}")
    settings, body = options(content)
    if match[1] == "math":
        return equation(page, f"{match[2]}\n{body}", settings.get("label", ""), in_quote)
    if "dropdown" in settings.get("class", ""):
        raise Unplain("a block of class dropdown: use the {dropdown} directive")
    return DIRECTIVES[match[1]](page, match[2].strip(), settings, body)


def blocks(page, text, in_quote=False):
    """A text of several blocks in plain Markdown."""
    lines = text.split("\n")
    tokens = parser().parse(text)
    out, done, depth = [], 0, 0
    for place, token in enumerate(tokens):
        if depth == 0 and token.map is not None:
            start, end = token.map
            out += between(lines[done:start], out)
            done = end
            closing = place if token.nesting == 0 else partner(tokens, place)
            plain = top(page, token, tokens[place + 1:closing], lines, in_quote)
            if plain is not None:
                out += plain.split("\n")
        depth += token.nesting
    return "\n".join(out + between(lines[done:], out)).strip("\n")


def between(lines, above):
    """The lines between two blocks, without attributes of the lower one and without a second empty line."""
    lines = [line for line in lines if not ATTRIBUTES.fullmatch(line)]
    return lines[1:] if lines and not lines[0] and (not above or not above[-1]) else lines


def partner(tokens, place):
    """The place of the token that closes the one at a place."""
    depth = 0
    for number in range(place, len(tokens)):
        depth += tokens[number].nesting
        if depth == 0:
            return number


def top(page, token, inside, lines, in_quote):
    """One block of the outermost level, or None where nothing of it is left."""
    source = "\n".join(lines[slice(*token.map)])
    if token.type in ("myst_target", "myst_line_comment", "myst_block_break", "attrs_block"):
        return None
    if token.type == "colon_fence" or token.type == "fence" and token.info.lstrip().startswith("{"):
        return directive(page, token.info, token.content, in_quote)
    if token.type in ("fence", "code_block", "html_block", "hr"):
        return source
    if token.type in ("math_block", "math_block_label"):
        return equation(page, token.content, token.info or "", in_quote)
    if token.type in ("heading_open", "paragraph_open", "table_open"):
        return inline(page, source)
    if token.type in ("bullet_list_open", "ordered_list_open", "blockquote_open"):
        return container(page, token, inside, lines)
    raise Unplain(f"a block of the kind {token.type.removesuffix('_open')} has no plain form:\n{source}")


def container(page, token, inside, lines):
    """A list or a quotation: its texts in plain form, all else as it is."""
    out = list(lines)
    for piece in inside:
        special = piece.type in ("colon_fence", "math_block_label", "amsmath", "myst_target", "dl_open")
        if special or piece.type == "fence" and piece.info.startswith("{"):
            raise Unplain(f"a {piece.type} inside a list or a quotation: take it out\n{piece.content}")
        if piece.type == "inline" and piece.map:
            start, end = piece.map
            out[start:end] = inline(page, "\n".join(lines[start:end])).split("\n")
    return "\n".join(out[slice(*token.map)])


def caption(page, name, words):
    """The caption of a figure under its number."""
    target = page.label(name, "figure")
    return f"**{target.name}.** {inline(page, words.strip())}"


LEFT = {"amsmath", "colon_fence", "dl_open", "footnote_block_open", "footnote_ref", "math_block_label", "myst_line_comment",
        "myst_role", "myst_target"}  # fmt: skip


def leftovers(text):
    """What a text still has that only the site understands, found by the site's own parser."""
    found, waiting = [], parser().parse(text)
    while waiting:
        token = waiting.pop()
        waiting += token.children or []
        if token.type in LEFT or token.type == "fence" and token.info.startswith("{"):
            found.append(token.content or token.type)
    return found


def markdown(page, text):
    """A Markdown cell in plain Markdown; Unplain where a construct has no plain form."""
    plain = blocks(page, text)
    if left := leftovers(plain):
        raise Unplain(f"{left[0]!r} was not understood")
    return plain


# ---------------------------------------------------------------- notebooks


def pin(source, here, commit):
    """The start-up line with the commit named."""
    return source.replace(f'"{here.install()}"', f'"{here.install(commit)}"')


def graded(cell):
    """What grading reads of a cell's metadata; nothing of a cell that it does not know."""
    return nbformat.from_dict({key: cell.metadata[key] for key in ("nbgrader", "tags") if "nbgrader" in cell.metadata and key in cell.metadata})


def code(page, cell, commit):
    """A code cell, and the caption of its figure as a cell of its own."""
    tags = set(cell.metadata.get("tags", []))
    figure = cell.metadata.get("mystnb", {}).get("figure", {})
    cell = nbformat.from_dict(cell)
    cell.metadata = graded(cell)
    cell.source = pin(cell.source, page.site.address, commit)
    below = []
    if figure.get("caption"):
        text = caption(page, figure["name"], figure["caption"])
        below = [nbformat.v4.new_markdown_cell(text, id=f"{cell['id'][:56]}-caption")]
    if FOLDED & tags:
        cell.metadata["cellView"] = "form"
        cell.source = f"# @title Code of {page.label(figure['name']).name if below else 'this cell'}\n{cell.source}"
    if EMPTIED & tags:
        cell.outputs = []
    return [cell, *below]


def convert(notebook, page, commit):
    """The copy of a notebook; Unplain, naming the cell, where a construct has no plain form."""
    copy = nbformat.from_dict(notebook)
    cells = []
    for number, cell in enumerate(notebook.cells):
        try:
            if cell.get("attachments"):
                raise Unplain("an attached picture: put it into the folder of the book")
            if cell.cell_type == "code":
                cells += code(page, cell, commit)
            elif cell.cell_type == "markdown" and (text := markdown(page, cell.source)):
                cells.append(nbformat.v4.new_markdown_cell(text, id=cell["id"], metadata=graded(cell)))
        except Unplain as problem:
            raise Unplain(f"{page.name}, cell {number} ({cell['id']}): {problem}") from None
    copy.cells = cells
    copy.metadata["colab"] = {"provenance": [], "toc_visible": True}
    return copy


def chapters(root=ROOT):
    """The chapters' notebooks."""
    return sorted((root / "book").glob("[0-9]*.ipynb"))


def labs(root=ROOT):
    """The labs' student copies."""
    return sorted((root / "labs" / "release").glob("lab[0-9]*/lab[0-9]*.ipynb"))


def commit_here(root=ROOT):
    """The commit that the copies name, and whether all that is here is in it."""
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), not git("status", "--porcelain")
    except (OSError, subprocess.CalledProcessError):
        raise Unplain("The copies name the commit that they were made from, and there is none: "
                      "make them in a git repository with a commit") from None


def behind(commit):
    """What to say where the copies are made from more than the commit that they name."""
    return f"Note: the notebooks' copies name commit {commit[:10]}, and there are changes here that are not in it."


def make(folder, commit, site, root=ROOT):
    """Write the copy of every chapter and lab into a folder, at the path that it has in the repository."""
    made = []
    for path in [*chapters(root), *labs(root)]:
        page = Page(site, str(path.relative_to(root).with_suffix("")), path.parent)
        target = Path(folder) / path.relative_to(root)
        copy = convert(notebooks.read(path), page, commit)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(notebooks.text(copy), encoding="utf-8")
        made.append(target)
    return made


def main(arguments):
    folder = arguments[0] if arguments else BUILD / "colab"
    commit, clean = commit_here()
    for path in make(folder, commit, load()):
        print(path)
    if not clean:
        print(behind(commit))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as problem:
        sys.exit(str(problem))
