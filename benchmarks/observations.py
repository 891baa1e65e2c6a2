"""Data as they are measured, beside smolgp and tinygp: noise, exposures, totals, derivatives.

    uv run --group bench python -m benchmarks.observations

Three tables, those of benchmarks/results/observations.txt:

- Log marginal likelihood of the same data by each library, and the relative difference from ours.
  Where a library stops, the table has its message. "own kernel" and "jax.grad": classes of
  benchmarks/slope_kernels.py add such rows to the library. "quadrature": tinygp's kernel at
  Gauss-Legendre nodes in each interval.
- Predictions and inference.
- Seconds of the log density, and with its gradient in log lengthscale and log variance, compiled
  before: dense at 1,000 rows, state spaces at 100,000.

gpex (values, gradients, averages; dense) is left out: it was not in the package registry.
"""

import contextlib
import io
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import smolgp
import tinygp
from numpyro.infer import MCMC, NUTS
from scipy.stats import multivariate_normal

import bayeskern as bk
from bayeskern.kernels import RBF, Cosine, Matern32, Periodic
from benchmarks.slope_kernels import DenseSlopes, SmolSlopes, TinySlopes
from benchmarks.table import OURS, Row, show
from benchmarks.timing import best

PEERS = smolgp, tinygp
SMALL, DENSE, LONG = 60, 1_000, 100_000
REPEATS = 5
THETA = np.log([2.0, 1.5])  # lengthscale, variance
STEP, PERIOD, NODES, DAYS_IN_MONTH = 0.4, 3.0, 40, 30


def simulated(n):
    """Starts of n rows, variances of their noise, and observations."""
    rng = np.random.default_rng(0)
    start = STEP * np.arange(n)
    return start, rng.uniform(0.05, 0.2, n), np.sin(start) + 0.3 * rng.normal(size=n)


def ours(X, noise, y, kernel=Matern32, solver="auto"):
    process = bk.GaussianProcess(kernel(*np.exp(THETA)), X, noise, solver=solver)
    measured = np.asarray(process.X)

    def density(theta):
        own = kernel(*jnp.exp(theta))
        return bk.GaussianProcess(own, measured, noise, solver=process.solver).log_prob(y)

    density.solver, density.data = process.explain().solver, ()
    return density


def theirs(library, X, noise, y, kernel):
    X, noise = jax.tree.map(jnp.asarray, (X, noise))
    named = {"noise" if library is smolgp else "diag": noise}

    def density(theta, X=X, named=named, y=y):
        own = kernel(jnp.exp(theta[0]), jnp.exp(0.5 * theta[1]))
        return library.GaussianProcess(own, X, **named).log_probability(y)

    # smolgp does not take data that a compiled function knows.
    density.data = X, named, jnp.asarray(y)
    return density


def by_quadrature(a, b, noise, y, kernel):
    def density(theta):
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        t = jnp.asarray(a[:, None] + (b - a)[:, None] * (nodes + 1.0) / 2.0).ravel()
        own = kernel(jnp.exp(theta[0]), jnp.exp(0.5 * theta[1]))
        K = np.asarray(own(t, t)).reshape(len(a), NODES, len(a), NODES)
        K = np.einsum("iajb,a,b->ij", K, weights / 2.0, weights / 2.0)
        return multivariate_normal(np.zeros(len(a)), K + np.diag(noise)).logpdf(y)

    return density


def exposures(a, b):
    return jnp.asarray((a + b) / 2.0), jnp.asarray(b - a)


def overlapping(a, b, noise, y):
    """Rows that overlap, for smolgp: it needs an integral state for each that is open at once."""
    states, count = smolgp.helpers.assign_min_instids(*exposures(a, b))
    kernel = smolgp.kernels.IntegratedMatern32
    X = *exposures(a, b), states
    return theirs(smolgp, X, noise, y, lambda *own: kernel(*own, num_insts=int(count)))


