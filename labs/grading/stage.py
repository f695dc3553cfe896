"""The package `unrolled` as a submission sees it where it is graded: what the lab allows, and no more.

Modules that the lab allows whole are copied; of others, only the allowed names and what these need are kept. Every other
module is there, and says on import that the lab does not allow it. `unrolled.checks` has the lab's checks by name, and they
do nothing; `calls` is real. The child and its wire stand beside the package, so that no path leads to where they come from.

Trusts the repository's own sources, and writes nothing into the folder that is not meant for the student's eyes.
"""

import ast
import shutil
from pathlib import Path

CHILD = ("child.py", "wire.py")
NO_MODULE = 'raise ImportError("this lab does not allow unrolled.{module}: write it yourself")\n'
NO_NAME = '''
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError("this lab does not allow unrolled.{module}." + name + ": write it yourself")
'''
NO_CHECK = '''
def {check}(function, hidden=False):
    print("{check}: not checked here.")
'''


def stage(folder, package, slug, allowed, checks):
    """Writes the staged package, and the child, into a folder.

    Args:
        folder: an empty folder.
        package: the folder of the real package.
        slug: the lab's name, which is that of its module of checks.
        allowed: the names of `unrolled` that the lab allows, such as "tasks" or "vanilla_rnn.Params".
        checks: the names of the lab's checks.
    """
    folder, package = Path(folder), Path(package)
    for path in package.rglob("*.py"):
        target = folder / "unrolled" / path.relative_to(package)
        target.parent.mkdir(parents=True, exist_ok=True)
        parts = path.relative_to(package).with_suffix("").parts
        target.write_text(_module(".".join(parts), path.read_text(encoding="utf-8"), slug, allowed, checks), encoding="utf-8")
    for name in CHILD:
        shutil.copyfile(Path(__file__).parent / name, folder / name)


def _module(name, source, slug, allowed, checks):
    """The source of a staged module."""
    if name == "checks.calls" or name.split(".")[0] in allowed:
        return source
    if name in ("__init__", "checks.__init__"):
        return ""
    if name == f"checks.{slug}":
        return "".join(NO_CHECK.format(check=check) for check in sorted(checks)) + NO_NAME.format(module=name)
    names = {other.removeprefix(f"{name}.") for other in allowed if other.startswith(f"{name}.")}
    return cut(source, name, names) + NO_NAME.format(module=name) if names else NO_MODULE.format(module=name)


def cut(source, module, names):
    """The given names of a module, and what they need, as source.

    Raises:
        ValueError: a name is not there, or needs a function or a class of the module that is not allowed.
    """
    statements = ast.parse(source).body
    defined = {name: statement for statement in statements for name in _names(statement)}
    if missing := names - set(defined):
        raise ValueError(f"The lab allows {', '.join(sorted(missing))} of unrolled.{module}, which is not there.")
    wanted, waiting = set(), sorted(names)
    while waiting:
        name = waiting.pop()
        wanted.add(name)
        needed = {node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)} & set(defined)
        for other in sorted(needed - wanted):
            if _public(defined[other]) and other not in names:
                raise ValueError(f"The lab allows unrolled.{module}.{name}, which needs {other}: allow both or neither.")
            waiting.append(other)
    kept = [statement for statement in statements if isinstance(statement, (ast.Import, ast.ImportFrom)) or wanted & set(_names(statement))]
    return "\n\n\n".join(map(ast.unparse, kept)) + "\n\n"


def _public(statement):
    return isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and not statement.name.startswith("_")


def _names(statement):
    """The names that a statement at the top of a module defines; those that it imports are not counted."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]
