"""Matching pursuit beside scikit-learn's: 200 atoms of 5,000, at 5,000 points.

    uv run python -m benchmarks.pursuit

Everything in one process, in turn, float64, in ratios to the fastest of scikit-learn. A step reads
the whole dictionary, 200 MB, from memory; ours looks for the best atom in single precision, half as
long, before it decides in double, and keeps the path and its leave-one-out errors besides.
"""

import jax
import numpy as np
from sklearn.linear_model import OrthogonalMatchingPursuit, orthogonal_mp

from bayeskern.course.matching_pursuit import KernelMatchingPursuit
from bayeskern.course.orthogonal_pursuit import Dictionary, OrthogonalPursuit
from bayeskern.kernels import RBF
from bayeskern.kernels.gram_matrix import gram
from benchmarks.linear import in_turn

SIZE, ATOMS = 5_000, 200


def dictionaries():
    """Unit columns, as scikit-learn wants them: of noise, and of a kernel in five dimensions."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(SIZE, SIZE))
    yield "Gaussian noise", noise / np.linalg.norm(noise, axis=0), rng.normal(size=SIZE)
    X = rng.uniform(-2.0, 2.0, (SIZE, 5))
    atoms = gram(RBF(1.0), X, X)
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=SIZE)
    yield "RBF kernel", atoms / np.linalg.norm(atoms, axis=0), y


def main():
    jax.config.update("jax_enable_compilation_cache", False)
    for name, atoms, y in dictionaries():
        ours = KernelMatchingPursuit(dictionary="linear", n_nonzero=ATOMS)
        estimator = OrthogonalMatchingPursuit(n_nonzero_coefs=ATOMS, fit_intercept=False)
        calls = {
            "KernelMatchingPursuit": lambda ours=ours, D=atoms, y=y: ours.fit(D, y),
            "orthogonal_mp": lambda D=atoms, y=y: orthogonal_mp(D, y, n_nonzero_coefs=ATOMS),
            "orthogonal_mp, Gram matrix": lambda D=atoms, y=y: orthogonal_mp(
                D, y, n_nonzero_coefs=ATOMS, precompute=True
            ),
            "OrthogonalMatchingPursuit": lambda m=estimator, D=atoms, y=y: m.fit(D, y),
        }
        seconds = in_turn(calls, rounds=4)
        least = min(own for peer, own in seconds.items() if peer in list(calls)[1:])
        print(f"\n{name}, {ATOMS} of {SIZE:,} atoms, {SIZE:,} points")
        for call, own in seconds.items():
            print(f"{call:<30} {own:7.3f} s {own / least:6.2f} x")
        found = np.zeros(SIZE)
        found[ours.atoms_] = ours.coef_
        theirs = calls["orthogonal_mp"]()
        same = np.array_equal(np.flatnonzero(found), np.flatnonzero(theirs))
        pursuit = OrthogonalPursuit(Dictionary(atoms), y)
        while len(pursuit.taken) < ATOMS and pursuit.step():
            pass
        Q = pursuit.Q[: len(pursuit.taken)]
        skew = np.max(np.abs(Q @ Q.T - np.eye(len(Q))))
        off = np.max(np.abs(found - theirs)) / np.max(np.abs(theirs))
        print(f"same atoms: {same}; coefficients differ by {off:.1e}; Q'Q - I: {skew:.1e}")


if __name__ == "__main__":
    main()
