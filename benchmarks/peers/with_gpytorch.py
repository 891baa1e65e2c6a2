"""GPyTorch's dense log marginal likelihood with its gradient: see benchmarks/elsewhere.py."""

import sys
import time

import gpytorch
import numpy as np
import torch


class Process(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood):
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=4))

    def forward(self, X):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def main(file, repeats):
    torch.set_default_dtype(torch.float64)
    given = np.load(file)
    X, y = torch.tensor(given["X"]), torch.tensor(given["y"])
    theta = np.exp(given["theta"])
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    process = Process(X, y, likelihood)
    process.covar_module.base_kernel.lengthscale = theta[:4]
    process.covar_module.outputscale, likelihood.noise = theta[4], theta[5]
    process.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, process)

    def evidence():
        process.zero_grad()
        value = objective(process(X), y)
        value.backward()
        return value.item() * len(y)

    # Cholesky at all sizes, in place of stochastic estimates: the same number as all others.
    exact = (
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.max_cholesky_size(len(y) + 1),
    )
    with exact[0], exact[1]:
        seconds = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            value = evidence()
            seconds.append(time.perf_counter() - start)
    print(value, min(seconds[1:]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
