"""Options as Spark hands them over: texts, under names of any case."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError
from polylake.storage import StorageOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Reader = Callable[[str], object]

_SIZES = {"k": 10, "m": 20, "g": 30}


class OptionTexts:
    """Options that are taken one after the other; what is wrong with them is told together.

    ``maxFilesPerTrigger``, ``max_files_per_trigger`` and ``MAXFILESPERTRIGGER`` are one option.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        """Hold the options, none of them taken yet."""
        self._left = {fold(name): (name, value) for name, value in given.items()}
        self._known: list[str] = []
        self._problems: list[str] = []

    def take(self, readers: Mapping[str, Reader]) -> dict[str, Any]:
        """Return those of some options that are given, by the names in ``readers``.

        A reader raises ``ValueError`` with what the option has to be.
        """
        taken: dict[str, Any] = {}
        for name, read in readers.items():
            self._known.append(name)
            given = self._left.pop(fold(name), None)
            if given is None:
                continue
            try:
                taken[name] = read(given[1])
            except ValueError as error:
                self.refuse(f"{given[0]} must be {error}, not {given[1]!r}")
        return taken

    def take_storage(self) -> StorageOptions:
        """Return the options of the store, as ``open_storage`` takes them."""
        known, before = len(self._known), len(self._problems)
        given = self.take(_STORAGE)
        # They are many: a message that lists what there is leaves them out.
        del self._known[known:]
        try:
            return StorageOptions(**given) if len(self._problems) == before else StorageOptions()
        except ValidationError as error:
            self.refuse(str(error))
            return StorageOptions()

    def refuse(self, problem: str) -> None:
        """Take note of something that is wrong."""
        self._problems.append(problem)

    def check(self) -> None:
        """Refuse what was wrong so far, and every option that nobody took.

        Raises:
            ValidationError: it says everything that is wrong; ``problems`` holds it as a list.
        """
        problems = [*self._problems]
        if self._left:
            names = ", ".join(sorted(name for name, _ in self._left.values()))
            known = ", ".join(camel(name) for name in dict.fromkeys(self._known))
            problems.append(f"unknown: {names}; there are {known}, and the options of the store")
        if problems:
            raise ValidationError(
                f"options: {'; '.join(problems)}", field="options", problems=tuple(problems)
            )


def fold(name: str) -> str:
    """Return what the spellings of an option's name have in common."""
    return name.replace("_", "").lower()


def camel(name: str) -> str:
    """Return an option's name as Spark users write it."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def text(value: str) -> str:
    """Read a text."""
    if not value:
        raise ValueError("a text that is not empty")
    return value


def flag(value: str) -> bool:
    """Read true or false."""
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def whole(value: str) -> int:
    """Read a whole number, from 0 on."""
    if not (value.isascii() and value.isdigit()):
        raise ValueError("a whole number")
    return int(value)


def count(value: str) -> int:
    """Read a whole number above 0."""
    if not (value.isascii() and value.isdigit() and int(value)):
        raise ValueError("a whole number above 0")
    return int(value)


def size(value: str) -> int:
    """Read a number of bytes, such as ``1048576``, ``64m`` or ``1 GiB``."""
    number = value.lower().replace(" ", "").removesuffix("b").removesuffix("i")
    power = _SIZES.get(number[-1:], 0)
    digits = number[:-1] if power else number
    if not (digits.isascii() and digits.isdigit() and int(digits)):
        raise ValueError("a size such as 128m")
    return int(digits) << power


def names(value: str) -> tuple[str, ...]:
    """Read names with commas between them."""
    found = tuple(name.strip() for name in value.split(","))
    if "" in found:
        raise ValueError("names with commas between them")
    return found


def seconds(value: str) -> float:
    """Read a number of seconds."""
    try:
        return float(value)
    except ValueError:
        raise ValueError("a number of seconds") from None


_BY_TYPE: Mapping[object, Reader] = {
    "bool | None": flag,
    "float | None": seconds,
    "int | None": whole,
}
_STORAGE: Mapping[str, Reader] = {
    field.name: _BY_TYPE.get(field.type, text)
    for field in fields(StorageOptions)
    # No text can hold a function.
    if field.name != "credential_provider"
}
