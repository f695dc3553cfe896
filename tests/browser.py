"""Find the browser that the tests drive, or install one. Run as a script it prints the browser's path."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def find():
    """The path of a Chromium: $CHROMIUM, else the first of NAMES on the path, else Playwright's own, else None."""
    named = os.environ.get("CHROMIUM")
    if named:
        path = shutil.which(named)
        if path is None:
            sys.exit(f"CHROMIUM is {named!r}, which is not a program. Unset it, or give the path of a Chromium.")
        return path
    for name in NAMES:
        if path := shutil.which(name):
            return path
    return playwrights()


def playwrights():
    """The path of the Chromium that Playwright has downloaded, or None."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if os.path.exists(path) else None


def install():
    """Install a Chromium: Debian's where this may be done, else Playwright's."""
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        print("Installing Debian's Chromium.", file=sys.stderr)
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", "chromium", "fonts-dejavu"]):
            subprocess.run(["apt-get", *command], stdout=sys.stderr, env=environment)
    if find() is None:
        print("Installing Playwright's Chromium.", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], stdout=sys.stderr)


if __name__ == "__main__":
    if find() is None:
        install()
    print(find() or sys.exit("The tests need a Chromium and could not install one. "
                             "Install Chromium or Chrome and name it: CHROMIUM=/path/to/chromium make test"))
