"""Folders of forecasts, with a file for each series and an index.

The index grows as series finish. Each line of the index is JSON followed by its SHA-256 digest. A
process that is killed leaves at most one incomplete line at the end, which is ignored. `replace`
writes a new index in one step.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayeskern.core.files import atomic_write, remove_stale, require_writable

INDEX_FORMAT, INDEX_VERSION = "bayeskern forecasts", 1
INDEX = "forecasts.jsonl"


@dataclass(frozen=True)
class Entry:
    """One series of a folder.

    Attributes:
        record: Description of the series and its forecast, as JSON values.
        file: Name of the file of the forecast; None if there is no forecast.
    """

    record: dict[str, Any]
    file: str | None


@dataclass(frozen=True)
class Folder:
    """A folder of forecasts.

    Attributes:
        path: The folder.
    """

    path: Path

    @property
    def index(self) -> Path:
        """The index."""
        return self.path / INDEX

    @property
    def exists(self) -> bool:
        """True if the folder holds an index."""
        return self.index.is_file()

    def start(self, header: dict[str, Any]) -> None:
        """Write an index without entries.

        Args:
            header: Values that all series share, as JSON values.

        Raises:
            OSError: If the folder is not writable, or holds other files but no index.
        """
        require_writable(self.path)
        if self.path.is_dir():
            # Left by a run that was killed before it wrote the index.
            remove_stale(self.path)
        if self.path.is_dir() and not self.exists and any(self.path.iterdir()):
            raise OSError(
                f"{self.path} holds other files: give a folder that is empty or does not exist."
            )
        self._write_index(header, ())

    def append(self, record: dict[str, Any], content: bytes | None) -> Entry:
        """Write the file of a forecast, if there is one, and add an entry to the index."""
        entry = Entry(record, None if content is None else self._write(record, content))
        with self.index.open("ab") as file:
            file.write(_line({"record": entry.record, "file": entry.file}))
        return entry

    def replace(
        self, header: dict[str, Any], records: Iterable[tuple[dict[str, Any], bytes | None]]
    ) -> None:
        """Write all files and a new index.

        If the process is killed, the folder keeps its earlier entries.

        Args:
            header: Values that all series share, as JSON values.
            records: Description of each series, and the contents of the file of its forecast.
        """
        if not self.exists:
            self.start(header)
        self.finish(
            header, [Entry(r, None if c is None else self._write(r, c)) for r, c in records]
        )

    def finish(self, header: dict[str, Any], entries: Sequence[Entry]) -> None:
        """Write an index of these entries in one step, and remove files of other entries."""
        self._write_index(header, entries)
        kept = {entry.file for entry in entries}
        for file in self.path.glob("*.nc"):
            if file.name not in kept:
                file.unlink(missing_ok=True)

    def read(self) -> tuple[dict[str, Any], list[Entry]]:
        """Header and latest entry of each series, in order of first appearance.

        Raises:
            FileNotFoundError: The folder has no index.
            ValueError: The index is damaged, or of a newer version.
        """
        if not self.exists:
            raise FileNotFoundError(
                f"{self.path} is not a folder of forecasts: it has no {INDEX}, which "
                "forecast_many(folder=...) and Forecasts.save write."
            )
        lines = self.index.read_bytes().split(b"\n")
        # The last line is empty, or incomplete after a crash.
        parsed = [self._parsed(line) for line in lines[:-1]]
        if not parsed or parsed[0].get("format") != INDEX_FORMAT:
            raise self._damaged()
        header, *entries = parsed
        if header["version"] > INDEX_VERSION:
            raise ValueError(
                f"{self.path} was written by a newer version of bayeskern: update bayeskern."
            )
        # A resumed run appends a new entry for a series that has changed.
        latest = {str(e["record"]["name"]): Entry(e["record"], e["file"]) for e in entries}
        return header["header"], [*latest.values()]

    def repair(self) -> None:
        """Remove an incomplete last line, so that entries can be appended."""
        content = self.index.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            with atomic_write(self.index) as path:
                path.write_bytes(complete)

    def _parsed(self, line: bytes) -> dict[str, Any]:
        text, _, digest = line.rpartition(b" ")
        if hashlib.sha256(text).hexdigest().encode() != digest:
            raise self._damaged()
        return json.loads(text)

    def _damaged(self) -> ValueError:
        return ValueError(
            f"{self.index} has changed since it was saved: a checksum is wrong. Restore a "
            "copy, or forecast again."
        )

    def _write_index(self, header: dict[str, Any], entries: Iterable[Entry]) -> None:
        first = {"format": INDEX_FORMAT, "version": INDEX_VERSION, "header": header}
        with atomic_write(self.index) as path:
            others = (_line({"record": e.record, "file": e.file}) for e in entries)
            path.write_bytes(b"".join([_line(first), *others]))

    def _write(self, record: dict[str, Any], content: bytes) -> str:
        """Write a file; return its name, which is unique to the content."""
        digest = hashlib.sha256(content).hexdigest()[:12]
        # A name may be a path, empty or long.
        words = re.sub(r"[^A-Za-z0-9]+", "-", str(record["name"])).strip("-")[:40]
        name = f"{words or 'series'}-{digest}.nc"
        if not (self.path / name).exists():
            with atomic_write(self.path / name) as path:
                path.write_bytes(content)
        return name


def _line(value: dict[str, Any]) -> bytes:
    text = json.dumps(value).encode()
    return text + b" " + hashlib.sha256(text).hexdigest().encode() + b"\n"
