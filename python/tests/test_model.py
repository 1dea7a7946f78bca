"""Any sequence of calls leaves a store with what a dict has after the same calls."""

import hypothesis
import hypothesis.stateful as stateful
import hypothesis.strategies as st
import pytest

import firndex

TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
KEYS = st.one_of(st.sampled_from([b"", b"a", b"b", b"c" * 300]), st.binary(max_size=12), TEXTS)
VALUES = st.one_of(st.binary(max_size=30), st.sampled_from([b"", b"v" * 5000]))


def encoded(text):
    return text.encode() if isinstance(text, str) else text


class Model(stateful.RuleBasedStateMachine):
    """A store in a file, which is closed and opened again in between, and a dict."""

    opened = 0

    @stateful.initialize()
    def begin(self):
        Model.opened += 1
        self.path = f"model-{Model.opened}.firn"
        self.store = firndex.Store(self.path, durability="process")
        self.dict = {}

    def teardown(self):
        if hasattr(self, "store"):
            self.same()
            self.store.close()
            firndex.remove(self.path)

    @stateful.rule(key=KEYS, value=VALUES)
    def put(self, key, value):
        self.store[key] = value
        self.dict[encoded(key)] = value

    @stateful.rule(key=KEYS)
    def look_up(self, key):
        assert self.store.get(key) == self.dict.get(encoded(key))
        assert (key in self.store) == (encoded(key) in self.dict)

    @stateful.rule(key=KEYS, default=st.one_of(st.none(), VALUES))
    def pop(self, key, default):
        assert self.store.pop(key, default) == self.dict.pop(encoded(key), default)

    @stateful.rule(key=KEYS, value=VALUES)
    def set_default(self, key, value):
        assert self.store.setdefault(key, value) == self.dict.setdefault(encoded(key), value)

    @stateful.rule(key=KEYS)
    def delete(self, key):
        if encoded(key) in self.dict:
            del self.store[key], self.dict[encoded(key)]
        else:
            with pytest.raises(KeyError):
                del self.store[key]

    @stateful.rule(pairs=st.lists(st.tuples(KEYS, VALUES), max_size=40))
    def put_many(self, pairs):
        self.store.put_many(pairs)
        self.dict.update((encoded(key), value) for key, value in pairs)

    @stateful.rule(keys=st.lists(KEYS, max_size=20))
    def get_many(self, keys):
        assert self.store.get_many(keys) == [self.dict.get(encoded(key)) for key in keys]

    @stateful.rule(keys=st.lists(KEYS, max_size=20))
    def delete_many(self, keys):
        removed = sum(self.dict.pop(key, None) is not None for key in {encoded(key) for key in keys})
        assert self.store.delete_many(keys) == removed

    @stateful.rule(key=KEYS, expected=st.one_of(st.none(), VALUES), new=st.one_of(st.none(), VALUES))
    def compare_exchange(self, key, expected, new):
        is_expected = self.dict.get(encoded(key)) == expected
        assert self.store.compare_exchange(key, expected, new) == is_expected
        if is_expected:
            self.become(encoded(key), new)

    @stateful.rule(key=KEYS, new=st.one_of(st.none(), VALUES))
    def modify(self, key, new):
        seen = []
        assert self.store.modify(key, lambda value: seen.append(value) or new) == new
        assert seen == [self.dict.get(encoded(key))]
        self.become(encoded(key), new)

    @stateful.rule()
    def pop_item(self):
        if self.dict:
            key, value = self.store.popitem()
            assert self.dict.pop(key) == value
        else:
            with pytest.raises(KeyError):
                self.store.popitem()

    @stateful.rule()
    def clear(self):
        self.store.clear()
        self.dict.clear()

    @stateful.rule()
    def reopen(self):
        self.store.close()
        self.store = firndex.Store(self.path, "w")

    @stateful.invariant()
    def same(self):
        if hasattr(self, "store"):
            assert len(self.store) == len(self.dict)
            assert dict(self.store.items()) == self.dict

    def become(self, key, value):
        if value is None:
            self.dict.pop(key, None)
        else:
            self.dict[key] = value


TestModel = Model.TestCase
TestModel.settings = hypothesis.settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
