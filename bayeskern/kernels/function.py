"""Evaluation of a covariance function: Gram matrices, features, frequencies, plots.

`CovarianceFunction` is the base class of `Kernel`; the operators on kernels are in `base`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.core.frames import TextColumn
from bayeskern.hyperparameters import Parametrized
from bayeskern.hyperparameters.parametrized import Path
from bayeskern.kernels import plot, registry, spectral_density
from bayeskern.kernels.description import InputAxis
from bayeskern.kernels.pairs import Evaluation, Pairs, PartGram
from bayeskern.kernels.state_space.space import NoStateSpaceError, StateSpace

if TYPE_CHECKING:
    import jax
    from matplotlib.figure import Figure


class CovarianceFunction(Parametrized):
    """A covariance function k(x, z) of two points, without the operations on kernels.

    Attributes:
        offers: What the kernel offers beside its values, keys of `registry.CAPABILITIES`. Lists of
            kernels in messages and in the documentation follow from it, and tests require each
            of them.
        sentence: Behaviour of functions drawn from the kernel, for reports, as a predicate. It may
            contain {lengthscale}, {period}, and fields of the kernel such as {kernel.nu:g}.
        is_wave: True if functions drawn from it repeat every `period`.
        is_radial: True if k depends on the distance in units of `lengthscale`.
        positive_definite: False if k is not positive definite; Gaussian processes refuse it.
        features_are_a_series: True if `features` is an infinite series, truncated at a degree.
        is_a_function: False for white noise, whose k(x, z) is not a function of x and z alone.
        depends_on_lag: True if k(x, z) is a function of x - z, given that its parts are.
        is_differentiable: False if functions drawn from it have no mean-square derivative.
        takes_levels: True if the points may have columns of levels of text, or if only its parts
            read the points.
        of_levels: True if a point is a level or a row number, so that k is defined at whole numbers
            alone, or says nothing between the values of the data.
        means_from_features: True if means of k come from means of its features, which are finite.
    """

    offers: ClassVar[tuple[str, ...]] = ()
    sentence: ClassVar[str] = "follows the kernel {kernel.__class__.__name__}"
    is_wave: ClassVar[bool] = False
    is_radial: ClassVar[bool] = False
    positive_definite: ClassVar[bool] = True
    features_are_a_series: ClassVar[bool] = False
    is_a_function: ClassVar[bool] = True
    depends_on_lag: ClassVar[bool] = False
    is_differentiable: ClassVar[bool] = True
    means_from_features: ClassVar[bool] = False
    takes_levels: ClassVar[bool] = False
    of_levels: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        registry.register(cls)

    # -- methods that a kernel defines --------------------------------------------------------

    @abstractmethod
    def evaluate(
        self, X: Float[Array, "n d"], Z: Float[Array, "m d"] | None = None
    ) -> Float[Array, "n m"]:
        """Gram matrix k(X, Z), or k(X) if Z is None."""

    @abstractmethod
    def evaluate_diag(self, X: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Diagonal of the Gram matrix k(X)."""

    def frequencies(
        self, key: jax.Array, n: int, d: int, orthogonal: bool = False
    ) -> Float[Array, "n d"]:
        """Draw frequencies w from the spectral density: k(x, z) = k(0) E cos(w'(x - z)).

        Args:
            key: A JAX random key.
            n: Number of frequencies.
            d: Dimension of the points.
            orthogonal: Draw orthogonal Gaussian directions; otherwise the rows are independent.

        Returns:
            Array of shape (n, d), in radians per unit of the inputs. The density of each row is the
            normalised spectral density, which is symmetric.

        Raises:
            ValueError: The kernel has no spectral density.
        """
        raise spectral_density.no_spectral_density(self)

    def spectral_density(self, W: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Spectral density S: k(x, z) is (2 pi)^-d times the integral of S(w) cos(w'(x - z)).

        Args:
            W: Frequencies in radians per unit of the inputs, shape (m, d).

        Returns:
            Array of shape (m,).

        Raises:
            ValueError: The kernel has no spectral density in closed form.

        References:
            Rasmussen and Williams (2006), equation 4.5, with frequencies in radians.
        """
        raise spectral_density.no_closed_form(self)

    def features(self, X: Float[Array, "n d"], degree: int | None) -> Float[Array, "n m"]:
        """Explicit features phi(X) of a concrete kernel, with phi(x)'phi(z) = k(x, z).

        `feature_map` reads its input and then calls this method.

        Args:
            X: Points, shape (n, d).
            degree: Degree at which the series of an RBF is truncated; other kernels ignore it.

        Returns:
            Array of shape (n, m).

        Raises:
            ValueError: The kernel has no finite features, or too many of them.
        """
        raise ValueError(
            f"{self!r} has no finite feature map. NystromFeatures approximates any positive "
            "definite kernel, RandomFourierFeatures a stationary one."
        )

    def state_space(self) -> StateSpace:
        """State-space model of the process in time, for points of one column.

        Returns:
            The model.

        Raises:
            NoStateSpaceError: A part of the kernel has no state-space model; the message names it.
        """
        raise NoStateSpaceError(f"{self!r} has no state-space form.")

    @staticmethod
    def numpy_gram(parts: Sequence[PartGram], values: Iterator[float], pairs: Pairs) -> Evaluation:
        """Gram matrix in NumPy for points of one column, and its derivatives.

        A forecast evaluates it a few hundred times. A kernel without it is compiled by JAX instead.
        A subclass does not inherit it, because it may compute something else.

        Args:
            parts: Gram matrices of the kernels of which the kernel is composed.
            values: Values of the hyperparameters in their order; the kernel takes its own from it.
            pairs: The pairs of times.

        Returns:
            The matrix, an array over the lags, an array over the pairs or one number for all pairs;
            and the function from weights of the pairs to the slopes. `pairs.with_slopes` makes
            both from the matrix and its derivatives.
        """
        raise NotImplementedError

    def describe(self, axis: InputAxis) -> str:
        """Behaviour of functions drawn from the kernel, as a predicate: "repeats every 1 year".

        Every hyperparameter has a first axis over draws.

        Args:
            axis: The inputs of the kernel.
        """
        names = [name for name in ("lengthscale", "period") if f"{{{name}}}" in self.sentence]
        lengths = {name: axis.length(getattr(self, name)) for name in names}
        return self.sentence.format(kernel=self, **lengths)

    def bare(self) -> Any:
        """Kernel without its name and scale."""
        return self

    def series(self) -> list[CovarianceFunction]:
        """Parts of the kernel whose features are an infinite series."""
        in_children = [part for _, child in self._kernels() for part in child.series()]
        return [self, *in_children] if self.features_are_a_series else in_children

    def rough_parts(self, column: int, d: int) -> list[CovarianceFunction]:
        """Parts of the kernel without a derivative along a column of points with d columns."""
        if not self.is_differentiable:
            return [self]
        return [part for _, child in self._kernels() for part in child.rough_parts(column, d)]

    def resolve(self, columns: tuple[str, ...] | None) -> Self:
        """Copy of the kernel with column names replaced by column indices.

        Args:
            columns: Names of the columns of X in order, or None if X has no names.

        Returns:
            The copy; the kernel itself if it selects no columns by name.

        Raises:
            ValueError: The kernel selects a column that `columns` lacks, or reads the levels of a
                column of text as numbers.
        """
        self._require_numbers(columns)
        children = self._kernels()
        resolved = [child.resolve(columns) for _, child in children]
        if all(new is old for new, (_, old) in zip(resolved, children, strict=True)):
            return self
        return hyper.replace(self, [path for path, _ in children], resolved)

    def _kernels(self) -> list[tuple[Path, CovarianceFunction]]:
        """Children that are kernels: (path, child)."""
        return [(p, k) for p, k in self.children() if isinstance(k, CovarianceFunction)]

    def _require_numbers(self, columns: tuple[str, ...] | None) -> None:
        """Raise ValueError for columns of text, unless the kernel takes levels."""
        text = [c for c in columns or () if isinstance(c, TextColumn)]
        if text and not self.takes_levels:
            raise ValueError(
                f"{self!r} reads numbers, but the column {text[0]!r} is text. Select the columns "
                "of numbers, and give the text a kernel of its own, as in "
                f"RBF().on(['age']) * Categorical().on([{text[0]!r}])."
            )

    def _arguments(self) -> list[str]:
        values = {
            name: getattr(self, name)
            for name, field in self.__dataclass_fields__.items()
            if "constraint" in field.metadata or field.metadata.get("static")
        }
        return [
            f"{name}={hyper.show(v)}"
            for name, v in values.items()
            if v is not None and v is not False
        ]

    # -- calls for users ----------------------------------------------------------------------

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Float[Array, "n m"]:
        """Gram matrix k(X, Z), or k(X) if Z is None.

        Args:
            X: Points, shape (n, d) or (n,), or a data frame.
            Z: Points with the same columns; None for the Gram matrix of X, white noise included.

        Returns:
            Array of shape (n, m), or (n, n) without Z.

        Raises:
            TypeError: A hyperparameter is still a distribution or free.
            ValueError: X and Z have different columns, or columns that do not fit the kernel.
        """
        kernel, X, columns = self._read(X)
        if Z is None:
            return kernel.evaluate(X)
        has_text = any(isinstance(c, TextColumn) for c in columns or ())
        Z, z_columns = validation.inputs(Z, "Z", columns if has_text else None)
        if X.shape[1] != Z.shape[1] or (columns and z_columns and columns != z_columns):
            raise ValueError(
                f"X has columns {columns or X.shape[1]} and Z has {z_columns or Z.shape[1]}; "
                "give both the same columns in the same order."
            )
        return kernel.evaluate(X, Z)

    def diag(self, X: ArrayLike) -> Float[Array, " n"]:
        """Diagonal of k(X), computed without the matrix.

        Args:
            X: Points, shape (n, d) or (n,), or a data frame.

        Returns:
            Array of shape (n,).

        Raises:
            TypeError: A hyperparameter is still a distribution or free.
            ValueError: X does not fit the kernel.
        """
        kernel, X, _ = self._read(X)
        return kernel.evaluate_diag(X)

    def feature_map(self, X: ArrayLike, degree: int | None = None) -> Float[Array, "n m"]:
        """Explicit features phi(X) with phi(X) phi(Z)' = k(X, Z).

        Polynomial has C(d + p, p) features, AllSubsets 2^d, Linear d, Constant 1 and Cosine 2. A
        sum has the features of all its terms, side by side; a product has one feature for each
        choice of one feature from every factor.

        The RBF has infinitely many features; `degree` truncates their series. The
        C(d + degree, degree) features sqrt(v) exp(-|x|^2 / 2) x^a / sqrt(a!), with x in units of
        the lengthscale, |a| <= degree and v the variance, give k(x, z) with an error of at most
        v (|x| |z|)^(degree + 1) / (degree + 1)!. This bound is small only near the origin, so
        centre the points first. Cotter, Keshet and Srebro (2011).

        Args:
            X: Points, shape (n, d) or (n,), or a data frame.
            degree: Degree of the series of an RBF. Required if the kernel contains an RBF;
                otherwise it must be None.

        Returns:
            Array of shape (n, m).

        Raises:
            TypeError: A hyperparameter is still a distribution or free.
            ValueError: A part of the kernel has no finite features, or too many; the message names
                it. Or `degree` is missing or not needed.

        Examples:
            >>> from bayeskern.kernels import Polynomial
            >>> print(Polynomial(degree=2, offset=1.0).feature_map([2.0]).round(3))
            [[1.    2.828 4.   ]]
        """
        kernel, X, _ = self._read(X)
        series = kernel.series()
        if series and degree is None:
            raise ValueError(
                f"{series[0]!r} has infinitely many features: truncate their series at a degree, "
                "as in feature_map(X, degree=8), or use RandomFourierFeatures."
            )
        if degree is not None:
            if not series:
                raise ValueError(
                    f"degree={degree!r} cuts the series of an RBF, but {kernel!r} contains no RBF. "
                    "Omit degree."
                )
            degree = validation.positive_integer(degree, "degree")
        return kernel.features(X, degree)

    def plot(self, X: ArrayLike | None = None, figure: Figure | None = None) -> Figure:
        """Plot the kernel along one input: covariances and the Gram matrix.

        The first panel shows k against the lag if it depends on the lag alone, and otherwise
        k(x, x0) for three points x0. The second panel shows the Gram matrix of 201 points. A
        hyperparameter that is a distribution is set to its median, and a free one to its init.

        Args:
            X: Points of one column, shape (n,) or (n, 1), or a data frame: the plot extends from
                the smallest to the largest. From -3 to 3 by default.
            figure: Figure to draw in; a new one if None.

        Returns:
            The figure.

        Raises:
            ValueError: X has several columns or a single point, or a prior cannot be sampled.

        Examples:
            >>> from bayeskern.kernels import Periodic, RBF
            >>> figure = (Periodic(period=1.0) * RBF(lengthscale=2.0)).plot([0.0, 5.0])
        """
        return plot.kernel(self, X, figure)

    def _read(self, X: ArrayLike) -> tuple[Self, jax.Array, tuple[str, ...] | None]:
        """The concrete kernel, the points as an array, and the names of their columns."""
        X, columns = validation.inputs(X, "X", text=True)
        return self.resolve(columns).require_concrete(), X, columns
