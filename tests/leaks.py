"""Looks in what is published for what is kept from students: lines of solutions, lines of hidden tests, a seed.

Trusts no form of packing: archives are opened, notebooks and other JSON are read as such, tags are taken from pages, and
blanks are left out before a line is looked for, so that neither indentation nor colours nor line breaks hide it.
"""

import html
import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

REGION = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)[^\n]*\n(.*?)[ \t]*### END \1", re.DOTALL)
MARK = re.compile(r"###BEGIN(SOLUTION|HIDDENTESTS)")
TELLING = 24  # letters, without blanks; shorter lines may stand anywhere


def squeezed(text):
    return re.sub(r"\s+", "", text)


def kept(masters, seed, public=""):
    """What must not be found, each with what it is: the telling lines of solutions, all lines of hidden tests, the seed.

    A line that stands in the text `public` too, which the course shows to all, tells nothing.
    """
    found, public = {squeezed(seed): "the seed"}, squeezed(public)
    for master in masters:
        for cell in json.loads(Path(master).read_text(encoding="utf-8"))["cells"]:
            for kind, lines in REGION.findall("".join(cell["source"])):
                for line in map(squeezed, lines.split("\n")):
                    if line and (kind == "HIDDEN TESTS" or len(line) >= TELLING and line not in public):
                        found[line] = f"{'a hidden test' if kind == 'HIDDEN TESTS' else 'a line of the solution'} of {cell['id']}"
    return found


def leaks(path, secrets):
    """What is found of the secrets in a file, an archive or a folder, as sentences."""
    for place, text in texts(Path(path)):
        text = squeezed(text)
        if mark := MARK.search(text):
            yield f"{place} holds {mark[0]}"
        yield from (f"{place} holds {what}: {line}" for line, what in secrets.items() if line in text)


def texts(path):
    """All that can be read in a file, an archive or a folder, as pairs of a place and a text."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield from texts(file)
    elif path.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield from forms(f"{path.name}/{name}", archive.read(name))
    elif path.suffix == ".gz" and ".tar" in path.suffixes:
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                if member.isfile():
                    yield from forms(f"{path.name}/{member.name}", archive.extractfile(member).read())
    else:
        yield from forms(str(path), path.read_bytes())


def forms(place, content):
    """A file as it is, without escapes, without tags, and as JSON, where it can be read so."""
    text = content.decode("utf-8", errors="replace")
    yield place, text
    if "<" in text:
        yield place, html.unescape(re.sub(r"<[^>]*>", "", text))
    if "\\n" in text or '\\"' in text:
        yield place, text.replace("\\n", "\n").replace('\\"', '"')
    try:
        yield place, "\n".join(strings(json.load(io.StringIO(text))))
    except ValueError:
        pass


def strings(tree):
    """All texts in a tree of JSON; lists of lines are put together."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for part in tree.values():
            yield from strings(part)
    elif isinstance(tree, list):
        if tree and all(isinstance(part, str) for part in tree):
            yield "".join(tree)
        else:
            for part in tree:
                yield from strings(part)
