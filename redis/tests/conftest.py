import pytest
from servers import Server


@pytest.fixture
def make(tmp_path):
    """Makes servers that end with the test."""
    made = []

    def make(*options, name=None, **arguments):
        server = Server(tmp_path / (name or f"server{len(made)}"), *options, **arguments)
        made.append(server)
        return server

    yield make
    for server in made:
        server.end()


@pytest.fixture
def server(make):
    return make("--save", "").start()
