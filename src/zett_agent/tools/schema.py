"""From a function's signature to what a model is told and what a call is checked against."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticUndefined, to_json

# Where a schema keeps other schemas by name, and where it keeps plain values that only look like schemas.
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_VALUES = frozenset({"default", "examples", "example", "enum", "const", "required"})
_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Injected:
    """Base of what the runtime passes to a tool by itself: such a parameter is hidden from the model."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSchema:
    """What a function takes and gives.

    ``parameters`` is the inlined JSON schema, ``validate`` turns JSON-like arguments into the function's keyword
    arguments or raises pydantic's ValidationError, ``injected`` maps hidden parameters to the wanted type, and
    ``defaulted`` names those of them that may be left out.
    """

    parameters: dict[str, Any]
    return_schema: dict[str, Any] | None
    validate: Callable[[dict[str, Any]], dict[str, Any]]
    injected: Mapping[str, type[Injected]]
    defaulted: frozenset[str]


class _JsonSchema(GenerateJsonSchema):
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing: what is warned of, a default that is not JSON, the function has all the same."""


def function_schema(function: Callable[..., Any], descriptions: Mapping[str, str], *, strict: bool) -> FunctionSchema:
    """Describe ``function``; ``descriptions`` (by parameter name) override those of the annotations.

    Raises ValueError, naming the parameter, for what cannot be filled by name from JSON or is not annotated, and for
    recursive models. An annotation that cannot be read raises whatever it likes.
    """
    _check_kind(function)
    hints = get_type_hints(function, include_extras=True)
    parameters = list(_checked_parameters(function, hints))
    unknown = sorted(descriptions.keys() - {parameter.name for parameter in parameters})
    if unknown:
        raise ValueError(f"the docstring describes parameters that do not exist: {', '.join(unknown)}")
    injected = {p.name: wanted for p in parameters if (wanted := injected_type(hints[p.name])) is not None}
    visible = [parameter for parameter in parameters if parameter.name not in injected]
    model, names = _input_model(visible, hints, descriptions, strict)
    return FunctionSchema(
        parameters=_parameters_schema(model),
        return_schema=return_schema(hints.get("return")),
        validate=_validator(model, names, strict),
        injected=injected,
        defaulted=frozenset(p.name for p in parameters if p.name in injected and p.default is not p.empty),
    )


def _check_kind(function: object) -> None:
    """Classes, partials and other objects that can be called have not the name, docstring and types of a function."""
    if not inspect.isroutine(function) or not callable(function):
        raise ValueError(f"a tool is made of a function or a method, not of {function!r:.200}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError("the function yields; a tool returns its whole result, such as a list")


def _checked_parameters(function: Callable[..., Any], hints: Mapping[str, Any]) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in _KINDS:
            raise ValueError(f"parameter {parameter} cannot be given by name; a tool takes only named parameters")
        if parameter.name not in hints:
            raise ValueError(f"parameter {parameter.name} needs a type annotation")
        yield parameter


def injected_type(hint: Any) -> type[Injected] | None:
    """The Injected subclass that ``hint`` asks for, through Annotated and Optional; else None."""
    origin = get_origin(hint)
    if origin is Annotated:
        return injected_type(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        members = [member for member in get_args(hint) if member is not types.NoneType]
        return injected_type(members[0]) if len(members) == 1 else None
    plain = origin or hint
    return plain if isinstance(plain, type) and issubclass(plain, Injected) else None


def _input_model(
    parameters: list[inspect.Parameter], hints: Mapping[str, Any], descriptions: Mapping[str, str], strict: bool
) -> tuple[type[BaseModel], dict[str, str]]:
    """The model of the arguments, and the names of its fields mapped to the parameters they stand for."""
    names: dict[str, str] = {}
    fields: dict[str, Any] = {}
    taken = {parameter.name for parameter in parameters}
    for parameter in parameters:
        name = _field_name(parameter.name, taken)
        names[name] = parameter.name
        fields[name] = _field(parameter, hints[parameter.name], descriptions.get(parameter.name))
    config = ConfigDict(extra="forbid", protected_namespaces=(), strict=strict)
    try:
        model = create_model("ToolInput", __config__=config, **fields)
        model.model_rebuild(raise_errors=True)
    except PydanticUserError as error:
        raise ValueError(f"an annotation cannot be checked: {_first_line(error)}") from error
    _check_fields(model, names)
    return model, names


def _check_fields(model: type[BaseModel], names: Mapping[str, str]) -> None:
    """See to it that each parameter is one field, and that no two have the same name for the model."""
    for inside, parameter in names.items():
        if inside not in model.model_fields:  # ClassVar, or Final with a default
            raise ValueError(f"parameter {parameter} has an annotation that makes it a constant")
    aliases = [field.alias for field in model.model_fields.values()]
    if twice := next((alias for alias in aliases if aliases.count(alias) > 1), None):
        raise ValueError(f"two parameters are called {twice}")


def _first_line(error: PydanticUserError) -> str:
    return error.message.splitlines()[0]


def _field_name(name: str, taken: set[str]) -> str:
    """Models refuse or shadow some names (private ones, their own attributes); such a parameter gets another inside."""
    if not name.startswith("_") and not hasattr(BaseModel, name):
        return name
    inside = f"field_{name.strip('_')}"
    while inside in taken or hasattr(BaseModel, inside):
        inside += "_"
    taken.add(inside)
    return inside


def _field(parameter: inspect.Parameter, hint: Any, description: str | None) -> Any:
    """The field definition: annotation with everything known about it, and the default."""
    default = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        hint, default = Annotated[hint, default], PydanticUndefined
    own = FieldInfo.from_annotation(hint).validation_alias
    alias = own if isinstance(own, str) else parameter.name
    extra = Field(alias=alias) if description is None else Field(alias=alias, description=description)
    annotation = Annotated[hint, extra]
    return annotation if default is PydanticUndefined else (annotation, default)


def _validator(
    model: type[BaseModel], names: Mapping[str, str], strict: bool
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    validator = model.__pydantic_validator__
    if strict:
        # Strict rules for Python objects would refuse what JSON has no type for, such as dates and enums.
        return lambda given: _named(validator.validate_json(to_json(given)).__dict__, names)
    validate = validator.validate_python
    if all(inside == name for inside, name in names.items()):
        return lambda given: validate(given).__dict__
    return lambda given: _named(validate(given).__dict__, names)


def _named(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names[inside]: value for inside, value in values.items()}


def _parameters_schema(model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_JsonSchema)
    except PydanticUserError as error:
        raise ValueError(f"an annotation cannot be described: {_first_line(error)}") from error
    except KeyError as error:  # how pydantic meets a reference that it did not make
        raise ValueError(f"the schema refers to {error}, which it does not contain") from error
    return inline_schema(schema)


def return_schema(hint: Any) -> dict[str, Any] | None:
    """The JSON schema of what a function returns, without titles, or None when there is nothing to say."""
    if hint in (None, types.NoneType, Any, object):
        return None
    try:
        schema = TypeAdapter(hint).json_schema(mode="serialization", schema_generator=_JsonSchema)
        return inline_schema(schema, titles=False) or None
    except (PydanticUserError, ValueError, NameError, KeyError):
        return None


def inline_schema(schema: Mapping[str, Any], *, titles: bool = True) -> dict[str, Any]:
    """Return ``schema`` with every ``$ref`` replaced by what it names and without ``$defs`` and ``discriminator``.

    Raises ValueError for a recursive definition and for a reference that leads elsewhere.
    """
    return _Inliner(schema.get("$defs", {}), titles).schema(schema, ())


@dataclass(frozen=True, slots=True)
class _Inliner:
    definitions: Mapping[str, Any]
    titles: bool

    def schema(self, node: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        """One schema; ``inside`` names the definitions it is part of."""
        result: dict[str, Any] = {}
        reference = node.get("$ref")
        if reference is not None:
            name = self._name(reference, inside)
            result = self.schema(self.definitions[name], (*inside, name))
        dropped = {"$ref", "$defs", "discriminator"} if self.titles else {"$ref", "$defs", "discriminator", "title"}
        own = {key: self._value(key, value, inside) for key, value in node.items() if key not in dropped}
        return {**result, **own}

    def _name(self, reference: str, inside: tuple[str, ...]) -> str:
        name = reference.removeprefix("#/$defs/")
        if name not in self.definitions:
            raise ValueError(f"the schema refers to {reference}, which it does not contain")
        if name in inside:
            raise ValueError(f"the schema of {name} contains itself; a tool cannot take a recursive model")
        return name

    def _value(self, key: str, value: Any, inside: tuple[str, ...]) -> Any:
        if key in _VALUES:
            return value
        if key in _NAMED_SCHEMAS:
            return {name: self._nested(schema, inside) for name, schema in value.items()}
        return self._nested(value, inside)

    def _nested(self, value: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            return self.schema(value, inside)
        return [self._nested(item, inside) for item in value] if isinstance(value, list) else value
