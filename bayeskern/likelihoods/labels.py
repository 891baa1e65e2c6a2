"""Class labels: booleans, whole numbers or text, in arrays and data frames."""

from __future__ import annotations

from collections.abc import Sequence

import narwhals as nw
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

#: kind of a NumPy dtype -> kind of label
KIND_NAMES = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text"}


def read(y: ArrayLike | Sequence, n: int, name: str = "y") -> tuple[np.ndarray, tuple | None]:
    """Read labels (n,), and the order of the classes that y declares, or None.

    Raises ValueError if labels are missing, of several kinds, or of a type that labels cannot have;
    the message calls them `name`.
    """
    order = None
    values = nw.from_native(y, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(values, nw.DataFrame) and values.shape[1] == 1:
        values = values[values.columns[0]]
    if isinstance(values, nw.Series):
        _require_present(values.is_null().to_numpy(), name)
        order = tuple(values.dtype.categories) if isinstance(values.dtype, nw.Enum) else None
        values = values.to_numpy()
    elif getattr(values, "ordered", False):
        # A pandas Categorical.
        order = tuple(getattr(values, "categories", ()))
    # NumPy would convert a list of numbers and text to text.
    labels = np.asarray(values, object if isinstance(values, list | tuple) else None)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or not len(labels):
        raise ValueError(
            f"{name} must be one label for each point, shape (n,), got {labels.shape}."
        )
    if len(labels) != n:
        raise ValueError(f"{name} has {len(labels)} values but X has {n} points; they must match.")
    return _typed(labels, name), order


def _typed(labels: np.ndarray, name: str) -> np.ndarray:
    """Labels as an array of booleans, numbers or text."""
    if labels.dtype.kind == "O":
        is_missing = [v is None or (isinstance(v, float) and v != v) for v in labels]
        _require_present(np.array(is_missing), name)
        kinds = {np.asarray(v).dtype.kind: v for v in labels}
        names = {KIND_NAMES.get(kind) for kind in kinds}
        if len(names) > 1:
            examples = " and ".join(repr(v) for v in kinds.values())
            raise ValueError(f"{name} mixes labels of several kinds, such as {examples}.")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "T":
        labels = labels.astype(str)
    if labels.dtype.kind not in KIND_NAMES:
        raise ValueError(
            f"{name} has values of type {type(labels[0]).__name__}, such as {labels[0]!r}. A label "
            "is a boolean, a whole number or text."
        )
    if labels.dtype.kind == "f":
        _require_present(np.isnan(labels), name)
    return labels


def _require_present(missing: np.ndarray, name: str) -> None:
    if missing.any():
        raise ValueError(
            f"{name} has {int(missing.sum())} missing labels, the first in row "
            f"{int(missing.argmax())}. Drop the rows with missing labels."
        )


def learn(labels: np.ndarray, order: tuple | None) -> tuple:
    """Classes among the labels, sorted, or in the declared order."""
    classes = [plain(label) for label in np.unique(labels).tolist()]
    return tuple(classes if order is None else sorted(classes, key=list(map(plain, order)).index))


def plain(label: object) -> object:
    """Label as a Python object; a float such as 2.0 becomes the int 2."""
    label = label.item() if isinstance(label, np.generic) else label
    return int(label) if isinstance(label, float) and label.is_integer() else label


def encode(
    labels: np.ndarray,
    classes: tuple,
    name: str = "y",
    kind: tuple[str, str] = ("class", "classes"),
) -> np.ndarray:
    """Indices of labels in `classes`.

    name, kind: Name of the argument, and singular and plural of what a label stands for, for the
    ValueError at the first unknown label.
    """
    unique, inverse = np.unique(labels, return_inverse=True)
    indices = {label: i for i, label in enumerate(classes)}
    codes = np.array([indices.get(label, -1) for label in unique.tolist()])[inverse]
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(
            f"{name} has a {kind[0]} that is not known, {plain(labels[row])!r}, first in row "
            f"{row}. The {kind[1]} are {', '.join(map(repr, classes))}."
        )
    return codes


def decode(codes: ArrayLike | Array, classes: tuple | None) -> ArrayLike | Array:
    """Labels of codes, the inverse of `encode`; codes unchanged if `classes` is None."""
    return codes if classes is None else np.asarray(classes)[np.asarray(codes, int)]