def points(n):
    t, noise, y = simulated(n)
    yield OURS, lambda: ours(t, noise, y)
    yield "smolgp", lambda: theirs(smolgp, t, noise, y, smolgp.kernels.Matern32)
    yield "tinygp", lambda: theirs(tinygp, t, noise, y, tinygp.kernels.quasisep.Matern32)


def intervals(n, length):
    a, noise, y = simulated(n)
    given = exposures(a, a + length), noise, y
    yield OURS, lambda: ours(bk.Interval(a, a + length), noise, y)
    if n == SMALL or length < STEP:
        yield "smolgp", lambda: theirs(smolgp, *given, smolgp.kernels.IntegratedMatern32)
    if length > STEP:
        yield "smolgp, states told", lambda: overlapping(a, a + length, noise, y)
    elif n == SMALL:
        yield "tinygp", lambda: theirs(tinygp, *given, tinygp.kernels.Matern32)


def totals(n):
    """Daily values at noon, and monthly totals of the first half of the days."""
    days, noise, y = simulated(n)
    start = days[: n // 2 : DAYS_IN_MONTH]
    days, end = days + 0.5 * STEP, start + DAYS_IN_MONTH * STEP
    noise, y = np.r_[noise, noise[: len(start)]], np.r_[y, y[: len(start)]]
    yield OURS, lambda: ours([days, bk.Interval(start, end, kind="sum")], noise, y)

    def through_means():
        a, b, size = np.r_[days, start], np.r_[days, end], np.r_[np.ones(n), end - start]
        order = np.argsort((a + b) / 2.0, kind="stable")
        a, b, size, own_noise, own_y = (v[order] for v in (a, b, size, noise, y))
        density = overlapping(a, b, own_noise / size**2, own_y / size)
        return lambda theta: density(theta) - np.sum(np.log(size))

    yield "smolgp, via means", through_means


def slopes(n, kernel=Matern32, solver="auto"):
    """Values and slopes in turn."""
    t, noise, y = simulated(n)
    odd = np.arange(n) % 2 == 1
    order = np.argsort(odd, kind="stable")
    given = (jnp.asarray(t), jnp.asarray(1.0 * odd)), noise, y
    X = [t[~odd], bk.Derivative(t[odd])]
    yield OURS, lambda: ours(X, noise[order], y[order], kernel, solver)
    if kernel is Matern32:
        yield "smolgp, own kernel", lambda: theirs(smolgp, *given, SmolSlopes)
        yield "tinygp, own kernel", lambda: theirs(tinygp, *given, TinySlopes)
    if n <= DENSE:
        of_values = tinygp.kernels.Matern32 if kernel is Matern32 else tinygp.kernels.ExpSquared

        def of_both(scale, sigma):
            return DenseSlopes(sigma**2 * of_values(scale))

        yield "tinygp, jax.grad", lambda: theirs(tinygp, *given, of_both)


def product(n, mine, of_smolgp, of_tinygp):
    """Means over intervals of a product of kernels."""
    a, noise, y = simulated(n)
    b = a + 0.3
    given = exposures(a, b), noise, y
    whole, kernels = smolgp.kernels.integrated.IntegratedStateSpaceModel, smolgp.kernels

    def reference(scale, sigma):
        return sigma**2 * tinygp.kernels.Matern32(scale) * of_tinygp

    def factors(*own):
        return kernels.IntegratedMatern32(*own) * of_smolgp

    def as_one(*own):
        return whole("product", kernels.Matern32(*own) * of_smolgp, 1)

    yield OURS, lambda: ours(bk.Interval(a, b), noise, y, lambda *own: Matern32(*own) * mine)
    yield "quadrature", lambda: by_quadrature(a, b, noise, y, reference)
    yield "smolgp", lambda: theirs(smolgp, *given, factors)
    yield "smolgp, as a whole", lambda: theirs(smolgp, *given, as_one)


TASKS = {
    "noise per point": points,
    "exposures apart": lambda n: intervals(n, 0.3),
    "exposures that overlap": lambda n: intervals(n, 1.0),
    "monthly totals beside days": totals,
    "values and slopes": slopes,
}
MORE = {
    "values and slopes, RBF": lambda n: slopes(n, RBF, "dense"),
    "exposures, Matern32 x Cosine": lambda n: product(
        n, Cosine(PERIOD), *(f.kernels.Cosine(PERIOD) for f in PEERS)
    ),
    "exposures, Matern32 x Periodic": lambda n: product(
        n, Periodic(PERIOD, 1.0), *(f.kernels.ExpSineSquared(PERIOD, gamma=2.0) for f in PEERS)
    ),
}


def attempt(function, *arguments):
    """The value of a function, or the first line of its error."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:90]}"


def agreement():
    print(f"log marginal likelihood, {SMALL} rows; difference: relative, from ours\n")
    print(f"{'rows':31}{'library':21}{'log density':>17}{'difference':>12}  solver")
    for task, libraries in (TASKS | MORE).items():
        reference = float("nan")
        for name, make in libraries(SMALL):
            density = attempt(make)
            value = density if isinstance(density, str) else attempt(density, THETA)
            cells = f"{task:31}{name:21}"
            if not isinstance(value, str):
                value = float(value)
                reference = value if name == OURS else reference
                cells += f"{value:17.10f}{abs(value / reference - 1.0):12.1e}"
                value = getattr(density, "solver", "")
            print(f"{cells}  {value}", flush=True)


def inference():
    a, _, y = simulated(SMALL)
    b, prior = a + 0.3, dist.LogNormal(0.0, 1.0)

    def fit(method):
        model = bk.GPRegression(Matern32(prior, prior), noise=prior)
        posterior = bk.infer(model, bk.Interval(a, b), y, method=method, seed=0)
        asked = bk.Interval([0.0], [10.0]), bk.Derivative([1.0])
        month, slope = (posterior.predict(rows, latent=True) for rows in asked)
        said = f"mean {month.mean[0]:.2f} +- {month.sd[0]:.2f}, "
        return f"{posterior.trust.verdict}; {said}slope {slope.mean[0]:.2f} +- {slope.sd[0]:.2f}"

    def smol_process(scale, variance, noise):
        kernel = smolgp.kernels.IntegratedMatern32(scale, jnp.sqrt(variance))
        return smolgp.GaussianProcess(kernel, exposures(a, b), noise=noise)

    def smol_nuts():
        def model(y):
            sites = (numpyro.sample(name, prior) for name in ("scale", "variance", "noise"))
            numpyro.sample("y", smol_process(*sites).numpyro_dist(), obs=y)

        MCMC(NUTS(model), num_warmup=300, num_samples=300, progress_bar=False).run(
            jax.random.key(0), jnp.asarray(y)
        )
        return "sampled by NumPyro's NUTS from a model written by hand; no verdict"

    print("\ninference from exposures: verdict, mean over [0, 10], slope at 1\n")
    for name, function, *arguments in (
        (f"{OURS}, laplace", fit, "laplace"),
        (f"{OURS}, nuts", fit, "nuts"),
        ("smolgp, nuts", smol_nuts),
    ):
        print(f"{name:24}{attempt(function, *arguments)}", flush=True)


def timed(task, n, libraries):
    for name, make in libraries(n):
        density = attempt(make)
        solver = getattr(density, "solver", "")
        if isinstance(density, str) or (solver == "dense" and n > DENSE):
            print(f"{n:,} {task}, {name}: {solver or density}, left out")
            return
        compiled = jax.jit(density), jax.jit(jax.value_and_grad(density))
        given = THETA, *density.data
        seconds = [attempt(partial(best, f, *given, repeats=REPEATS)) for f in compiled]
        if any(isinstance(s, str) for s in seconds):
            print(f"{n:,} {task}, {name}: {seconds}")
            if name == OURS:
                return
            continue
        yield Row(task, n, f"{name}{f', {solver}' if solver else ''}", *seconds)


def rows():
    yield from timed("values and slopes, RBF", DENSE, MORE["values and slopes, RBF"])
    for task, libraries in TASKS.items():
        yield from timed(task, LONG, libraries)


if __name__ == "__main__":
    agreement()
    inference()
    show(rows())
