"""Facts to JSON Schema (draft 2020-12). Says exactly what the protocol's own stable schema says, in fewer words.

Besides, as annotations that validators pass over: "x-lenient" on a field, as the facts have it, and on a union "x-tag"
with "x-variants", the tags of its first branches; then comes the branch for any other tag, then those without a tag.
"""

from __future__ import annotations

from typing import Any

from conformance.protocol.facts import Type, definition, facts, is_stable, stable

Schema = dict[str, Any]


def json_schema(name: str) -> Schema:
    """The JSON Schema of a definition, complete in itself: with "$defs" of everything that it refers to."""
    definitions: dict[str, Schema] = {}
    waiting = [name]
    while waiting:
        following = waiting.pop()
        if following not in definitions:
            definitions[following] = schema_of(definition(following))
            waiting.extend(references(definitions[following]))
    return {"$ref": f"#/$defs/{name}", "$defs": definitions}


def schema_of(type_: Type) -> Schema:
    """One type as a JSON Schema; what is unstable is left out."""
    schema = _nullable(_schema_of(type_)) if type_.get("nullable") else _schema_of(type_)
    return {**schema, "x-lenient": type_["lenient"]} if "lenient" in type_ else schema


def references(schema: Any) -> list[str]:
    """The names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        own = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
        return own + [name for value in schema.values() for name in references(value)]
    return [name for item in schema for name in references(item)] if isinstance(schema, list) else []


def _nullable(schema: Schema) -> Schema:
    if "type" not in schema or "anyOf" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def _schema_of(type_: Type) -> Schema:
    if "ref" in type_:
        return {"$ref": f"#/$defs/{type_['ref']}"}
    match type_["type"]:
        case "any":
            return {}
        case "array":
            array: Schema = {"type": "array", "items": schema_of(type_["items"])}
            return {**array, "minItems": type_["minItems"]} if "minItems" in type_ else array
        case "map":
            values = schema_of(type_["values"])
            return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
        case "enum":
            return {"type": type_["of"]} if "open" in type_ else {"enum": type_["values"]}
        case "choice":
            return {"anyOf": [schema_of(choice) for choice in type_["of"]]}
        case "object":
            return _object(type_)
        case scalar:
            return {"type": scalar, **{key: type_[key] for key in ("minimum", "maximum", "minLength") if key in type_}}


def _object(type_: Type) -> Schema:
    schema = _fields(type_["fields"])
    if "one-of" in type_:
        schema["oneOf"] = [schema_of(choice) for choice in type_["one-of"]]
    if "tag" in type_:
        variants = stable(type_["variants"])
        schema["anyOf"] = [
            *(_variant(type_["tag"], value, payload) for value, payload in variants.items()),
            _other(type_["tag"], list(variants), type_["other"]),
            *(schema_of(untagged) for untagged in type_.get("untagged", [])),
        ]
        schema["x-tag"] = type_["tag"]
        schema["x-variants"] = list(variants)
    return schema


def _fields(fields: dict[str, Type]) -> Schema:
    known = stable(fields)
    schema: Schema = {"type": "object"}
    if known:
        schema["properties"] = {name: schema_of(field) for name, field in known.items()}
    required = [name for name, field in known.items() if field.get("required")]
    return {**schema, "required": required} if required else schema


def _variant(tag: str, value: str, payload: Type) -> Schema:
    schema: Schema = {"type": "object", "properties": {tag: {"const": value}}, "required": [tag]}
    return {**schema, "allOf": [schema_of(payload)]} if payload != {"type": "object", "fields": {}} else schema


def _other(tag: str, variants: list[str], rest: Type) -> Schema:
    schema = _object(rest)
    schema["properties"] = {tag: {"type": "string", "not": {"enum": variants}}, **schema.get("properties", {})}
    schema["required"] = [tag, *schema.get("required", [])]
    return schema


def stable_definitions() -> list[str]:
    """The names of all definitions that the stable schema has."""
    return [name for name, type_ in facts()["definitions"].items() if is_stable(type_)]
