"""Settings that all tests share."""

import gc
import os
from pathlib import Path

# Set before NumPy and JAX start: two test processes share two cores, and compiled functions are
# kept on disk for later runs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayeskern" / "tests"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_cache))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# Most of the time is compilation, so XLA optimises less. Notebooks, doctests and the command line
# use its default.
_flags = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
os.environ.setdefault("XLA_FLAGS", _flags)

# Traces of JAX are many small objects that live long: searching them for cycles at each 2,000th
# allocation takes a tenth of the time.
gc.set_threshold(100_000, 50, 100)

import jax  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests.marks import requires  # noqa: E402

# A few examples of each property by default; --hypothesis-profile many takes more.
settings.register_profile("bayeskern", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("many", settings.get_profile("bayeskern"), max_examples=60)
settings.load_profile("bayeskern")


TESTS = Path(__file__).parent
# Slow tests that .ci/run needs: every method, every solver, every posterior of the zoo, every
# problem of the gallery, every example in the documentation.
CORE = (
    "forecast/saved/",
    "gallery/test_bayesian_network.py",
    "gallery/test_gallery",
    "gp/test_measured.py",
    "inference/assessment/test_draws.py::test_wrong_draws_are_found_where_weights_fail",
    "inference/methods/test_reference_posteriors.py",
    "inference/zoo/test_zoo.py",
    "linalg/test_select.py",
    "test_documentation.py",
    "test_imports.py::test_slow_libraries_are_imported_late",
    "test_regressor.py::test_scikit_learn_checks",
)


def pytest_ignore_collect(collection_path, config):
    """Import no other files where `-m` asks for the core only."""
    if not requires("core", config.option.markexpr) or not collection_path.is_file():
        return None
    files = tuple(f"{TESTS}/{part.partition('::')[0]}" for part in CORE)
    return None if str(collection_path).startswith(files) else True


def pytest_collection_modifyitems(items):
    core = tuple(f"{TESTS}/{part}" for part in CORE)
    for item in items:
        if f"{item.path}::{item.name}".startswith(core):
            item.add_marker("core")


def pytest_collection_finish():
    """Exempt modules and tests from the search for cycles."""
    gc.freeze()


def pytest_sessionfinish():
    """Exempt everything from the searches for cycles as pytest and the process end."""
    gc.freeze()


# An executable takes up 7 to 30 memory maps, of which Linux allows a process 65530 by default.
MAPS, MOST_MAPS = Path("/proc/self/maps"), 25_000


def forget_if_many():
    """Clear compiled functions before the memory maps of the process run out."""
    if not MAPS.exists() or MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(autouse=True, scope="module")
def _few_executables():
    yield
    forget_if_many()


@pytest.fixture
def _few_executables_each():
    """Clear compiled functions before each test that compiles much."""
    forget_if_many()
