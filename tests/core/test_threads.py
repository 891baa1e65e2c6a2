"""Threads of BLAS, as threadpoolctl reports them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, get_ident

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bayeskern.core.threads import blas_threads_for, in_threads, one_blas_thread, without_threads


def blas_threads() -> set[int]:
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    """Two threads, even on one processor."""
    with threadpool_limits(2, user_api="blas"):
        yield


def test_last_thread_restores_the_number():
    entered, leave = Event(), Event()

    def stay():
        with one_blas_thread():
            entered.set()
            leave.wait()

    with ThreadPoolExecutor(1) as pool:
        with one_blas_thread():
            staying = pool.submit(stay)
            entered.wait()
        assert blas_threads() == {1}
        leave.set()
        staying.result()
    assert blas_threads() == {2}


def test_later_threads_have_the_limit():
    def ask():
        with one_blas_thread():
            return blas_threads()

    with one_blas_thread(), one_blas_thread():
        assert blas_threads() == {1}
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ask).result() == {1}
    assert blas_threads() == {2}


def test_in_threads_keeps_the_order():
    assert in_threads(lambda i: (i, blas_threads()), range(5)) == [(i, {1}) for i in range(5)]
    assert blas_threads() == {2}


def test_threads_share_the_settings_of_numpy():
    with np.errstate(divide="raise"):
        settings = in_threads(lambda i: np.geterr()["divide"], range(4))
    assert settings == ["raise"] * 4


def test_threads_start_no_threads():
    def identities(_):
        return {get_ident(), *in_threads(lambda _: get_ident(), range(3))}

    assert [len(group) for group in in_threads(identities, range(4))] == [1] * 4
    assert get_ident() not in in_threads(lambda _: get_ident(), range(3))
    with without_threads():
        assert identities(0) == {get_ident()}
    assert len(identities(0)) > 1


def test_large_matrices_keep_their_threads():
    with blas_threads_for(256 - 1):
        assert blas_threads() == {1}
    with blas_threads_for(256):
        assert blas_threads() == {2}


def test_large_matrix_within_small_ones_has_all_threads():
    with blas_threads_for(3):
        with blas_threads_for(256):
            assert blas_threads() == {2}
        assert blas_threads() == {1}
    with one_blas_thread(), blas_threads_for(256):
        assert blas_threads() == {1}
    assert blas_threads() == {2}
