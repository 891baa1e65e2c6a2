"""Tells the reference that Equinox modules are dataclasses: their fields are their arguments."""

from griffe import (
    Class,
    DataclassesExtension,
    Decorator,
    ExprCall,
    ExprName,
    ExprSubscript,
    Extension,
)

DATACLASSES = ExprName("dataclasses")


class EquinoxFields(Extension):
    """Reads the fields of Equinox modules before Griffe writes the signatures of dataclasses."""

    def on_attribute_instance(self, *, attr, **kwargs):
        # Griffe drops an `InitVar` before classes that inherit from its class get their signature.
        annotation = attr.annotation
        if isinstance(annotation, ExprSubscript) and annotation.canonical_path.endswith(".InitVar"):
            attr.annotation = annotation.slice

    def on_package(self, *, pkg, **kwargs):
        for cls in classes(pkg):
            if "equinox.Module" in bases(cls):
                cls.decorators.append(
                    Decorator(ExprName("dataclass", DATACLASSES), lineno=0, endlineno=0)
                )
                for member in cls.members.values():
                    if member.is_attribute and isinstance(member.value, ExprCall):
                        member.value = default_of(member.value)
        DataclassesExtension().on_package(pkg=pkg)
        for cls in classes(pkg):
            cls.labels.discard("dataclass")


def default_of(call: ExprCall):
    """The default that a call in the place of a field declares."""
    if call.canonical_path.endswith(".hyperparameter"):
        return call.arguments[0]
    if call.canonical_path == "equinox.field":
        call.function = ExprName("field", DATACLASSES)
    return call


def classes(scope):
    """The classes of a package or module, in all of its modules."""
    for member in scope.members.values():
        if not member.is_alias and member.is_class:
            yield member
        elif not member.is_alias and member.is_module:
            yield from classes(member)


def bases(cls: Class) -> set[str]:
    """The names of all classes that a class inherits from."""
    try:
        lineage = [cls, *cls.mro()]
    except ValueError:
        lineage = [cls]
    return {getattr(base, "canonical_path", str(base)) for each in lineage for base in each.bases}
