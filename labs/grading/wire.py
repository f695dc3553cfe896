"""Trees of arrays as bytes: how the parent and the child of a grading talk.

A message is the length of its header (4 bytes) and of its data (8 bytes), the header in JSON, and the arrays' bytes one
after the other. The header describes the tree: tuples, lists, dictionaries, NamedTuples by the name of their class,
numbers, texts, and the dtype and shape of every array.

Trusts nothing that is read: a message is bounded in size and in time, only numbers and truth values are arrays, nothing
is unpickled, and whatever is not to the letter is `Malformed`.
"""

import json
import math
import os
import select
import struct
import time

import numpy as np

LENGTHS = struct.Struct(">IQ")
MOST_HEADER, MOST_DATA = 2**20, 2**26  # bytes
DTYPES = {np.dtype(name).name: np.dtype(name).newbyteorder("<") for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")}  # fmt: skip
PLAIN = (type(None), bool, int, float, str)


class Malformed(ValueError):
    """What was read is no message."""


class Silent(TimeoutError):
    """No whole message came in time."""


def encode(tree):
    """A tree as the bytes of one message.

    Raises:
        ValueError: a part is of a kind that is not sent, or the whole is too large.
    """
    pieces = []
    header = json.dumps(_describe(tree, pieces)).encode()
    size = sum(map(len, pieces))
    if len(header) > MOST_HEADER or size > MOST_DATA:
        raise ValueError(f"the result has {size} bytes, in {len(pieces)} arrays. Expected at most {MOST_DATA}.")
    return LENGTHS.pack(len(header), size) + header + b"".join(pieces)


def _describe(tree, pieces):
    """The header of a tree; the bytes of its arrays are added to `pieces`."""
    if isinstance(tree, dict):
        if not all(isinstance(key, str) for key in tree):
            raise ValueError("the result is a dictionary whose keys are not all texts. Expected texts.")
        return {"dict": [[key, _describe(part, pieces)] for key, part in tree.items()]}
    if isinstance(tree, (tuple, list)):
        parts = [_describe(part, pieces) for part in tree]
        if hasattr(tree, "_fields"):
            return {"named": f"{type(tree).__module__}:{type(tree).__qualname__}", "parts": parts}
        return {"tuple" if isinstance(tree, tuple) else "list": parts}
    if isinstance(tree, (np.ndarray, np.generic)) and not isinstance(tree, PLAIN):
        if tree.dtype.name not in DTYPES:
            raise ValueError(f"the result is an array of dtype {tree.dtype}. Expected one of {', '.join(DTYPES)}.")
        if tree.nbytes > MOST_DATA:
            raise ValueError(f"the result is an array of shape {tree.shape}, with {tree.nbytes} bytes. Expected at most {MOST_DATA}.")
        pieces.append(np.asarray(tree, DTYPES[tree.dtype.name]).tobytes())
        return {"array": [tree.dtype.name, *tree.shape]}
    if type(tree) in PLAIN or isinstance(tree, np.float64):
        return {"plain": tree}
    raise ValueError(f"the result is of type {type(tree).__name__}. Expected an array.")


def decode(header, data, classes=None):
    """The tree of a message.

    Args:
        header: its description, bytes.
        data: the bytes of its arrays.
        classes: the class of a NamedTuple, from "module:name"; without it, NamedTuples are malformed.

    Raises:
        Malformed: the two are no message.
    """
    try:
        rest = [memoryview(data)]
        tree = _build(json.loads(header), rest, classes)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError, MemoryError) as problem:
        raise Malformed(f"{type(problem).__name__}: {problem}"[:200]) from None
    if len(rest[0]):
        raise Malformed(f"{len(rest[0])} bytes too many")
    return tree


def _build(node, rest, classes):
    """The tree that a header describes; the bytes of its arrays are taken from the front of `rest[0]`."""
    if type(node) is not dict or len(node) != (2 if "named" in node else 1):
        raise Malformed("unknown fields")
    kind = next(iter(node))
    content = node[kind]
    if kind == "plain" and type(content) in PLAIN:
        return content
    if kind == "array":
        return _array(*content[:1], content[1:], rest)
    if kind == "tuple":
        return tuple(_build(part, rest, classes) for part in content)
    if kind == "list":
        return [_build(part, rest, classes) for part in content]
    if kind == "dict" and all(type(key) is str for key, _ in content):
        return {key: _build(part, rest, classes) for key, part in content}
    if kind == "named" and classes:
        return classes(content)(*(_build(part, rest, classes) for part in node["parts"]))
    raise Malformed("unknown kind")


def _array(name, shape, rest):
    dtype = DTYPES[name]
    if len(shape) > 32 or not all(type(length) is int and 0 <= length <= MOST_DATA for length in shape):
        raise Malformed("no shape")
    if math.prod(max(length, 1) for length in shape) > MOST_DATA:  # an empty array may be summed to a large one
        raise Malformed("too large a shape")
    size = dtype.itemsize * math.prod(shape)
    if size > len(rest[0]):
        raise Malformed("bytes are missing")
    piece, rest[0] = rest[0][:size], rest[0][size:]
    if name == "bool" and bytes(piece).strip(b"\0\1"):
        raise Malformed("no truth values")
    return np.frombuffer(piece, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def send(pipe, tree, seconds=None):
    """Writes a message to a pipe, a file descriptor that does not block. Raises OSError where the other end is gone or takes nothing."""
    left = memoryview(encode(tree))
    end = None if seconds is None else time.monotonic() + seconds
    while left:
        _wait(pipe, end, writing=True)
        left = left[os.write(pipe, left):]


def receive(pipe, seconds=None, classes=None):
    """Reads a message from a pipe, a file descriptor.

    Raises:
        EOFError: the other end is closed.
        Malformed: it is no message.
        Silent: it did not come in time.
    """
    end = None if seconds is None else time.monotonic() + seconds
    header, data = LENGTHS.unpack(_read(pipe, LENGTHS.size, end))
    if header > MOST_HEADER or data > MOST_DATA:
        raise Malformed(f"a message of {header} and {data} bytes")
    return decode(_read(pipe, header, end), _read(pipe, data, end), classes)


def _read(pipe, size, end):
    found = bytearray()
    while len(found) < size:
        _wait(pipe, end)
        piece = os.read(pipe, min(size - len(found), 2**20))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)


def _wait(pipe, end, writing=False):
    """Waits until a pipe can be read or written; Silent where the time is over."""
    left = None if end is None else end - time.monotonic()
    if left is not None and left <= 0 or not any(select.select([] if writing else [pipe], [pipe] if writing else [], [], left)):
        raise Silent
