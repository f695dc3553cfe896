# Unrolled. Each command makes the virtual environment that it needs; `make` alone lists the commands.

PYTHON ?= python3
DEST ?= _build/colab

# Whatever is executed here is executed for the repository: figures hold all their settings.
export UNROLLED_STATIC := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1

pip = -m pip install --quiet --quiet --no-input
nbval = --nbval --nbval-current-env --nbval-cell-timeout 120 --nbval-sanitize-with tests/nbval.cfg
fast = -m "not browser and not site and not slow"
cores = -n auto --dist worksteal
chapters = $(wildcard book/[0-9]*.ipynb)
masters = $(wildcard labs/source/lab[0-9]*/lab[0-9]*.ipynb)
labs = $(notdir $(basename $(masters)))
site_sources = _config.yml _toc.yml $(shell find book/_ext book/_static -type f -not -name '*.pyc')

.PHONY: help book serve test test-fast bench execute release colab test-colab test-newest repo clean
.DELETE_ON_ERROR:

help:
	@echo 'make book         build the site and print its address'
	@echo 'make serve        build the site and serve it at http://localhost:8000/'
	@echo 'make test         everything that must hold'
	@echo 'make test-fast    what to run before each commit'
	@echo 'make bench        time a training step of our cells beside those of Flax and PyTorch'
	@echo 'make execute      run the chapters and the masters of the labs, and store their outputs'
	@echo 'make release      make the student copies of the labs from their masters'
	@echo 'make colab        make the Colab copies of chapters and labs in $(DEST) (DEST=folder)'
	@echo 'make test-colab   chapters, labs and the fast tests on the versions of Colab, from nothing'
	@echo 'make test-newest  chapter 1, lab 1 and the fast tests on the newest versions'
	@echo 'make repo URL=…   point every link at another repository'
	@echo 'make clean        remove what the other commands made, virtual environments included'
	@echo
	@echo 'PYTHON=… chooses the interpreter (3.11 or newer) of the first environment.'

# ---------------------------------------------------------------- environments

.venv/installed: requirements.txt pyproject.toml tests/constraints/site.txt
	@$(PYTHON) tests/interpreter.py --check
	@echo 'Setting up .venv; this takes a minute or two, once.'
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python $(pip) -r requirements.txt
	@touch $@

# PyTorch and Keras, which only tests need.
.venv/peers: .venv/installed
	@echo 'Adding the libraries that our cells are compared with; this takes a minute, once.'
	@.venv/bin/python $(pip) -c tests/constraints/site.txt -e '.[peers]'
	@touch $@

.venv-colab/installed: tests/constraints/colab.txt tests/interpreter.py
	@echo 'Setting up .venv-colab; this takes a minute or two, once.'
	@"$$($(PYTHON) tests/interpreter.py 3.13)" -m venv --clear .venv-colab
	@.venv-colab/bin/python $(pip) --no-deps -r tests/constraints/colab.txt
	@touch $@

.venv-newest/installed: tests/constraints/newest.txt pyproject.toml tests/interpreter.py
	@echo 'Setting up .venv-newest; this takes a minute or two, once.'
	@"$$($(PYTHON) tests/interpreter.py 3.13)" -m venv --clear .venv-newest
	@.venv-newest/bin/python $(pip) --no-deps -r tests/constraints/newest.txt
	@.venv-newest/bin/python $(pip) --no-deps -e .
	@touch $@

# ---------------------------------------------------------------- the book

# Sphinx rebuilds the pages that changed; a change of what shapes all pages starts anew.
_build/started: .venv/installed $(site_sources)
	@rm -rf _build/html _build/.doctrees
	@mkdir -p _build
	@touch $@

book: .venv/installed _build/started
	@.venv/bin/jupyter-book build --quiet -W -n --keep-going . > _build/log.txt 2>&1 || { cat _build/log.txt; exit 1; }
	@grep '^Note: ' _build/log.txt || true
	@echo 'The site is built: file://$(CURDIR)/_build/html/index.html'

serve: book
	@echo 'http://localhost:8000/  (Ctrl-C stops)'
	@.venv/bin/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

execute: .venv/installed
	.venv/bin/python book/_ext/notebooks.py $(chapters) $(masters)

release: .venv/installed
	cd labs && for lab in $(labs); do ../.venv/bin/nbgrader generate_assignment $$lab --force --no-db --log-level=ERROR || exit 1; done

colab: book
	.venv/bin/python book/_ext/colab.py $(DEST)

repo: $(if $(URL),.venv/installed)
	@.venv/bin/python book/_ext/address.py $(if $(URL),$(URL),$(error Say which repository: make repo URL=https://github.com/owner/name))

# ---------------------------------------------------------------- tests

test: book .venv/peers
	CHROMIUM="$$(.venv/bin/python tests/browser.py)" && export CHROMIUM && \
	.venv/bin/python -m pytest $(cores) -m "not browser and not site" tests && \
	.venv/bin/python -m pytest -m "browser or site" tests && \
	.venv/bin/python -m pytest $(nbval) $(chapters) $(masters)

test-fast: .venv/peers
	.venv/bin/python -m pytest $(cores) $(fast)

bench: .venv/peers
	@.venv/bin/python tests/bench.py

test-colab: book .venv-colab/installed
	.venv/bin/python tests/cold.py .venv-colab tests/constraints/colab.txt
	.venv-colab/bin/python -m pytest $(cores) $(fast)

test-newest: .venv-newest/installed
	.venv-newest/bin/python -m pytest $(nbval) $(fast) tests $(firstword $(chapters)) $(firstword $(masters))

clean:
	rm -rf _build .venv .venv-colab .venv-newest
