"""The tests that CPython has for mappings, `dbm` and `shelve`, from the interpreter's own test package."""

import dbm
import os
import pickle
import shelve
import unittest

import pytest

import firndex

mapping_tests = pytest.importorskip("test.mapping_tests", reason="this interpreter has no test package")
test_dbm = pytest.importorskip("test.test_dbm", reason="this interpreter has no test package")
test_shelve = pytest.importorskip("test.test_shelve", reason="this interpreter has no test package")


class TestMapping(mapping_tests.BasicTestMappingProtocol):
    """The store itself. Its keys and values are bytes, and `get` has no value for other types to compare with."""

    def _reference(self):
        return {b"1": b"2", b"key1": b"value1", b"key2": b"1, 2, 3"}

    def _empty_mapping(self):
        store = firndex.Store()
        self.addCleanup(store.close)
        return store


class Module:
    """What `dbm.open` takes for a module."""

    error = firndex.error[1]
    open = staticmethod(firndex.open)


class Opened:
    """Has `dbm` take files of this package for its own."""

    def setUp(self):
        super().setUp()
        dbm._defaultmod = Module
        dbm._modules["firndex"] = Module
        self.addCleanup(dbm._modules.pop, "firndex")
        self.addCleanup(setattr, dbm, "whichdb", dbm.whichdb)
        dbm.whichdb = lambda file: "firndex" if os.path.exists(os.fsdecode(file)) else None


class TestDbm(Opened, test_dbm.AnyDBMTestCase, unittest.TestCase):
    module = Module

    def test_anydbm_not_existing(self):
        with self.assertRaises(firndex.error):
            firndex.open(test_dbm._fname)


def shelves(protocol):
    class OfMemory(mapping_tests.BasicTestMappingProtocol):
        def _reference(self):
            return {"key1": "value1", "key2": 2, "key3": (1, 2, 3)}

        def _empty_mapping(self):
            store = firndex.Store()
            self.addCleanup(store.close)
            return shelve.Shelf(store, protocol=protocol)

    class OfFiles(Opened, test_shelve.TestShelveFileBase, mapping_tests.BasicTestMappingProtocol):
        dbm_mod = Module
        _args = {"protocol": protocol}

    return {f"TestMemory{protocol}": OfMemory, f"TestFiles{protocol}": OfFiles}


for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
    globals().update(shelves(protocol))
del protocol


def test_a_shelf_survives_and_writes_back():
    with shelve.Shelf(firndex.open("shelf.firn", "c"), writeback=True) as shelf:
        shelf["list"] = [1]
        shelf["list"].append(2)
        shelf.sync()
        shelf["Käse"] = {"alt": True}
    with shelve.Shelf(firndex.open("shelf.firn")) as shelf:
        assert dict(shelf) == {"list": [1, 2], "Käse": {"alt": True}}
        with pytest.raises(firndex.ReadOnly):
            shelf["new"] = 1


def test_open_has_the_defaults_of_dbm():
    with pytest.raises(firndex.error):
        firndex.open("a.firn")
    with firndex.open("a.firn", "n") as database:
        database["a"] = "1"
        assert database.keys() == [b"a"]
    with firndex.open("a.firn") as database:
        with pytest.raises(firndex.ReadOnly):
            database["b"] = "2"
    with pytest.raises(NotImplementedError, match="umask"):
        firndex.open("b.firn", "c", 0o600)
