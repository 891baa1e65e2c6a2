"""A cache keeps the results of the last few calls."""

import copy

import pytest

from bayeskern.core.cache import ResultCache


def test_recent_results_are_kept():
    cache, made = ResultCache(2), []

    def ask(key):
        return cache.recall(key, lambda: made.append(key) or f"of {key}")

    assert [ask(key) for key in "abac"] == ["of a", "of b", "of a", "of c"]
    assert made == ["a", "b", "c"]
    # "b" was the least recent key and was replaced by "c".
    assert ask("a") == "of a" and made == ["a", "b", "c"]
    assert ask("b") == "of b" and made == ["a", "b", "c", "b"]


def test_errors_are_not_kept():
    cache = ResultCache(2)
    with pytest.raises(ZeroDivisionError):
        cache.recall("key", lambda: 1 / 0)
    assert cache.recall("key", lambda: 1) == 1


def test_copies_are_empty():
    """A cache that is sent to another process starts without results."""
    cache = ResultCache(2)
    assert cache.recall("key", lambda: 1) == 1
    assert copy.deepcopy(cache).recall("key", lambda: 2) == 2
