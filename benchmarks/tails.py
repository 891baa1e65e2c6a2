"""Limits of the k-hat of an sd: right sds that are doubted, and wrong ones that are believed.

    uv run python -m benchmarks.tails > benchmarks/results/tails.txt

Independent draws of distributions whose sd is known. An sd is wrong if its log is off by more than
0.25, as in the zoo, and always where it is infinite.
"""

import numpy as np
import scipy.stats as st

from bayeskern.inference.assessment.tails import MAX_SD_KHAT, heavy_tail_advice

LIMITS = (0.7, 0.8, MAX_SD_KHAT, 0.9, 1.0)
MAX_ERROR, REPEATS = 0.25, 200
DISTRIBUTIONS = {
    "normal": st.norm(),
    "exponential": st.expon(),
    "log-normal, sigma 1": st.lognorm(1.0),
    "log-normal, sigma 1.5": st.lognorm(1.5),
    "Student t, 4": st.t(4.0),
    "Student t, 3": st.t(3.0),
    "Student t, 2.5": st.t(2.5),
    "Student t, 2.2": st.t(2.2),
    "Student t, 2": st.t(2.0),
    "Student t, 1.5": st.t(1.5),
    "inverse gamma, 5": st.invgamma(5.0),
    "inverse gamma, 3": st.invgamma(3.0),
    "inverse gamma, 2.5": st.invgamma(2.5),
    "inverse gamma, 2": st.invgamma(2.0),
}


def trial(distribution, count: int, rng) -> tuple[bool, float]:
    """True if the sd of draws is wrong, and its k-hat; -inf where none is looked at."""
    x, evidence = distribution.rvs(count, random_state=rng), {}
    heavy_tail_advice(["x"], x[:, None], evidence)
    sd = distribution.std()
    wrong = not np.isfinite(sd) or abs(np.log(np.std(x) / sd)) > MAX_ERROR
    return wrong, evidence.get("sd_khat", -np.inf)


def main():
    rng = np.random.default_rng(0)
    print("Of 100 sds: wrong ones, and by limit right ones doubted / wrong ones believed.\n")
    print(f"{'distribution':<24}{'draws':>7}{'wrong':>7}", *(f"{limit:>10.2f}" for limit in LIMITS))
    for name, distribution in DISTRIBUTIONS.items():
        for count in (1000, 4000):
            trials = [trial(distribution, count, rng) for _ in range(REPEATS)]
            wrong, khat = np.array([w for w, _ in trials]), np.array([k for _, k in trials])
            columns = []
            for limit in LIMITS:
                doubted = khat >= limit
                parts = np.mean(doubted & ~wrong), np.mean(~doubted & wrong)
                columns.append("{:>5.0f} /{:>3.0f}".format(*(100.0 * part for part in parts)))
            print(f"{name:<24}{count:>7}{100.0 * np.mean(wrong):>7.0f}", *columns)


if __name__ == "__main__":
    main()
