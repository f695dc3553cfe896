"""The address of the repository: read it, make others from it, and point the course at another repository.

The address stands once, as `repository.url` in `_config.yml`. What must be written out elsewhere (install lines, badges,
the package's links) is made from it here, and `make repo URL=…` rewrites all of it.
"""

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {"_build", "__pycache__", "katex", "submitted", "autograded", "feedback"}
GITHUB = re.compile(r"https://github\.com/(?P<owner>[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)/(?P<name>[A-Za-z0-9._-]+?)(?:\.git)?/?")


class Address(NamedTuple):
    """A repository on GitHub."""

    owner: str
    name: str

    @property
    def slug(self):
        return f"{self.owner}/{self.name}"

    @property
    def url(self):
        return f"https://github.com/{self.slug}"

    @property
    def host(self):
        """The site on GitHub Pages, without the scheme and the last slash."""
        host = f"{self.owner.lower()}.github.io"
        return host if self.name.lower() == host else f"{host}/{self.name}"

    @property
    def site(self):
        return f"https://{self.host}/"

    def install(self, commit=""):
        """What the start-up line of a notebook installs; the copies for Colab name a commit."""
        return f"unrolled @ git+{self.url}" + (f"@{commit}" if commit else "")

    def colab(self, path, branch="colab"):
        """The link that opens a notebook of the repository in Colab."""
        return f"https://colab.research.google.com/github/{self.slug}/blob/{branch}/{path}"


def parse(url):
    """The address in a URL such as https://github.com/owner/name; ValueError where it is none."""
    match = GITHUB.fullmatch(url.strip())
    if match is None:
        raise ValueError(f"{url!r} is not the address of a repository on GitHub. Expected: https://github.com/owner/name")
    return Address(match["owner"], match["name"])


def current(root=ROOT):
    """The address in `_config.yml`."""
    return parse(yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"])


def files(root=ROOT):
    """The text files in which an address can stand: all but what is built, vendored, handed in, hidden or not text."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not skipped(name))
        for path in (Path(folder) / name for name in sorted(names)):
            try:
                yield path, path.read_bytes().decode()
            except UnicodeDecodeError:
                continue


def skipped(folder):
    """Whether nothing of ours stands in folders of this name."""
    return folder in SKIPPED or folder.endswith(".egg-info") or folder.startswith(".") and folder not in (".ci", ".github")


def mentions(text, address):
    """How often a text names a repository or its site."""
    return sum(len(pattern.findall(text)) for pattern in patterns(address))


def patterns(address):
    """What names a repository in a text: its site, and its owner and name where they are not a part of longer names."""
    return (re.compile(rf"(?<![\w.-]){re.escape(address.host)}(?![\w-]|\.\w)"),
            re.compile(rf"(?<![\w.-]){re.escape(address.slug)}(?![\w-])"))


def point(text, old, new):
    """The text with every mention of one repository replaced by another."""
    for pattern, replacement in zip(patterns(old), (new.host, new.slug)):
        text = pattern.sub(lambda match: replacement, text)
    return text


def move(new, root=ROOT):
    """Point every file at another repository; return the files that changed."""
    old, changed = current(root), []
    for path, text in list(files(root)):
        pointed = point(text, old, new)
        if pointed != text:
            path.write_bytes(pointed.encode())
            changed.append(path.relative_to(root))
    return changed


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: address.py https://github.com/owner/name")
    try:
        changed = move(parse(sys.argv[1]))
    except ValueError as problem:
        sys.exit(str(problem))
    print(*(changed or ["Nothing to change."]), sep="\n")
