"""The examples in docstrings and pages run as they stand."""

import doctest
import inspect
import pathlib
import re

import pytest

import firndex

KINDS = (firndex.Cache, firndex.Store, firndex.Table)
ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs/guide/python.md", ROOT / "python/README.md"]


def documented():
    yield "firndex", firndex.__doc__
    for name in firndex.__all__:
        thing = getattr(firndex, name)
        if inspect.isclass(thing):
            for member in sorted(vars(thing).keys() | {m for base in thing.__mro__ for m in vars(base)}):
                doc = getattr(getattr(thing, member, None), "__doc__", None)
                if not member.startswith("_") and isinstance(doc, str):
                    yield f"{name}.{member}", doc
        if isinstance(getattr(thing, "__doc__", None), str):
            yield name, thing.__doc__


EXAMPLES = {name: inspect.cleandoc(doc) for name, doc in documented() if ">>>" in doc}


def run(text, name, names):
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    test.globs = names
    told = []
    failed, tried = doctest.DocTestRunner().run(test, out=told.append, clear_globs=False)
    assert tried and not failed, "".join(told)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    pytest.importorskip("numpy")
    run(EXAMPLES[name], name, {"firndex": firndex, **{kind.__name__: kind for kind in KINDS}})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page):
    """Blocks of `pycon` show what they print, those of `python` are programs. They share a directory and all names."""
    pytest.importorskip("numpy")
    blocks = re.findall(r"^```(pycon|python)\n(.*?)^```", page.read_text(), re.S | re.M)
    assert blocks
    names = {"__name__": "page"}
    for number, (kind, text) in enumerate(blocks):
        if kind == "pycon":
            run(text, f"{page.name}, block {number}", names)
        else:
            exec(compile(text, f"{page.name}, block {number}", "exec"), names)


def test_everything_public_is_documented():
    for name in firndex.__all__:
        assert getattr(firndex, name).__doc__ or name == "error", name
    for kind in KINDS:
        for name in dir(kind):
            assert name.startswith("_") or getattr(kind, name).__doc__, name
