"""Each test runs in a directory of its own, so that pools and examples need no paths."""

import pytest


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path
