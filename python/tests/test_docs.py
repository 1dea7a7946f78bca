"""The examples in docstrings run as they stand."""

import doctest
import inspect

import pytest

import firndex


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


EXAMPLES = {name: doc for name, doc in documented() if ">>>" in doc}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    names = {"firndex": firndex, "Store": firndex.Store, "Table": firndex.Table}
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(EXAMPLES[name]), names, name, None, None)
    told = []
    failed, tried = doctest.DocTestRunner().run(test, out=told.append, clear_globs=True)
    assert tried and not failed, "".join(told)


def test_everything_public_is_documented():
    for name in firndex.__all__:
        assert getattr(firndex, name).__doc__ or name == "error", name
    for kind, name in [(kind, name) for kind in (firndex.Store, firndex.Table) for name in dir(kind)]:
        if not name.startswith("_"):
            assert getattr(kind, name).__doc__, name
